"""Levels of `metadata.version` at which something begins to be written. Source: Kafka 4.3's `MetadataVersion`."""

from __future__ import annotations

OLDEST = 7  # 3.3-IV3, the oldest that Kafka 4 reads
SCRAM = 11  # 3.5-IV2
TRANSACTIONS = 13  # 3.6-IV1, transactions of metadata records (KIP-868)
DELEGATION_TOKENS = 14  # 3.6-IV2
CONTROLLER_REGISTRATION = 15  # 3.7-IV0, KIP-919
DIRECTORY_ASSIGNMENT = 17  # 3.7-IV2, KIP-858
ELIGIBLE_LEADER_REPLICAS = 23  # 4.0-IV1, KIP-966
CORDONED_LOG_DIRS = 30  # 4.3-IV0
LATEST = 30  # 4.3-IV0

# Levels that changed what records hold: going below one of them would lose something.
CHANGED_METADATA = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})


def loses_metadata(present: int, wanted: int) -> bool:
    """Whether a downgrade from `present` to `wanted` passes a level that changed what records hold."""
    return any(wanted < level <= present for level in CHANGED_METADATA)
