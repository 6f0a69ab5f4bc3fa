"""Compaction of a partition's log: the last value of every key is kept, and offsets do not change (Kafka's `LogCleaner`
and `Cleaner`).
"""
