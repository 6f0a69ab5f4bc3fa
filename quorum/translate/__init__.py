"""Conversion between the Raft core's flat messages and the wire structs, which nest topics and partitions. Source:
Kafka's `RaftUtil`.
"""
