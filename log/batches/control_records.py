"""Typed control batches: transaction ends in partitions; leader changes, snapshot bounds, KRaft version and voters in
metadata logs.

```
control record := key { version int16, type int16 }, value { version int16, … }
    type, value: 0 abort, 1 commit: EndTxnMarker; 2 LeaderChangeMessage; 3 SnapshotHeaderRecord; 4 SnapshotFooterRecord;
                 5 KRaftVersionRecord; 6 VotersRecord
```

A batch of transaction ends holds one record and is transactional; a batch of Raft may hold several. A compacted batch
may be empty. Source: Kafka's `ControlRecordType`, `ControlRecordUtils`, `EndTransactionMarker`; layouts are in
`wire/messages/control.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import NO_LEADER_EPOCH, LeaderEpoch, Offset
from trimaran.wire.messages.control import (
    ControlType,
    ControlValue,
    decode_control_key,
    decode_control_value,
    encode_control_key,
    encode_control_value,
)

# The bound of a control batch. Records of voters with endpoints are the largest, about a hundred bytes for each voter;
# a megabyte is a thousand times the largest quorum.
CONTROL_BATCH_BYTES_MAX = 1 << 20


class ControlRecord(NamedTuple):
    """A control record. `value` is None if the type is UNKNOWN: it comes from a later Kafka and is skipped."""

    offset: Offset
    timestamp_ms: int
    type: ControlType
    value: ControlValue | None


def read_control_records(batch: BatchView) -> list[ControlRecord]:
    """Returns the records of a whole control batch.

    Raises:
        RemoteProtocolError: the batch is damaged, too large, or not a control batch.
    """
    if not batch.is_control:
        raise RemoteProtocolError(f"{batch!r} has no control records")
    try:
        records = decode_records(batch, CONTROL_BATCH_BYTES_MAX)
    except KafkaError as error:
        raise RemoteProtocolError(str(error)) from None
    found = []
    for record in records:
        kind = decode_control_key(record.key or b"")
        value = None
        if kind is not ControlType.UNKNOWN:
            value = decode_control_value(kind, record.value or b"")
        found.append(ControlRecord(record.offset, record.timestamp_ms, kind, value))
    return found


def build_control_batch(
    values: Iterable[tuple[ControlType, ControlValue]],
    *,
    timestamp_ms: int,
    base_offset: Offset = Offset(0),
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytes:
    """Returns a batch of Raft's control records, each in version 0; `trimaran.log.producers.marker` builds those of
    transactions.
    """
    records = [
        NewRecord(encode_control_key(kind), encode_control_value(value, 0), timestamp_ms)
        for kind, value in values
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)
