"""What a broker does beside requests: checkpoints, retention, the log cleaner, moves between directories."""
