"""The state of a shard of `__consumer_offsets`: the last value of every key.

`replay` and `complete_transaction` are the only mutators, both for records just written and for records loaded after a
fail-over. Sessions, waiting requests and groups without any record are not part of it. A group without a record of its
own exists from its first offset on (Kafka's "simple" group). Every kind of group has offsets; all other records are
applied by the kind that declares their type. Source: the `replay` methods of Kafka's `OffsetMetadataManager` and
`GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

from trimaran.broker.coordination.transactions import PendingTransaction, PendingTransactions
from trimaran.broker.groups.memory import (
    OFFSET_BYTES,
    ByGroup,
    GroupAccount,
    group_bytes,
    topic_bytes,
)
from trimaran.broker.groups.records import GroupRecord, RecordType
from trimaran.node.replicated.state_machine import Producer
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, ProducerId, TopicPartition
from trimaran.wire.records.groups import OffsetCommitKey, OffsetCommitValue, encode_group_key
from trimaran.wire.schema import Message

# The maximum number of a transaction's offsets that are applied with its marker, about 3 ms; a walk applies the
# remaining ones.
APPLIED_AT_ONCE = 2_000

_PendingKey = tuple[str | int | bytes, ...]

Offsets = dict[str, dict[int, OffsetCommitValue]]
"""Committed offsets by topic and partition."""


@dataclass(frozen=True, eq=False)
class StoredKind:
    """The records of one kind of group, and how the store applies them.

    `name` is the type of the group for clients, as in ListGroups. `replay` applies a record of the kind: it changes
    `GroupStore.of(name)`, and removes a new group from `emptied`; it never fails. `has_members` returns whether a
    stored group has members.
    """

    name: str
    records: tuple[RecordType, ...]
    replay: Callable[[GroupStore, GroupRecord], None]
    has_members: Callable[[Any], bool]


class GroupStore:
    """Groups and offsets by group id; empty inner dictionaries are removed."""

    def __init__(self, kinds: Iterable[StoredKind], account: GroupAccount | None = None) -> None:
        self.account = GroupAccount() if account is None else account
        self._kinds = {kind.name: kind for kind in kinds}
        self._groups = {name: ByGroup[Any](self.account) for name in self._kinds}
        self._replays = {
            type_.key.KEY: kind.replay for kind in self._kinds.values() for type_ in kind.records
        }
        self.offsets = ByGroup[Offsets](self.account)
        # Groups without a record whose last offset was removed: they are still listed until they expire or are deleted.
        self.emptied = ByGroup[bool](self.account)
        self._pending = PendingTransactions[_PendingKey, GroupRecord](
            itemgetter(0), _metadata_bytes, _known_bytes
        )
        # Committed transactions of which some offsets are not applied yet.
        self._applied_later: set[PendingTransaction[_PendingKey]] = set()

    def of(self, kind: str) -> ByGroup[Any]:
        """Returns the groups of one kind, as given by its records."""
        return self._groups[kind]

    def unload(self) -> None:
        """Releases the state value by value: freeing a million values in one call would block the interpreter."""
        for groups in self._groups.values():
            while groups:
                groups.popitem()
        while self.offsets:
            for partitions in self.offsets.popitem()[1].values():
                while partitions:
                    partitions.popitem()

    def replay(self, offset: Offset, record: GroupRecord, producer: Producer | None = None) -> None:
        """Applies one record, now or when the producer's transaction is committed; never fails."""
        if producer is None:
            if self._pending.keys and isinstance(record.key, OffsetCommitKey):
                self._pending.supersede(_hashable(record.key), offset)
                self._note_pending()
            self._apply(record)
        else:
            self._pending.add(offset, producer, _hashable(record.key), record)
            self._note_pending()

    def complete_transaction(self, producer: Producer, is_commit: bool) -> Iterator[None] | None:
        """Ends the producer's transaction. Returns None, or if it has many offsets, a walk that applies or drops the
        others, one at each step. They stay pending until then.
        """
        transaction = self._pending.ending(producer.id)
        if transaction is None:
            return None
        walk = self._completing(transaction, is_commit)
        for _ in islice(walk, APPLIED_AT_ONCE):
            pass
        if not transaction.keys:
            return None
        if is_commit:
            self._applied_later.add(transaction)
        return walk

    def _completing(
        self, transaction: PendingTransaction[_PendingKey], is_commit: bool
    ) -> Iterator[None]:
        for pending in self._pending.take(transaction, is_commit):
            if is_commit:
                self._apply(pending.value)
            self._note_pending()
            yield None
        self._applied_later.discard(transaction)

    def is_completing(self, group_id: str) -> bool:
        """Returns whether offsets of the group are committed, but not applied yet."""
        return any(group_id in transaction.parts for transaction in self._applied_later)

    def _note_pending(self) -> None:
        self.account.pending_metadata_bytes = self._pending.weight
        self.account.pending_known_bytes = self._pending.key_weight

    def _apply(self, record: GroupRecord) -> None:
        key, value = record
        if isinstance(key, OffsetCommitKey):
            if isinstance(value, OffsetCommitValue):
                try:
                    partitions = self.offsets[key.group][key.topic]
                except KeyError:
                    partitions = self._new_topic(key)
                before = partitions.get(key.partition)
                if before is None:
                    self.note_offsets(1)
                if value.metadata or before is not None:
                    self.note_metadata(before, value)
                partitions[key.partition] = value
            else:
                self._remove_offset(key)
        else:
            self._replays[key.KEY](self, record)

    def _new_topic(self, key: OffsetCommitKey) -> dict[int, OffsetCommitValue]:
        """Returns the dictionary for the first offset of a group and topic."""
        if key.group not in self.offsets:
            self.offsets[key.group] = {}
            self.emptied.take(key.group)
        self.account.known_bytes += topic_bytes(key.topic)
        partitions = self.offsets[key.group][key.topic] = {}
        return partitions

    def note_offsets(self, more: int) -> None:
        """Counts offsets of partitions that had none; a negative number counts removed ones."""
        self.account.known_bytes += OFFSET_BYTES * more

    def note_metadata(self, before: OffsetCommitValue | None, after: OffsetCommitValue) -> None:
        """Counts the metadata of an offset that replaces another one."""
        more = text_bytes(after.metadata) - (0 if before is None else text_bytes(before.metadata))
        self.account.offset_metadata_bytes += more

    def _remove_offset(self, key: OffsetCommitKey) -> None:
        topics = self.offsets.get(key.group, {})
        partitions = topics.get(key.topic, {})
        removed = partitions.pop(key.partition, None)
        if removed is None:
            return
        self.note_offsets(-1)
        self.account.offset_metadata_bytes -= text_bytes(removed.metadata)
        if not partitions:
            del topics[key.topic]
            self.account.known_bytes -= topic_bytes(key.topic)
        if topics:
            return
        del self.offsets[key.group]
        if not self._has_group(key.group):
            self.emptied[key.group] = True

    def _has_group(self, group_id: str) -> bool:
        """Returns whether the group exists by a record of any kind."""
        return any(group_id in groups for groups in self._groups.values())

    def offset(self, group_id: str, key: TopicPartition) -> OffsetCommitValue | None:
        """Returns the group's committed offset for the partition, or None."""
        return self.offsets.get(group_id, {}).get(key.topic, {}).get(key.partition)

    def is_of_other(self, name: str, group_id: str) -> bool:
        """Returns whether the group exists by the records of a kind other than `name`."""
        return any(group_id in self._groups[other] for other in self._kinds if other != name)

    def other_has_members(self, name: str, group_id: str) -> bool:
        """Returns whether the group has members by the records of a kind other than `name`."""
        return any(
            kind.has_members(self._groups[other][group_id])
            for other, kind in self._kinds.items()
            if other != name and group_id in self._groups[other]
        )

    def group_ids(self, *more: Collection[str]) -> Iterator[str]:
        """Yields every group that is in `more` or in this store at the time of the call."""
        seen: list[Container[str]] = []
        for known in (*more, *self._groups.values(), self.offsets, self.emptied):
            for group_id in list(known):
                if not any(group_id in before for before in seen):
                    yield group_id
            seen.append(known)

    def has_had_offsets(self, group_id: str) -> bool:
        """Returns whether the group exists because it has, or had, offsets."""
        return group_id in self.offsets or group_id in self.emptied

    def offset_count(self, group_id: str) -> int:
        """Returns the number of committed offsets of the group."""
        return sum(map(len, self.offsets.get(group_id, {}).values()))

    def is_pending(self, group_id: str, key: TopicPartition) -> bool:
        """Returns whether an open transaction commits an offset for the partition (KIP-447)."""
        return (group_id, *key) in self._pending

    def pends(self, producer_id: ProducerId, group_id: str, key: TopicPartition) -> bool:
        """Returns whether the producer's open transaction commits an offset for the partition."""
        return self._pending.has(producer_id, (group_id, *key))

    def pending_offsets(self) -> Iterator[tuple[str, TopicPartition, OffsetCommitValue]]:
        """Yields `(group, partition, value)` of open transactions, each with its current value: records may be replayed
        in between.
        """
        for key in list(self._pending.keys):
            if key not in self._pending:
                continue
            record_key, value = self._pending.last(key)
            if isinstance(record_key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                partition = TopicPartition(record_key.topic, record_key.partition)
                yield record_key.group, partition, value

    def has_pending(self, group_id: str) -> bool:
        """Returns whether open transactions commit offsets of the group."""
        return group_id in self._pending.parts

    def offsets_of(self, group_id: str) -> Iterator[tuple[TopicPartition, OffsetCommitValue]]:
        """Yields all of a group's offsets with their current values: records may be replayed in between."""
        for topic in list(self.offsets.get(group_id, {})):
            yield from self.offsets_of_topic(group_id, topic)

    def offsets_of_topic(
        self, group_id: str, topic: str
    ) -> Iterator[tuple[TopicPartition, OffsetCommitValue]]:
        """Yields a group's offsets of one topic, like `offsets_of`."""
        partitions = self.offsets.get(group_id, {}).get(topic, {})
        for partition in list(partitions):
            if (value := partitions.get(partition)) is not None:
                yield TopicPartition(topic, partition), value

    def has_room_for(self, group_id: str) -> bool:
        """Returns whether the group is known, or the broker has room for it."""
        return self.knows(group_id) or group_bytes(group_id) <= self.account.known_room()

    def check_room_for(self, group_id: str) -> None:
        """Raises KafkaError GROUP_MAX_SIZE_REACHED unless `has_room_for` returns True."""
        if not self.has_room_for(group_id):
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The groups and offsets of this broker take as much memory as they may: delete groups that are not in "
                "use, or use the id of one that exists.",
            )

    def knows(self, group_id: str) -> bool:
        return (
            self._has_group(group_id)
            or group_id in self.offsets
            or group_id in self.emptied
            or self.has_pending(group_id)
        )


class OffsetsRoom:
    """Decides for each offset of a commit, in order, whether the broker has room: for its metadata, and for a new
    offset; with the `producer_id` of a transaction, for one more pending offset.
    """

    def __init__(
        self, store: GroupStore, group_id: str, producer_id: ProducerId | None = None
    ) -> None:
        self._store = store
        self._group_id = group_id
        self._producer_id = producer_id
        self._taken = 0
        # The room for new offsets, computed when the first one arrives.
        self._known_room: int | None = None

    def refusal(self, key: TopicPartition, metadata: str) -> ErrorCode:
        """Returns NONE, or the error code for an offset without room."""
        store, before = self._store, self._store.offset(self._group_id, key)
        if self._producer_id is None:
            is_new = before is None
        else:
            is_new = not store.pends(self._producer_id, self._group_id, key)
        more = _offset_bytes(self._group_id, key.topic) if is_new else 0
        if is_new and more > self._room_left():
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        # A pending offset exists in addition to the committed one until the marker arrives.
        replaced = before if self._producer_id is None else None
        if metadata and not self._metadata_fits(replaced, metadata):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if is_new:
            self._known_room = self._room_left() - more
        return ErrorCode.NONE

    def _room_left(self) -> int:
        if self._known_room is None:
            self._known_room = self._store.account.known_room()
        return self._known_room

    def _metadata_fits(self, replaced: OffsetCommitValue | None, metadata: str) -> bool:
        more = self._taken + text_bytes(metadata)
        more -= 0 if replaced is None else text_bytes(replaced.metadata)
        if not self._store.account.metadata_fits(more):
            return False
        self._taken = more
        return True


def _metadata_bytes(record: GroupRecord) -> int:
    return text_bytes(record.value.metadata) if isinstance(record.value, OffsetCommitValue) else 0


def _known_bytes(key: _PendingKey) -> int:
    """Returns the size of a pending record: each has its own copies of names from its request."""
    return _offset_bytes(str(key[0]), str(key[1])) if len(key) == 3 else OFFSET_BYTES


def _offset_bytes(group_id: str, topic: str) -> int:
    """Returns the maximum size of an offset: the size of the first offset of its group and topic."""
    return group_bytes(group_id) + topic_bytes(topic) + OFFSET_BYTES


def _hashable(key: Message) -> _PendingKey:
    if isinstance(key, OffsetCommitKey):
        return key.group, key.topic, key.partition
    return (encode_group_key(key),)
