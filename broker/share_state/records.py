"""Records of `__share_group_state`, as Kafka writes and reads them.

The state of a share partition is its last snapshot with all updates after it. Source: Kafka's
`ShareCoordinatorRecordHelpers`, `ShareGroupOffset`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trimaran.broker.share_state.states import DeliveryState, StateBatch
from trimaran.log.batches.records import NewRecord
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset, SharePartitionKey, SnapshotEpoch, StateEpoch
from trimaran.wire.records import share_group_state as wire
from trimaran.wire.records.groups import (
    decode_group_value,
    encode_group_key,
    encode_group_value,
    group_key_type,
)
from trimaran.wire.records.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

_KNOWN_STATES = frozenset(DeliveryState)
# A `wire.StateBatch`, which ends with the count of its tagged fields.
_BATCH = struct.Struct(">qqbhB")


class StoredState(NamedTuple):
    """The state of one share partition, with absent numbers as in records (-1).

    `snapshot_epoch` counts the snapshots of the share partition. `created_ms` is the time of the last write that made a
    snapshot, `written_ms` of the last snapshot.
    """

    snapshot_epoch: SnapshotEpoch
    state_epoch: StateEpoch
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    created_ms: int
    written_ms: int


class SnapshotRecord(NamedTuple):
    """A key and its whole state; None if the state is deleted."""

    key: SharePartitionKey
    state: StoredState | None


class UpdateRecord(NamedTuple):
    """A key and the changes of its state. A start offset or leader epoch of -1 leaves the stored value unchanged."""

    key: SharePartitionKey
    snapshot_epoch: SnapshotEpoch
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


ShareRecord = SnapshotRecord | UpdateRecord


@dataclass(frozen=True, slots=True, eq=False)
class ShareWrite:
    """A write of the shard itself, without a request: snapshots of cold partitions, or the removal of states whose
    topics are deleted.
    """

    records: Sequence[ShareRecord]
    atomic: bool = False


class ShareRecordSerde:
    """A `RecordSerde`."""

    def encode(self, record: ShareRecord, now_ms: int) -> NewRecord:
        key: ShareSnapshotKey | ShareUpdateKey
        value: ShareSnapshotValue | ShareUpdateValue
        if isinstance(record, UpdateRecord):
            key = ShareUpdateKey(**record.key._asdict())
            value = _update_value(record)
        else:
            key = ShareSnapshotKey(**record.key._asdict())
            if record.state is None:
                return NewRecord(encode_group_key(key), None, now_ms)
            value = _snapshot_value(record.state)
        return NewRecord(encode_group_key(key), encode_group_value(value, 0), now_ms)

    def decode(self, key: bytes, value: bytes | None) -> ShareRecord | None:
        """Decodes a record as `RecordSerde.decode` does; an update without a value is malformed."""
        type_ = group_key_type(key)
        if type_ == ShareSnapshotKey.KEY:
            named = _key(ShareSnapshotKey.decode(key[2:], 0))
            if value is None:
                return SnapshotRecord(named, None)
            return SnapshotRecord(named, _state(decode_group_value(value, ShareSnapshotValue)))
        if type_ != ShareUpdateKey.KEY:
            return None
        named = _key(ShareUpdateKey.decode(key[2:], 0))
        if value is None:
            raise RemoteProtocolError("an update of a share partition has no value")
        return _update(named, decode_group_value(value, ShareUpdateValue))


def _key(key: ShareSnapshotKey | ShareUpdateKey) -> SharePartitionKey:
    return SharePartitionKey(key.group_id, key.topic_id, key.partition)


def _snapshot_value(state: StoredState) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=_written_batches(state.batches),
    )


def _update_value(record: UpdateRecord) -> ShareUpdateValue:
    return ShareUpdateValue(
        snapshot_epoch=record.snapshot_epoch,
        leader_epoch=record.leader_epoch,
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        state_batches=_written_batches(record.batches),
    )


def _written_batches(batches: Iterable[StateBatch]) -> EncodedArray:
    """Returns the encodings of `wire.StateBatch`; thousands of such objects would be created at once."""
    pack = _BATCH.pack
    return EncodedArray([pack(*batch, 0) for batch in batches])


def _state(value: ShareSnapshotValue) -> StoredState:
    return StoredState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=_batches(value.state_batches),
        created_ms=value.create_timestamp,
        written_ms=value.write_timestamp,
    )


def _update(key: SharePartitionKey, value: ShareUpdateValue) -> UpdateRecord:
    return UpdateRecord(
        key,
        value.snapshot_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
    )


def _batches(written: Iterable[wire.StateBatch]) -> tuple[StateBatch, ...]:
    batches = []
    for batch in written:
        if batch.delivery_state not in _KNOWN_STATES:
            raise RemoteProtocolError(
                f"records of a share partition in the unknown state {batch.delivery_state}"
            )
        state = DeliveryState(batch.delivery_state)
        batches.append(
            StateBatch(batch.first_offset, batch.last_offset, state, batch.delivery_count)
        )
    return tuple(batches)
