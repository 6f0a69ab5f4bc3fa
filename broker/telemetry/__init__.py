"""Metrics that clients push (KIP-714): who is asked for which, what may be pushed, and what is kept of it."""
