"""A broker: handlers, partitions, replication, groups."""
