"""Log directories: their lock, and the files apart from partitions that keep state across restarts."""
