"""Assignors divide the partitions of a group among its members. They are generators: the caller may pause between
pieces.
"""
