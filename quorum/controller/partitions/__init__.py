"""Decisions about topics and partitions: placement, leaders, ISRs and moves."""
