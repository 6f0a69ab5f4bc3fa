"""WriteTxnMarkers (27): a transaction coordinator ends transactions in the partitions led here (KIP-98, KIP-890, KIP-1228).

Answered when every marker is on the whole ISR. Markers of `__consumer_offsets` are written, but the group coordinator's pending
transactional commits are not served yet. Source: `KafkaApis.handleWriteTxnMarkersRequest`.
"""

from __future__ import annotations

import trio

from broker.context import Context
from broker.partitions.leader import LeaderEpoch
from broker.partitions.opening import open_leaders, unopened
from broker.partitions.transactions import append_end_marker
from log.producers_marker import EndMarker
from quorum.runtime.errors import NotLeaderError
from wire.errors import ErrorCode, KafkaError
from wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from wire.transport.calls import Call
from wire.transport.registry import handles

REPLICATION_SECONDS_MAX = 30.0  # Kafka's request.timeout.ms: the coordinator asks again

UnderWay = list[tuple[LeaderEpoch, int, WritableTxnMarkerPartitionResult]]


@handles(WriteTxnMarkersRequest, versions="0-2")
async def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: Context, _call: Call
) -> WriteTxnMarkersResponse:
    keys = [
        (topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    await open_leaders(unopened(ctx.partitions, keys, for_writing=True))
    under_way: UnderWay = []
    results = [_append(marker, ctx, under_way) for marker in request.markers]
    with trio.move_on_after(REPLICATION_SECONDS_MAX):
        for leader, offset, result in under_way:
            try:
                await leader.high_watermark.wait_reached(offset)
            except NotLeaderError:
                result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for leader, offset, result in under_way:
        if not result.error_code and leader.high_watermark.offset < offset:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return WriteTxnMarkersResponse(markers=results)


def _append(
    marker: WritableTxnMarker, ctx: Context, under_way: UnderWay
) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    _append_to(topic.name, index, marker, ctx, under_way)
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def _append_to(
    topic: str, index: int, marker: WritableTxnMarker, ctx: Context, under_way: UnderWay
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(partition_index=index)
    try:
        leader = ctx.partitions.leader_of(topic, index)
        info = append_end_marker(
            leader,
            EndMarker(marker.transaction_result, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_version=marker.transaction_version,
            now_ms=ctx.now_ms(),
        )
    except KafkaError as error:
        result.error_code = error.code
    else:
        under_way.append((leader, info.last_offset + 1, result))
    return result
