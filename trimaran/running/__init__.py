"""A node as a process: its roles, its log lines, its end by a signal."""
