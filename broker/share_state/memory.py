"""Bounds for the states of share partitions: the batches of each, and the approximate memory of all.

A write that exceeds a bound is refused; loaded states count but are never refused. Kafka bounds neither.
"""

from __future__ import annotations

from trimaran.broker.share_state.records import SnapshotRecord, StoredState
from trimaran.node.text.memory import text_bytes
from trimaran.wire.identity import SharePartitionKey

# The batches of one share partition. Its leader has at most 10,000 records in flight
# (group.share.partition.max.record.locks), and an older leader may have had others. A snapshot of 20 bytes per batch
# fits in one batch of the log, even with a long id of its group.
BATCHES_MAX = 20_000

# The bound for all share partitions of a broker: enough for a million batches, or 300,000 share partitions.
STATES_BYTES_MAX = 256 << 20

# The costs of a share partition without its group's id, and of a batch.
STATE_BYTES = 800
BATCH_BYTES = 180


# The size of a record without its group's id, and of a batch in it.
RECORD_BYTES = 150
RECORD_BATCH_BYTES = 20


def held_bytes(key: SharePartitionKey, state: StoredState | None) -> int:
    """Returns the approximate size of a state and its key."""
    if state is None:
        return 0
    return STATE_BYTES + text_bytes(key.group_id) + BATCH_BYTES * len(state.batches)


def encoded_bytes(record: SnapshotRecord) -> int:
    """Returns an upper bound of the size of a record in the log."""
    count = 0 if record.state is None else len(record.state.batches)
    return RECORD_BYTES + 4 * len(record.key.group_id) + RECORD_BATCH_BYTES * count
