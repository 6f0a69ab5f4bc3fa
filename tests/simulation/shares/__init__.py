"""Simulation of share groups: brokers with share coordinators, share partitions, and members that read them."""
