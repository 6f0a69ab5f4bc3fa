"""Offsets: commits, fetches, deletions. Pure decisions, returned as records; see `removals` for expiry.

Source: Kafka's `OffsetMetadataManager` and `ClassicGroup.validateOffsetCommit` (KIP-211 retention, KIP-709, KIP-848 for
topic ids, KIP-447 for stable offsets). Any committed number is accepted: some clients commit -2 for "the earliest".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from trimaran.broker.groups.kinds import CheckPartition, all_may
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.records import GroupRecord, KnowsTopic, offset_tombstone
from trimaran.broker.groups.store import GroupStore
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_OFFSET, NO_TIMESTAMP, TopicIdPartition, TopicPartition
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from trimaran.wire.records.groups import OffsetCommitKey, OffsetCommitValue

NO_RETENTION = -1
INT64_MAX = 0x7FFFFFFFFFFFFFFF


# -- commits


def _all_fit(_key: TopicPartition, _metadata: str) -> ErrorCode:
    return ErrorCode.NONE


def decide_commit(
    request: OffsetCommitRequest,
    limits: GroupLimits,
    now_ms: int,
    check: CheckPartition = all_may,
    refusal: Callable[[TopicPartition, str], ErrorCode] = _all_fit,
) -> Result[GroupRecord, OffsetCommitResponse]:
    """Returns the records of an admitted commit; each topic is named, and has its id if that is known. `refusal`
    returns the code for an offset that does not fit into the limits.
    """
    records: list[GroupRecord] = []
    topics = []
    expire_ms = _expire_timestamp(request.retention_time_ms, now_ms)
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            code = check(TopicIdPartition(topic.topic_id, partition.partition_index))
            code = code or check_partition(partition, limits)
            metadata = partition.committed_metadata or ""
            code = code or refusal(TopicPartition(topic.name, partition.partition_index), metadata)
            partitions.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code
                )
            )
            if code is ErrorCode.NONE:
                key = OffsetCommitKey(
                    group=request.group_id, topic=topic.name, partition=partition.partition_index
                )
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=_commit_timestamp(partition, now_ms),
                    expire_timestamp=expire_ms,
                    topic_id=topic.topic_id,
                )
                records.append(GroupRecord(key, value))
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return Result(records, OffsetCommitResponse(topics=topics))


def _commit_timestamp(partition: OffsetCommitRequestPartition, now_ms: int) -> int:
    """Returns the commit timestamp; version 1 may set it, and -1 means the broker's time."""
    return now_ms if partition.commit_timestamp == NO_TIMESTAMP else partition.commit_timestamp


def check_partition(partition: OffsetCommitRequestPartition, limits: GroupLimits) -> ErrorCode:
    """Returns the error code of an invalid offset, or NONE."""
    if java_length(partition.committed_metadata or "") > limits.offset_metadata_size_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def java_length(text: str) -> int:
    """Returns the result of Java's `String.length`: the number of UTF-16 units, two for a character outside the basic
    plane.
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _expire_timestamp(retention_ms: int, now_ms: int) -> int:
    """Returns the expiry set by old clients (versions 2 to 4), limited to an int64; -1 if there is none."""
    if retention_ms == NO_RETENTION:
        return NO_TIMESTAMP
    return min(INT64_MAX, max(0, now_ms + retention_ms))


# -- fetches


def fetch(
    store: GroupStore,
    request: OffsetFetchRequestGroup,
    knows_topic: KnowsTopic,
    *,
    require_stable: bool = False,
) -> OffsetFetchResponseGroup:
    """Returns the requested offsets, or all offsets of the group if the request's topics are null. Offsets of deleted
    topics are omitted; with `require_stable`, offsets that an open transaction may change get UNSTABLE_OFFSET_COMMIT
    (G4).
    """
    response = _fetch(store, request, knows_topic)
    if require_stable:
        for topic in response.topics:
            topic.partitions = [
                not_found(partition.partition_index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if store.is_pending(
                    request.group_id, TopicPartition(topic.name, partition.partition_index)
                )
                else partition
                for partition in topic.partitions
            ]
    return response


def _fetch(
    store: GroupStore, request: OffsetFetchRequestGroup, knows_topic: KnowsTopic
) -> OffsetFetchResponseGroup:
    committed = store.offsets.get(request.group_id, {})
    if request.topics is None:
        topics = [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    _found(index, value)
                    for index, value in partitions.items()
                    if knows_topic(name, value.topic_id)
                ],
            )
            for name, partitions in committed.items()
        ]
        topics = [topic for topic in topics if topic.partitions]
    else:
        topics = [
            _fetch_topic(committed.get(topic.name, {}), topic, knows_topic)
            for topic in request.topics
        ]
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)


def _fetch_topic(
    committed: Mapping[int, OffsetCommitValue],
    topic: OffsetFetchRequestTopics,
    knows_topic: KnowsTopic,
) -> OffsetFetchResponseTopics:
    partitions = []
    for index in topic.partition_indexes:
        value = committed.get(index)
        if (
            value is None
            or _other_topic(value.topic_id, topic.topic_id)
            or not knows_topic(topic.name, value.topic_id)
        ):
            partitions.append(not_found(index))
        else:
            partitions.append(_found(index, value))
    return OffsetFetchResponseTopics(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def _other_topic(committed: bytes, asked: bytes) -> bool:
    """Returns whether the offset was committed to a deleted topic of the same name."""
    return NIL_UUID not in (committed, asked) and committed != asked


def _found(index: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def not_found(index: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    """Returns a result without an offset, with or without an error."""
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
    )


def decide_delete(
    store: GroupStore,
    group_id: str,
    partitions: Iterable[TopicPartition],
    is_subscribed_to: Callable[[str, str], bool],
) -> Result[GroupRecord, dict[TopicPartition, ErrorCode]]:
    """Returns tombstones of the offsets that the group has, and a code for each partition. Topics to which a member of
    the group subscribes are refused.
    """
    codes, records = {}, []
    for key in partitions:
        if is_subscribed_to(group_id, key.topic):
            codes[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        codes[key] = ErrorCode.NONE
        if store.is_pending(group_id, key) or store.offset(group_id, key) is not None:
            records.append(offset_tombstone(group_id, key))
    return Result(records, codes, atomic=False)
