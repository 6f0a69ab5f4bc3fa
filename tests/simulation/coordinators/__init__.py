"""The simulation of coordinators: their real shards on top of the simulated brokers, with clients that speak bytes."""
