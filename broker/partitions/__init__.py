"""Partitions of this broker: leading, following, and what outlives both."""
