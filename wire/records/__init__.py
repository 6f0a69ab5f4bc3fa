"""Records kept in logs: metadata (KIP-631), groups and offsets."""
