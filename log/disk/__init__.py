"""Disk access of this package: the few system calls, open files, and small files that are replaced as a whole."""
