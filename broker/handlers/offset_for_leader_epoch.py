"""OffsetForLeaderEpoch (23): returns the end of an epoch in the leader's log (KIP-101, KIP-279, KIP-320).

Consumers send it after a leader change to detect whether records they have read were truncated.
"""

from __future__ import annotations

from trimaran.broker.handlers.context import DataContext
from trimaran.broker.partitions.opening import opening
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

# The size of a topic in the response, without its name and its partitions.
TOPIC_BYTES = 16


def _fail(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, _message: str
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(error_code=code, partition=partition.partition)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@handles(
    OffsetForLeaderEpochRequest,
    versions="0-4",
    access=topics(Operation.DESCRIBE, "topics.topic", "topics").or_cluster(
        Operation.CLUSTER_ACTION
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, ctx: DataContext, call: Call
) -> Handling[OffsetForLeaderEpochResponse]:
    keys = []
    for topic in request.topics:
        for wanted in topic.partitions:
            keys.append(TopicPartition(topic.topic, wanted.partition))
            yield None
    yield from opening(ctx.partitions, keys)
    room, results = call.room(), []
    for topic in request.topics:
        room.take(TOPIC_BYTES + len(topic.topic))
        partitions = EncodedArray()
        for wanted in topic.partitions:
            key = TopicPartition(topic.topic, wanted.partition)
            partitions.append(room.encoded(_end_offset(key, wanted, ctx)))
            yield None
        results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        yield None  # a topic may have no partition
    return OffsetForLeaderEpochResponse(topics=results)


def _end_offset(
    key: TopicPartition, wanted: OffsetForLeaderPartition, ctx: DataContext
) -> EpochEndOffset:
    try:
        leader = ctx.partitions.leader_of(key, wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    epoch, end_offset = leader.log.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
