"""Writes markers to the partitions that this broker leads: for coordinators on other brokers, which send
WriteTxnMarkers, and for its own coordinator, which calls it directly.

Markers of `__consumer_offsets` go through the group coordinator, because they complete its pending offsets. Source:
`KafkaApis.handleWriteTxnMarkersRequest` of Kafka (KIP-98, KIP-890, KIP-1228).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.opening import opening
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.watermark_waits import WatermarkWait, wait_for_all
from trimaran.log.partitions.partition_log import AppendInfo
from trimaran.log.producers.marker import EndMarker
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from trimaran.wire.transport.scheduling.effects import Handling, Wait

REPLICATION_SECONDS_MAX = 30.0  # Kafka's request.timeout.ms; the coordinator retries


def keys_of(request: WriteTxnMarkersRequest) -> Iterator[TopicPartition]:
    """Yields the partitions of the markers in a request."""
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                yield TopicPartition(topic.name, index)


def the_same_for_all(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Returns a response with the code for every partition of every marker."""
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


@dataclass(frozen=True, slots=True)
class Marking:
    """Writes markers. `complete_offsets` is `GroupCoordinator.complete_transaction`; `now_ms` returns the wall-clock
    time.
    """

    partitions: Partitions
    complete_offsets: Callable[[int, Producer, EndMarker, int], AppendInfo]
    now_ms: Callable[[], int]

    def writing(self, request: WriteTxnMarkersRequest) -> Handling[WriteTxnMarkersResponse]:
        """Writes the markers of a request, with a pause after each. Returns when the whole ISR has each marker,
        or the wait is over.
        """
        yield from opening(self.partitions, keys_of(request), for_writing=True)
        waits: list[WatermarkWait] = []
        results: list[WritableTxnMarkerResult] = []
        for marker in request.markers:
            result = WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[])
            results.append(result)
            yield None
            for topic in marker.topics:
                of_topic = WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
                result.topics.append(of_topic)
                yield None
                for index in topic.partition_indexes:
                    key = TopicPartition(topic.name, index)
                    of_topic.partitions.append(self._append_to(key, marker, waits))
                    yield None
        yield Wait(partial(wait_for_all, waits, REPLICATION_SECONDS_MAX))
        return WriteTxnMarkersResponse(markers=results)

    def _append_to(
        self, key: TopicPartition, marker: WritableTxnMarker, waits: list[WatermarkWait]
    ) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(partition_index=key.partition)
        try:
            leader = self.partitions.leader_of(key)
            info = self._append(key, marker, leader)
        except KafkaError as error:
            result.error_code = error.code
        else:
            waits.append(WatermarkWait(leader.high_watermark, info.last_offset + 1, result))
        return result

    def _append(
        self, key: TopicPartition, marker: WritableTxnMarker, leader: PartitionLeader
    ) -> AppendInfo:
        end_marker = EndMarker(marker.transaction_result, marker.coordinator_epoch)
        if key.topic == CONSUMER_OFFSETS:
            producer = Producer(marker.producer_id, marker.producer_epoch)
            return self.complete_offsets(
                key.partition, producer, end_marker, marker.transaction_version
            )
        return append_end_marker(
            leader,
            end_marker,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_version=marker.transaction_version,
            now_ms=self.now_ms(),
        )
