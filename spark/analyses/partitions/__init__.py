"""Analyses of partitions, their leaders and their in-sync replicas."""
