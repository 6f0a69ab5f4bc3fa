"""WriteTxnMarkers (27): a transaction coordinator ends transactions in the partitions led here (KIP-98, KIP-890,
KIP-1228).

Answered when every marker is on the whole ISR. Those of `__consumer_offsets` go through the group coordinator, whose
pending offsets they complete. Source: `KafkaApis.handleWriteTxnMarkersRequest`.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordination.ports import AppendInfo
from broker.coordination.shard import Producer
from broker.handlers.context import Context
from broker.metadata.internal_topics import CONSUMER_OFFSETS
from broker.partitions.awaiting import WatermarkWait, wait_for_all
from broker.partitions.end_markers import append_end_marker
from broker.partitions.leader import LeaderEpoch
from broker.partitions.opening import Key, open_leaders, unopened_of_many
from log.producers.marker import EndMarker
from node.runtime.turns import in_turns
from wire.errors import ErrorCode, KafkaError
from wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call
from wire.transport.heavy import PARTITIONS_ELEMENTS_MAX, run_apart
from wire.transport.registry import handles

# Written between two checkpoints: 10 ms of work.
MARKERS_PER_TURN = 100
REPLICATION_SECONDS_MAX = 30.0  # Kafka's request.timeout.ms: the coordinator asks again


def _fail(
    request: WriteTxnMarkersRequest, code: ErrorCode, _message: str
) -> WriteTxnMarkersResponse:
    """Nothing was written: every partition of every marker gets the code."""
    results = [
        WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    return WriteTxnMarkersResponse(markers=results)


@handles(
    WriteTxnMarkersRequest,
    versions="0-2",
    access=cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
async def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: Context, call: Call
) -> WriteTxnMarkersResponse:
    keys = await run_apart(_keys, request) if call.heavy else _keys(request)
    await open_leaders(await unopened_of_many(ctx.partitions, keys, for_writing=True))
    waits: list[WatermarkWait] = []
    results: list[WritableTxnMarkerResult] = []
    await in_turns(_append_all(request, results, ctx, waits), MARKERS_PER_TURN)
    await wait_for_all(waits, REPLICATION_SECONDS_MAX)
    return WriteTxnMarkersResponse(markers=results)


def _keys(request: WriteTxnMarkersRequest) -> list[Key]:
    return [
        (topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


def _append_all(
    request: WriteTxnMarkersRequest,
    results: list[WritableTxnMarkerResult],
    ctx: Context,
    waits: list[WatermarkWait],
) -> Iterator[None]:
    """Completes `results`, at most one partition at each step."""
    for marker in request.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[])
        results.append(result)
        yield
        for topic in marker.topics:
            of_topic = WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
            result.topics.append(of_topic)
            yield
            for index in topic.partition_indexes:
                of_topic.partitions.append(_append_to(topic.name, index, marker, ctx, waits))
                yield


def _append_to(
    topic: str, index: int, marker: WritableTxnMarker, ctx: Context, waits: list[WatermarkWait]
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(partition_index=index)
    try:
        leader = ctx.partitions.leader_of(topic, index)
        info = _write(topic, index, marker, leader, ctx)
    except KafkaError as error:
        result.error_code = error.code
    else:
        waits.append(WatermarkWait(leader.high_watermark, info.last_offset + 1, result))
    return result


def _write(
    topic: str, index: int, marker: WritableTxnMarker, leader: LeaderEpoch, ctx: Context
) -> AppendInfo:
    end_marker = EndMarker(marker.transaction_result, marker.coordinator_epoch)
    if topic == CONSUMER_OFFSETS:
        producer = Producer(marker.producer_id, marker.producer_epoch)
        return ctx.groups.complete_transaction(
            index, producer, end_marker, marker.transaction_version
        )
    return append_end_marker(
        leader,
        end_marker,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_version=marker.transaction_version,
        now_ms=ctx.now_ms(),
    )
