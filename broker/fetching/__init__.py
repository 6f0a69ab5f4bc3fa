"""Fetch: its sessions (KIP-227), and fetches that wait for data."""
