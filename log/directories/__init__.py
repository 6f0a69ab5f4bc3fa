"""Log directories: what lies in one beside the partitions, who holds it, what it remembers across restarts."""
