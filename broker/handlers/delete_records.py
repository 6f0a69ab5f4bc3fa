"""DeleteRecords (21): moves a partition's start up (KIP-107), answered when all live replicas have followed.

An offset of -1 means the high watermark. Of internal topics nothing is deleted: their coordinators would lose what they
know. Source: `Partition.deleteRecordsOnLeader`, `DelayedDeleteRecords`.
"""

from __future__ import annotations

from operator import attrgetter

from trimaran.broker.handlers.context import DataContext
from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.partitions.awaiting import (
    PendingFlush,
    WatermarkWait,
    pending_flushes_in_turns,
    wait_for_all,
    wait_for_flushes,
)
from trimaran.broker.partitions.opening import open_leaders, unopened
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
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
from trimaran.wire.transport.requests.slices import Slices


def _fail(request: DeleteRecordsRequest, code: ErrorCode, _message: str) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_refused(one, code) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


@handles(
    DeleteRecordsRequest,
    versions="0-2",
    access=topics(Operation.DELETE, "topics.name", "topics"),
    on_error=_fail,
    slices=Slices("topics.partitions", "topics.partitions"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("topics.partitions", attrgetter("name"), attrgetter("partition_index"), last=True),
)
async def delete_records(
    request: DeleteRecordsRequest, ctx: DataContext, _call: Call
) -> DeleteRecordsResponse:
    keys = [
        TopicPartition(topic.name, one.partition_index)
        for topic in request.topics
        for one in topic.partitions
    ]
    await open_leaders(unopened(ctx.partitions, keys))
    late = await wait_for_flushes(await _flushes(request, ctx))
    waits: list[WatermarkWait] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                _refused(wanted, ErrorCode.REQUEST_TIMED_OUT)
                if (topic.name, wanted.partition_index) in late
                else _delete(topic.name, wanted, ctx, waits)
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    await wait_for_all(waits, max(0, request.timeout_ms) / 1000)
    for one in waits:
        assert isinstance(one.result, DeleteRecordsPartitionResult)
        one.result.low_watermark = one.watermark.offset
    return DeleteRecordsResponse(topics=topics)


async def _flushes(request: DeleteRecordsRequest, ctx: DataContext) -> list[PendingFlush]:
    """Of the partitions in which more is to be deleted than is below the watermark, or all that will be."""
    wanted = {
        TopicPartition(topic.name, one.partition_index): one.offset
        for topic in request.topics
        if topic.name not in INTERNAL_TOPICS
        for one in topic.partitions
    }
    return [
        flush
        for flush in await pending_flushes_in_turns(ctx.partitions, list(wanted))
        if not 0 <= wanted[flush.key] <= flush.watermark.offset
    ]


def _refused(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=-1, error_code=code
    )


def _delete(
    topic: str, wanted: DeleteRecordsPartition, ctx: DataContext, waits: list[WatermarkWait]
) -> DeleteRecordsPartitionResult:
    result = _refused(wanted, ErrorCode.NONE)
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
        leader = ctx.partitions.leader_of(topic, wanted.partition_index)
        offset = leader.delete_records_before(Offset(wanted.offset))
    except KafkaError as error:
        result.error_code = error.code
    else:
        waits.append(WatermarkWait(leader.low_watermark, offset, result))
    return result
