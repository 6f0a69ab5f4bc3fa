"""Records of `__consumer_offsets`: the records of each kind of group, by the types that the kind declares, and offsets.

Source: Kafka's `GroupCoordinatorRecordSerde` and `GroupCoordinatorRecordHelpers`: offsets are written at version 4, or
at 1 if they have their own expiry. They may be written at an older version for other readers of the topic; such a
version lacks the topic id, and below version 3 the leader epoch, as in Kafka 2.0
(`GroupMetadataManager.offsetCommitValue`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trimaran.broker import events
from trimaran.log.batches.records import NewRecord
from trimaran.wire.identity import NO_TIMESTAMP, TopicPartition
from trimaran.wire.records.groups import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_key,
    encode_group_value,
    group_key_type,
    group_value_decoder,
)
from trimaran.wire.schema import Message

OFFSETS_TOPIC = "__consumer_offsets"

KnowsTopic = Callable[[str, bytes], bool]
"""Returns whether the newest metadata has a topic with this name and id (with an id of zeros: with this name)."""


OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordType:
    """The classes of the keys and values of one type, which is the number of the key's class, and the version in which
    values are written. Every version can be read.
    """

    key: type[Message]
    value: type[Message]
    version: int = 0


class GroupRecord(NamedTuple):
    """A key and its value; a record without a value is a tombstone."""

    key: Message
    value: Message | None


class GroupRecordSerde:
    """A `RecordSerde` for the records of this coordinator. It reads every version."""

    def __init__(
        self, types: Iterable[RecordType], offset_version: int = OFFSET_VALUE_VERSION
    ) -> None:
        """`types` are the types of records of all kinds of groups."""
        self._versions = {}
        self._readers = {}
        # Before Kafka 0.9 the keys of offsets had another type, but the same format.
        offsets = RecordType(OffsetCommitKey, OffsetCommitValue, offset_version)
        for type_ in (offsets, *types):
            self._versions[type_.key.KEY] = type_.version
            reader = type_.key.decoder(0), type_.value
            self._readers[_prefix(type_.key)] = reader
        self._readers[_prefix(LegacyOffsetCommitKey)] = self._readers[_prefix(OffsetCommitKey)]
        self._skipped: set[int] = set()

    def encode(self, record: GroupRecord, now_ms: int) -> NewRecord:
        key, value = record
        if value is None:
            return NewRecord(encode_group_key(key), None, now_ms)
        version = self._versions[key.KEY]
        if isinstance(value, OffsetCommitValue) and value.expire_timestamp != NO_TIMESTAMP:
            version = OFFSET_VALUE_VERSION_WITH_EXPIRY
        return NewRecord(encode_group_key(key), encode_group_value(value, version), now_ms)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        """Decodes a record as `RecordSerde.decode` does: skips types that no kind declares, like Kafka's
        `CoordinatorLoaderImpl`; a later version may have written them before a downgrade.
        """
        reader = self._readers.get(key[:2])
        if reader is None:
            self._skip(group_key_type(key))
            return None
        decode_key, cls = reader
        if value is None:
            return GroupRecord(decode_key(key[2:]), None)
        return GroupRecord(decode_key(key[2:]), group_value_decoder(cls, value[:2])(value[2:]))

    def _skip(self, key_type: int) -> None:
        """Logs a type at its first record only, because there may be millions of records."""
        if key_type not in self._skipped:
            self._skipped.add(key_type)
            events.GROUP_RECORDS_SKIPPED.log(log, type=key_type)


@dataclass(frozen=True, slots=True, eq=False)
class Tombstones:
    """Tombstones that are written in order, in one or several batches; no request waits for them."""

    records: Sequence[GroupRecord]

    @property
    def atomic(self) -> bool:
        return False


def offset_tombstone(group_id: str, key: TopicPartition) -> GroupRecord:
    """Returns the record that removes the group's committed offset of a partition."""
    of_group = OffsetCommitKey(group=group_id, topic=key.topic, partition=key.partition)
    return GroupRecord(of_group, None)


def _prefix(cls: type[Message]) -> bytes:
    return cls.KEY.to_bytes(2, "big")
