"""Durability: what must be synced, who syncs it, how far a log is durable, and what the failure of a disk does."""
