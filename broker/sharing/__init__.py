"""Serves the records of led partitions to share groups: acquisition, locks, acknowledgement (KIP-932)."""
