"""Compaction of a partition's log: the last value of every key stays, offsets stay what they are (Kafka's `LogCleaner`
and `Cleaner`).
"""
