"""Formatting the directories of a node, and the voters that they begin with."""
