"""One runtime for coordinators: a shard for each partition of an internal topic that this broker leads."""
