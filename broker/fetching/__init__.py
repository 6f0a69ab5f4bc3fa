"""Fetch beyond a log: sessions (KIP-227) and waiting for data."""
