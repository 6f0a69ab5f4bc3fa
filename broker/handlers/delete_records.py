"""DeleteRecords (21): moves a partition's start up (KIP-107), answered when all live replicas have followed.

An offset of -1 means the high watermark. Of internal topics nothing is deleted: their coordinators would lose what they know. Source: `Partition.deleteRecordsOnLeader`, `DelayedDeleteRecords`.
"""

from __future__ import annotations

from broker.handlers.context import Context
from broker.metadata.internal_topics import INTERNAL_TOPICS
from broker.partitions.awaiting import UnderWay, wait_for_all
from broker.partitions.opening import open_leaders, unopened
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


@handles(DeleteRecordsRequest, versions="0-2")
async def delete_records(
    request: DeleteRecordsRequest, ctx: Context, _call: Call
) -> DeleteRecordsResponse:
    keys = [
        (topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
    ]
    await open_leaders(unopened(ctx.partitions, keys))
    under_way: list[UnderWay] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_delete(topic.name, wanted, ctx, under_way) for wanted in topic.partitions],
        )
        for topic in request.topics
    ]
    await wait_for_all(under_way, max(0, request.timeout_ms) / 1000)
    for one in under_way:
        assert isinstance(one.result, DeleteRecordsPartitionResult)
        one.result.low_watermark = one.watermark.offset
    return DeleteRecordsResponse(topics=topics)


def _delete(
    topic: str, wanted: DeleteRecordsPartition, ctx: Context, under_way: list[UnderWay]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
        leader = ctx.partitions.leader_of(topic, wanted.partition_index)
        offset = leader.delete_records_before(wanted.offset)
    except KafkaError as error:
        result.error_code = error.code
    else:
        under_way.append(UnderWay(leader.low_watermark, offset, result))
    return result
