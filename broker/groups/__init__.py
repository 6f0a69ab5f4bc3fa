"""The group coordinator: groups and their offsets, in one shard per partition of `__consumer_offsets`."""
