"""Client quotas and replication throttles of one node."""
