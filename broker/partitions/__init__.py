"""Partitions of this broker: leader epochs, follower epochs, and the state that outlives both."""
