"""Log directories: their files other than partitions, their lock, and their memory across restarts."""
