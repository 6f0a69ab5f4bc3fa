"""The common runtime of coordinators: a shard for each partition of an internal topic that this broker leads."""
