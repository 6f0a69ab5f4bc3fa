"""What a broker does beside its requests: checkpoints, retention, compaction, moves between directories."""
