"""The demo: a whole cluster with a ZooKeeper mirror, real clients, kills, and a Spark report at the end."""
