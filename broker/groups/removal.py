"""What is written off: offsets of topics that are gone, offsets that have expired, and those of a whole group; as
tombstones.

Source: Kafka's `OffsetMetadataManager` (KIP-211 expiry, KIP-848 for topic ids).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.ports import KnowsTopic
from trimaran.broker.groups.records import GroupRecord, offset_tombstone
from trimaran.broker.groups.store import GroupStore
from trimaran.broker.groups.walks import Walk
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.records.groups import OffsetCommitValue

S = GroupState


def of_gone_topics(store: GroupStore, group_ids: Iterable[str], knows_topic: KnowsTopic) -> Walk:
    """Tombstones of the offsets of topics that were deleted, though there may be others of their names now."""
    for group_id in group_ids:
        yield None
        for topic, partition, value in store.offsets_of(group_id):
            yield (
                offset_tombstone(group_id, topic, partition)
                if not knows_topic(topic, value.topic_id)
                else None
            )


def has_gone_topics(store: GroupStore, group_id: str, knows_topic: KnowsTopic) -> bool:
    """Whether there is something for `of_gone_topics` to find."""
    for topic, offsets in store.offsets.get(group_id, {}).items():
        topic_ids = {value.topic_id for value in offsets.values()}  # one, or two after a deletion
        if not all(knows_topic(topic, topic_id) for topic_id in topic_ids):
            return True
    return False


def pending_of_gone_topics(store: GroupStore, knows_topic: KnowsTopic) -> Walk:
    """The same of offsets that open transactions commit: however these end, they will not count."""
    for group_id, topic, partition, value in store.pending_offsets():
        is_gone = not knows_topic(topic, value.topic_id)
        yield offset_tombstone(group_id, topic, partition) if is_gone else None


def of_deleted_topics(store: GroupStore, deleted: Mapping[str, Collection[bytes]]) -> Walk:
    """Of topics that are gone, by name and the ids that were deleted; offsets without an id count by the name."""
    for group_id in list(store.offsets):
        yield None
        for topic in store.offsets.get(group_id, {}).keys() & deleted.keys():
            for partition, value in store.offsets_of_topic(group_id, topic):
                if value.topic_id == NIL_UUID or value.topic_id in deleted[topic]:
                    yield offset_tombstone(group_id, topic, partition)


def pending_of_deleted_topics(store: GroupStore, deleted: Mapping[str, Collection[bytes]]) -> Walk:
    """The same of offsets that open transactions commit."""
    for group_id, topic, partition, value in store.pending_offsets():
        ids = (*deleted[topic], NIL_UUID) if topic in deleted else ()
        yield offset_tombstone(group_id, topic, partition) if value.topic_id in ids else None


def offsets_of_group(store: GroupStore, group_id: str) -> Iterator[GroupRecord]:
    """All, those that open transactions commit among them."""
    for topic, partition, _ in store.offsets_of(group_id):
        yield offset_tombstone(group_id, topic, partition)
    if store.has_pending(group_id):
        for pending_id, topic, partition, _ in store.pending_offsets():
            if pending_id == group_id:
                yield offset_tombstone(group_id, topic, partition)


def expired(
    group: ClassicGroup | ConsumerGroup | None,
    store: GroupStore,
    group_id: str,
    limits: GroupLimits,
    now_ms: int,
    knows_topic: KnowsTopic,
) -> Walk:
    """Tombstones of the offsets whose retention is over, none while a group rebalances (invariant G6); and of those
    whose topic is gone. None for each of the others.
    """
    may_expire = not isinstance(group, ClassicGroup) or _may_expire(group)
    for topic, partition, value in store.offsets_of(group_id):
        is_over = (
            may_expire
            and not store.is_pending(group_id, topic, partition)
            and _is_over(group, topic, value, limits, now_ms)
        )
        is_over = is_over or not knows_topic(topic, value.topic_id)
        yield offset_tombstone(group_id, topic, partition) if is_over else None


def _is_over(
    group: ClassicGroup | ConsumerGroup | None,
    topic: str,
    value: OffsetCommitValue,
    limits: GroupLimits,
    now_ms: int,
) -> bool:
    """Never while a member reads the topic."""
    if group is not None and group.is_subscribed_to(topic):
        return False
    if value.expire_timestamp != -1:
        return now_ms >= value.expire_timestamp
    return now_ms - _retained_from(group, value) >= limits.offsets_retention_ms


def _may_expire(group: ClassicGroup) -> bool:
    if group.pending:
        return False
    if group.state is S.EMPTY:
        return True
    return group.state is S.STABLE and group.uses_consumer_protocol


def _retained_from(group: ClassicGroup | ConsumerGroup | None, value: OffsetCommitValue) -> int:
    """A classic group that had members keeps its offsets from when the last one left, others from the commit."""
    if (
        isinstance(group, ClassicGroup)
        and group.state is S.EMPTY
        and group.protocol_type is not None
        and group.state_timestamp_ms != -1
    ):
        return group.state_timestamp_ms
    return value.commit_timestamp
