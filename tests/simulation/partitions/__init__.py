"""The simulation of partitions: brokers with the real partition layer on simulated disks, network and time."""
