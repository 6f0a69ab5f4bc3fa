"""Metrics that clients push (KIP-714): each client's subscriptions, the checks of a push, and the newest values."""
