"""Background work of a broker: checkpoints, retention, the log cleaner, moves between directories."""
