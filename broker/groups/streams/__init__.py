"""Streams groups: members that run the tasks of a topology (KIP-1071). Records, rules and descriptions; `kind.py` is
the line of the table of kinds.
"""
