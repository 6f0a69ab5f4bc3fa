"""DeleteRecords (21): moves a partition's start up (KIP-107), answered when all live replicas have followed.

An offset of -1 means the high watermark. Source: `Partition.deleteRecordsOnLeader`, `DelayedDeleteRecords`.
"""

from __future__ import annotations

import trio

from broker.context import Context
from broker.partitions.leader import LeaderEpoch
from broker.partitions.opening import open_leaders, unopened
from quorum.runtime.errors import NotLeaderError
from wire.errors import ErrorCode, KafkaError
from wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from wire.transport.calls import Call
from wire.transport.registry import handles

UnderWay = list[tuple[LeaderEpoch, int, DeleteRecordsPartitionResult]]


@handles(DeleteRecordsRequest, versions="0-2")
async def delete_records(
    request: DeleteRecordsRequest, ctx: Context, _call: Call
) -> DeleteRecordsResponse:
    keys = [
        (topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
    ]
    await open_leaders(unopened(ctx.partitions, keys))
    under_way: UnderWay = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_delete(topic.name, wanted, ctx, under_way) for wanted in topic.partitions],
        )
        for topic in request.topics
    ]
    with trio.move_on_after(max(0, request.timeout_ms) / 1000):
        for leader, offset, result in under_way:
            try:
                await leader.low_watermark.wait_reached(offset)
            except NotLeaderError:
                result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for leader, offset, result in under_way:
        result.low_watermark = leader.low_watermark.offset
        if not result.error_code and result.low_watermark < offset:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return DeleteRecordsResponse(topics=topics)


def _delete(
    topic: str, wanted: DeleteRecordsPartition, ctx: Context, under_way: UnderWay
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        leader = ctx.partitions.leader_of(topic, wanted.partition_index)
        offset = leader.delete_records_before(wanted.offset)
    except KafkaError as error:
        result.error_code = error.code
    else:
        under_way.append((leader, offset, result))
    return result
