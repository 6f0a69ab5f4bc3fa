"""Log directories: their lock, and the files outside of partitions that keep state across restarts."""
