"""The group coordinator: classic groups and their offsets, one shard per partition of `__consumer_offsets`."""
