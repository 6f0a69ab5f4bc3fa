"""Metrics that clients push (KIP-714): the subscriptions of each client, the checks of a push, and the newest
values.
"""
