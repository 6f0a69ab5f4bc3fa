"""The demo: a whole cluster with a ZooKeeper mirror, real clients, kills, and a report of its logs at the end."""
