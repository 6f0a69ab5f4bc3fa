"""Version 0 of OffsetCommit and OffsetFetch: offsets of old consumers, in ZooKeeper.

Any broker serves them for any group, member or not. Different from Kafka on purpose: while ZooKeeper is away the answer
is a retriable error, Kafka waits for it without end. Source: `KafkaApis` of Kafka 2.8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimaran.broker.groups.offsets import NO_OFFSET, check_partition
from trimaran.broker.handlers.context import Context
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
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

ZOOKEEPER_VERSION = 0


async def commit_to_zookeeper(
    request: OffsetCommitRequest,
    ctx: Context,
    merge: Callable[[OffsetCommitResponse], OffsetCommitResponse],
) -> OffsetCommitResponse:
    """Commits what exists of the request; `merge` adds what does not."""
    assert ctx.zookeeper_offsets is not None
    codes: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            codes[key] = check_partition(partition, ctx.groups.limits)
            if codes[key] is ErrorCode.NONE:
                offsets[key] = partition.committed_offset
    try:
        await ctx.zookeeper_offsets.commit(request.group_id, offsets)
    except KafkaError as error:
        codes |= dict.fromkeys(offsets, error.code)
    return merge(
        OffsetCommitResponse(topics=[_committed(topic, codes) for topic in request.topics])
    )


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


async def fetch_from_zookeeper(
    request: OffsetFetchRequest, ctx: Context, may_see: Callable[[str], bool]
) -> OffsetFetchResponse:
    """The offsets of partitions that exist; the others, and those without one, are UNKNOWN_TOPIC_OR_PARTITION."""
    assert ctx.zookeeper_offsets is not None
    topics = ctx.metadata.image.topics.by_name
    asked = request.topics or ()
    known = [
        TopicPartition(topic.name, index)
        for topic in asked
        if topic.name in topics and may_see(topic.name)
        for index in topic.partition_indexes
        if index in topics[topic.name].partitions
    ]
    codes: dict[TopicPartition, ErrorCode] = {}
    found: Mapping[TopicPartition, int | None] = {}
    try:
        found = await ctx.zookeeper_offsets.fetch(request.group_id, known)
    except KafkaError as error:
        codes = dict.fromkeys(known, error.code)
    for topic in asked:
        if not may_see(topic.name):
            for index in topic.partition_indexes:
                codes[TopicPartition(topic.name, index)] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for key in found:
        codes[key] = ErrorCode.UNKNOWN_SERVER_ERROR if found[key] is None else ErrorCode.NONE
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    _fetched(TopicPartition(topic.name, i), found, codes)
                    for i in topic.partition_indexes
                ],
            )
            for topic in asked
        ]
    )


def _fetched(
    key: TopicPartition,
    found: Mapping[TopicPartition, int | None],
    codes: Mapping[TopicPartition, ErrorCode],
) -> OffsetFetchResponsePartition:
    offset = found.get(key)
    return OffsetFetchResponsePartition(
        partition_index=key.partition,
        committed_offset=NO_OFFSET if offset is None else offset,
        metadata="",
        error_code=codes.get(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )
