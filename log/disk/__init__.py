"""How this package touches a disk: the few system calls, open files, small files written whole, the health of a
directory.
"""
