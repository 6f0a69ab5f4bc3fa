"""DeleteRecords (21): advances the start of partitions (KIP-107); answered when all live replicas have followed.

An offset of -1 means the high watermark. Nothing is deleted from internal topics: their coordinators would lose state.
Source: `Partition.deleteRecordsOnLeader`, `DelayedDeleteRecords`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from operator import attrgetter

from trimaran.broker.handlers.context import DataContext
from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.partitions.opening import opening
from trimaran.broker.partitions.watermark_waits import (
    WatermarkWait,
    pending_flushes,
    wait_for_all,
    wait_for_flushes,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_OFFSET, Offset, TopicPartition
from trimaran.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Blocking, Handling, Wait


def _fail(request: DeleteRecordsRequest, code: ErrorCode, _message: str) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_refused(wanted, code) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


@handles(
    DeleteRecordsRequest,
    versions="0-2",
    access=topics(Operation.DELETE, "topics.name", "topics"),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("topics.partitions", attrgetter("name"), attrgetter("partition_index"), last=True),
)
def delete_records(
    request: DeleteRecordsRequest, ctx: DataContext, _call: Call
) -> Handling[DeleteRecordsResponse]:
    offsets = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            offsets[TopicPartition(topic.name, wanted.partition_index)] = wanted.offset
            yield None
    yield from opening(ctx.partitions, list(offsets))
    late = yield from _flushed(offsets, ctx)
    waits: list[WatermarkWait] = []
    topics = []
    for topic in request.topics:
        results = []
        for wanted in topic.partitions:
            key = TopicPartition(topic.name, wanted.partition_index)
            results.append(
                _refused(wanted, ErrorCode.REQUEST_TIMED_OUT)
                if key in late
                else _delete(key, wanted, ctx, waits)
            )
            yield None
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        yield None  # a topic may have no partition
    yield Wait(partial(wait_for_all, waits, request.timeout_ms / 1000))
    for wait in waits:
        assert isinstance(wait.result, DeleteRecordsPartitionResult)
        wait.result.low_watermark = wait.watermark.offset
    return DeleteRecordsResponse(topics=topics)


def _flushed(
    offsets: Mapping[TopicPartition, Offset], ctx: DataContext
) -> Handling[Collection[TopicPartition]]:
    """Waits for the flushes of partitions whose records are to be deleted up to the high watermark or beyond it.
    Returns the partitions whose flush is late.
    """
    keys = [key for key in offsets if key.topic not in INTERNAL_TOPICS]
    found = yield from pending_flushes(ctx.partitions, keys)
    flushes = [flush for flush in found if not 0 <= offsets[flush.key] <= flush.watermark.offset]
    if not flushes:
        return ()
    late: Collection[TopicPartition] = yield Blocking(partial(wait_for_flushes, flushes))
    return late


def _refused(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=NO_OFFSET, error_code=code
    )


def _delete(
    key: TopicPartition,
    wanted: DeleteRecordsPartition,
    ctx: DataContext,
    waits: list[WatermarkWait],
) -> DeleteRecordsPartitionResult:
    result = _refused(wanted, ErrorCode.NONE)
    try:
        if key.topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{key.topic} is internal")
        leader = ctx.partitions.leader_of(key)
        offset = leader.delete_records_before(wanted.offset)
    except KafkaError as error:
        result.error_code = error.code
    else:
        waits.append(WatermarkWait(leader.low_watermark, offset, result))
    return result
