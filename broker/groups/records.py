"""Creates and parses the records of `__consumer_offsets`.

Source: Kafka's `GroupCoordinatorRecordHelpers`: offsets are written at version 4, or at 1 if they have their own
expiry; groups at version 3. Offsets may be written at an older version for other readers of the topic; it lacks the
topic id, and before version 3 the leader epoch, as in Kafka 2.0 (`GroupMetadataManager.offsetCommitValue`); records of
consumer groups (`trimaran.broker.groups.consumer.records`) at version 0. Not implemented: share groups and streams
groups; a load skips their records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trimaran.broker.groups.classic.group import ClassicGroup
from trimaran.log.batches.records import NewRecord
from trimaran.wire.identity import NO_TIMESTAMP, TopicPartition
from trimaran.wire.records.consumer_groups import ConsumerGroupKey, ConsumerGroupValue
from trimaran.wire.records.groups import (
    ClassicKey,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_consumer_group_key,
    decode_consumer_group_value,
    decode_group_key,
    decode_group_metadata_value,
    decode_offset_commit_value,
    encode_group_key,
    encode_group_value,
)

OFFSETS_TOPIC = "__consumer_offsets"

KnowsTopic = Callable[[str, bytes], bool]
"""Returns whether the newest metadata has a topic with this name and id (with an id of zeros: with this name)."""


OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3

CONSUMER_GROUP_VALUE_VERSION = 0

GroupKey = ClassicKey | ConsumerGroupKey
GroupValue = OffsetCommitValue | GroupMetadataValue | ConsumerGroupValue


class GroupRecord(NamedTuple):
    """A key and its value; without a value it is a tombstone."""

    key: GroupKey
    value: GroupValue | None

    def encode(self, now_ms: int, offset_version: int = OFFSET_VALUE_VERSION) -> NewRecord:
        value = _encode_value(self.value, offset_version)
        return NewRecord(encode_group_key(self.key), value, now_ms)


@dataclass(frozen=True, slots=True)
class GroupRecordSerde:
    """A `RecordSerde` for the records of this coordinator. It reads every version."""

    offset_version: int = OFFSET_VALUE_VERSION

    def encode(self, record: GroupRecord, now_ms: int) -> NewRecord:
        return record.encode(now_ms, self.offset_version)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        group_key: GroupKey | None = decode_group_key(key)
        if (
            value is not None and type(group_key) is OffsetCommitKey
        ):  # nearly all rows of a large log
            return GroupRecord(group_key, decode_offset_commit_value(value))
        group_key = group_key or decode_consumer_group_key(key)
        if group_key is None:
            return None
        return GroupRecord(group_key, None if value is None else decode_value(group_key, value))


@dataclass(frozen=True, slots=True, eq=False)
class Tombstones:
    """Tombstones, to be written in order, in one or several batches; no request waits for them."""

    records: Sequence[GroupRecord]

    @property
    def atomic(self) -> bool:
        return False


def _encode_value(value: GroupValue | None, offset_version: int) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, GroupMetadataValue):
        return encode_group_value(value, GROUP_VALUE_VERSION)
    if not isinstance(value, OffsetCommitValue):
        return encode_group_value(value, CONSUMER_GROUP_VALUE_VERSION)
    has_expiry = value.expire_timestamp != NO_TIMESTAMP
    version = OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else offset_version
    return encode_group_value(value, version)


def decode_value(key: GroupKey, value: bytes) -> GroupValue:
    """Decodes the value of a record that is not a tombstone.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    if isinstance(key, OffsetCommitKey):
        return decode_offset_commit_value(value)
    if isinstance(key, GroupMetadataKey):
        return decode_group_metadata_value(value)
    return decode_consumer_group_value(key, value)


def group_record(group_id: str, value: GroupMetadataValue | None) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), value)


def offset_tombstone(group_id: str, key: TopicPartition) -> GroupRecord:
    """Returns the record that removes the group's committed offset of a partition."""
    of_group = OffsetCommitKey(group=group_id, topic=key.topic, partition=key.partition)
    return GroupRecord(of_group, None)


def group_value(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
    """Returns the value to store for the group, with the assignments of its generation."""
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name or ""),
                assignment=assignments.get(member.id, b""),
            )
            for member in group.members.values()
        ],
    )
