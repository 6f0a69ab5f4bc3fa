"""The simulation of coordinators: their real shards on simulated brokers, with clients that send encoded requests."""
