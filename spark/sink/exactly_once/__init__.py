"""Exactly-once delivery of streams: `protocol.py` decides, the other modules talk to the brokers."""
