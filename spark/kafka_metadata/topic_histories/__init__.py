"""Histories of topics and partitions."""
