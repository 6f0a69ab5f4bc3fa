"""A node as a process: its roles, its log lines, and its shutdown by a signal."""
