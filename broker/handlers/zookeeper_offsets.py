"""Version 0 of OffsetCommit and OffsetFetch: offsets of old consumers, in ZooKeeper.

Any broker serves them for any group, whether or not the client is a member. Intentional difference from Kafka: while
ZooKeeper is unreachable the answer is a retriable error; Kafka waits forever. Source: `KafkaApis` of Kafka 2.8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from trimaran.broker.groups.offsets import check_partition
from trimaran.broker.handlers.context import GroupContext
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_OFFSET, Offset, TopicPartition
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Blocking, Handling, Wait

ZOOKEEPER_VERSION = 0


def committed_to_zookeeper(
    request: OffsetCommitRequest, ctx: GroupContext
) -> Handling[OffsetCommitResponse]:
    """Commits the offsets of a request whose partitions are known to exist."""
    assert ctx.zookeeper_offsets is not None
    codes: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, Offset] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            codes[key] = check_partition(partition, ctx.groups.limits)
            if codes[key] is ErrorCode.NONE:
                offsets[key] = partition.committed_offset
    try:
        yield Blocking(partial(ctx.zookeeper_offsets.commit, request.group_id, offsets))
    except KafkaError as error:
        codes |= dict.fromkeys(offsets, error.code)
    return OffsetCommitResponse(topics=[_committed(topic, codes) for topic in request.topics])


def _committed(
    topic: OffsetCommitRequestTopic, codes: Mapping[TopicPartition, ErrorCode]
) -> OffsetCommitResponseTopic:
    indexes = [partition.partition_index for partition in topic.partitions]
    return OffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=i, error_code=codes[TopicPartition(topic.name, i)]
            )
            for i in indexes
        ],
    )


def fetched_from_zookeeper(
    request: OffsetFetchRequest, ctx: GroupContext, call: Call, may_see: Callable[[str], bool]
) -> Handling[OffsetFetchResponse]:
    """Returns the offsets of existing partitions; UNKNOWN_TOPIC_OR_PARTITION for missing ones and for those without an
    offset.
    """
    assert ctx.zookeeper_offsets is not None
    topics = ctx.metadata.image.topics.by_name
    codes: dict[TopicPartition, ErrorCode] = {}
    known: list[TopicPartition] = []
    for topic in request.topics or ():
        is_seen = may_see(topic.name)
        partitions = topics[topic.name].partitions if topic.name in topics else {}
        for index in topic.partition_indexes:
            key = TopicPartition(topic.name, index)
            if not is_seen:
                codes[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif index in partitions:
                known.append(key)
            yield None
        yield None
    found: Mapping[TopicPartition, Offset | None] = {}
    try:
        found = yield Wait(partial(ctx.zookeeper_offsets.fetch, request.group_id, known))
    except KafkaError as error:
        codes |= dict.fromkeys(known, error.code)
    for key, offset in found.items():
        codes[key] = ErrorCode.UNKNOWN_SERVER_ERROR if offset is None else ErrorCode.NONE
    responses = []
    for topic in request.topics or ():
        keys = (TopicPartition(topic.name, index) for index in topic.partition_indexes)
        encoded = yield from call.room().encoding(_fetched(key, found, codes) for key in keys)
        responses.append(OffsetFetchResponseTopic(name=topic.name, partitions=encoded))
        yield None
    return OffsetFetchResponse(topics=responses)


def _fetched(
    key: TopicPartition,
    found: Mapping[TopicPartition, Offset | None],
    codes: Mapping[TopicPartition, ErrorCode],
) -> OffsetFetchResponsePartition:
    offset = found.get(key)
    return OffsetFetchResponsePartition(
        partition_index=key.partition,
        committed_offset=NO_OFFSET if offset is None else offset,
        metadata="",
        error_code=codes.get(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )
