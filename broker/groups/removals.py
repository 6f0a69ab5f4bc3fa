"""The removals of a shard, in the order of their requests: offsets of deleted topics, expired offsets and groups,
deleted groups. Removals of any size are written in pieces (`walks`).

Source: Kafka's `OffsetMetadataManager`, `GroupMetadataManager.maybeDeleteGroup`, which write everything in one
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.kinds import GroupsOfKind
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.records import GroupRecord, KnowsTopic, offset_tombstone
from trimaran.broker.groups.store import GroupStore
from trimaran.broker.groups.walks import RECORDS_PER_PIECE, Walk, Walks
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_TIMESTAMP
from trimaran.wire.records.groups import OffsetCommitValue


class Removals:
    """Removes offsets and groups of all kinds; `group_ids` yields the groups of the shard."""

    def __init__(
        self,
        store: GroupStore,
        kinds: Collection[GroupsOfKind],
        kind_of: Callable[[str], GroupsOfKind],
        group_ids: Callable[[], Iterator[str]],
        limits: GroupLimits,
        knows_topic: KnowsTopic,
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._kind_of = kind_of
        self._group_ids = group_ids
        self._limits = limits
        self._knows_topic = knows_topic
        self._walks = Walks()
        self._with_gone_topics: list[str] = []
        # The topics deleted since the last walk for deleted topics began: ids by name.
        self._deleted: dict[str, set[bytes]] = {}

    def __bool__(self) -> bool:
        """Returns whether there is anything left to remove."""
        return bool(self._walks)

    def piece(self) -> list[GroupRecord]:
        """Returns the records to write next."""
        return self._walks.piece()

    def give_up(self) -> None:
        """Drops pending removals: the next search for expired offsets finds them again."""
        self._walks.clear()
        self._deleted.clear()

    # -- deleted topics

    def find_gone_topics(self) -> None:
        """Finds groups with offsets of topics that were deleted while no broker served the shard. Runs in a thread."""
        self._with_gone_topics = [
            group_id
            for group_id in self._store.offsets
            if has_gone_topics(self._store, group_id, self._knows_topic)
        ]

    def loaded(self) -> None:
        """Begins to remove the offsets that were found during the load."""
        self._walks.add(self._of_gone_topics())
        self._add_kinds()

    def topics_deleted(self, topic_ids: Mapping[str, bytes]) -> None:
        """Begins to remove the offsets of deleted topics, given by name and deleted id."""
        if not self._deleted:
            self._walks.add(self._of_deleted_topics())
            self._add_kinds()
        for name, topic_id in topic_ids.items():
            self._deleted.setdefault(name, set()).add(topic_id)

    def _add_kinds(self) -> None:
        for kind in self._kinds:
            self._walks.add(kind.of_gone_topics())

    def _of_gone_topics(self) -> Walk:
        """Yields tombstones for the offsets that were found during the load."""
        yield from of_gone_topics(self._store, self._with_gone_topics, self._knows_topic)
        yield from pending_of_gone_topics(self._store, self._knows_topic)

    def _of_deleted_topics(self) -> Walk:
        """Yields tombstones for all topics that were deleted before the walk begins."""
        deleted, self._deleted = self._deleted, {}
        yield from of_deleted_topics(self._store, deleted)
        yield from pending_of_deleted_topics(self._store, deleted)

    # -- expiry

    def expire(self, at: Instant) -> None:
        """Begins a search for expired offsets, and for groups left without offsets."""
        self._walks.add(self._expiring(at))

    def _expiring(self, at: Instant) -> Walk:
        for group_id in self._group_ids():
            yield None
            yield from self._expired(group_id, at)
            # The offsets removed by this piece are still in the store.
            if not self._store.has_pending(group_id) and all(self._expired(group_id, at)):
                yield from self._kind_of(group_id).expired(group_id, at)

    def _expired(self, group_id: str, at: Instant) -> Walk:
        return expired(
            self._kind_of(group_id),
            self._store,
            group_id,
            self._limits,
            at.now_ms,
            self._knows_topic,
        )

    # -- deletion

    def delete_groups(self, group_ids: Iterable[str]) -> Result[GroupRecord, dict[str, ErrorCode]]:
        """Deletes groups without members, and their offsets, up to the size of a piece. Groups without a code in
        the result must be deleted again after the write.
        """
        records: list[GroupRecord] = []
        codes: dict[str, ErrorCode] = {}
        for group_id in group_ids:
            if len(records) >= RECORDS_PER_PIECE:
                break
            is_known = self._kind_of(group_id).has(group_id) or self._store.knows(group_id)
            if not is_known:
                codes[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
            elif not all(kind.is_empty(group_id) for kind in self._kinds):
                codes[group_id] = ErrorCode.NON_EMPTY_GROUP
            else:
                tombstones = self._tombstones(group_id)
                records += islice(tombstones, RECORDS_PER_PIECE - len(records))
                if next(tombstones, None) is None:
                    codes[group_id] = ErrorCode.NONE
        return Result(records, codes, atomic=False)

    def _tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        """Yields tombstones, that of the group last: if the log ends in between, the group can be deleted again."""
        yield from offsets_of_group(self._store, group_id)
        for kind in reversed(tuple(self._kinds)):
            yield from kind.tombstones(group_id)


def of_gone_topics(store: GroupStore, group_ids: Iterable[str], knows_topic: KnowsTopic) -> Walk:
    """Yields tombstones for offsets of deleted topics, even if their names exist again."""
    for group_id in group_ids:
        yield None
        for key, value in store.offsets_of(group_id):
            yield (
                offset_tombstone(group_id, key)
                if not knows_topic(key.topic, value.topic_id)
                else None
            )


def has_gone_topics(store: GroupStore, group_id: str, knows_topic: KnowsTopic) -> bool:
    """Returns whether `of_gone_topics` would find any offset."""
    for topic, offsets in store.offsets.get(group_id, {}).items():
        # Usually one id; two if the topic was deleted and created again.
        topic_ids = {value.topic_id for value in offsets.values()}
        if not all(knows_topic(topic, topic_id) for topic_id in topic_ids):
            return True
    return False


def pending_of_gone_topics(store: GroupStore, knows_topic: KnowsTopic) -> Walk:
    """Yields tombstones for offsets of deleted topics in open transactions, which then never take effect."""
    for group_id, key, value in store.pending_offsets():
        is_gone = not knows_topic(key.topic, value.topic_id)
        yield offset_tombstone(group_id, key) if is_gone else None


def of_deleted_topics(store: GroupStore, deleted: Mapping[str, Collection[bytes]]) -> Walk:
    """Yields tombstones for offsets of deleted topics, given by name and ids; offsets without an id are matched by
    name.
    """
    for group_id in list(store.offsets):
        yield None
        for topic in store.offsets.get(group_id, {}).keys() & deleted.keys():
            for key, value in store.offsets_of_topic(group_id, topic):
                if value.topic_id == NIL_UUID or value.topic_id in deleted[topic]:
                    yield offset_tombstone(group_id, key)


def pending_of_deleted_topics(store: GroupStore, deleted: Mapping[str, Collection[bytes]]) -> Walk:
    """Yields tombstones for offsets of deleted topics in open transactions."""
    for group_id, key, value in store.pending_offsets():
        ids = (*deleted[key.topic], NIL_UUID) if key.topic in deleted else ()
        yield offset_tombstone(group_id, key) if value.topic_id in ids else None


def offsets_of_group(store: GroupStore, group_id: str) -> Iterator[GroupRecord]:
    """Yields tombstones for all offsets of a group, including those in open transactions."""
    for key, _ in store.offsets_of(group_id):
        yield offset_tombstone(group_id, key)
    if store.has_pending(group_id):
        for pending_id, key, _ in store.pending_offsets():
            if pending_id == group_id:
                yield offset_tombstone(group_id, key)


def expired(
    kind: GroupsOfKind,
    store: GroupStore,
    group_id: str,
    limits: GroupLimits,
    now_ms: int,
    knows_topic: KnowsTopic,
) -> Walk:
    """Yields a tombstone for each offset that has expired (never while a group rebalances, invariant G6) or whose topic
    was deleted, and None for each other offset.
    """
    may_expire = kind.may_expire(group_id)
    for key, value in store.offsets_of(group_id):
        is_over = (
            may_expire
            and not store.is_pending(group_id, key)
            and not kind.is_subscribed_to(group_id, key.topic)
            and _is_over(kind, group_id, value, limits, now_ms)
        )
        is_over = is_over or not knows_topic(key.topic, value.topic_id)
        yield offset_tombstone(group_id, key) if is_over else None


def _is_over(
    kind: GroupsOfKind,
    group_id: str,
    value: OffsetCommitValue,
    limits: GroupLimits,
    now_ms: int,
) -> bool:
    if value.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= value.expire_timestamp
    return now_ms - kind.retained_from(group_id, value) >= limits.offsets_retention_ms
