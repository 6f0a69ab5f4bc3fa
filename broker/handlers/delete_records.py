"""DeleteRecords (21): moves a partition's start up (KIP-107), answered when all live replicas have followed.

An offset of -1 means the high watermark. Source: `Partition.deleteRecordsOnLeader`, `DelayedDeleteRecords`.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from broker.context import Context
from broker.partitions.leader import LeaderEpoch
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

HIGH_WATERMARK = -1
# Followers tell their log start with their fetches, which come at least every replica.fetch.wait.max.ms.
LOOK_SECONDS = 0.05


@dataclass(slots=True)
class _Deleting:
    leader: LeaderEpoch
    offset: int
    result: DeleteRecordsPartitionResult

    def done(self) -> bool:
        self.result.low_watermark = self.leader.low_watermark()
        return self.leader.ended or self.result.low_watermark >= self.offset


@handles(DeleteRecordsRequest, versions="0-2")
async def delete_records(
    request: DeleteRecordsRequest, ctx: Context, _call: Call
) -> DeleteRecordsResponse:
    under_way: list[_Deleting] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_delete(topic.name, wanted, ctx, under_way) for wanted in topic.partitions],
        )
        for topic in request.topics
    ]
    with trio.move_on_after(max(0, request.timeout_ms) / 1000):
        while not all([one.done() for one in under_way]):
            await trio.sleep(LOOK_SECONDS)
    for one in under_way:
        if one.leader.ended:
            one.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not one.done():
            one.result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return DeleteRecordsResponse(topics=topics)


def _delete(
    topic: str, wanted: DeleteRecordsPartition, ctx: Context, under_way: list[_Deleting]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=-1
    )
    try:
        leader = ctx.partitions.leader_of(topic, wanted.partition_index)
        watermark = leader.high_watermark.offset
        offset = watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if not leader.log.config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        leader.log.delete_records_before(offset)
    except KafkaError as error:
        result.error_code = error.code
    else:
        under_way.append(_Deleting(leader, offset, result))
    return result
