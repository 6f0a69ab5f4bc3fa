"""Replication from leaders: one fetcher for each leader, and its fetch session."""
