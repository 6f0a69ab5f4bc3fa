"""Quotas of clients and throttles of replication, on one node."""
