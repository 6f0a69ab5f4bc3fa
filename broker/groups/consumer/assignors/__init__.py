"""How the partitions of a group are divided among its members. They are generators: the caller may pause between
pieces.
"""
