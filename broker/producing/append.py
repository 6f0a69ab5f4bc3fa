"""The stage `append` of Produce: the leaders append the validated batches, and traffic is counted by topic for metrics.

Source: `ReplicaManager.appendRecordsToLocalLog`.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.broker.partitions.traffic import TopicTraffic, Traffic
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.broker.producing.verify import check_not_ended
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.effects import Handling

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def append(parts: Sequence[PartitionAppend], acks: int, traffic: Traffic) -> Handling[None]:
    """Appends the batches of each part, or sets the error in its response. Counts the incoming bytes: duplicates count
    as received; topics without a replica on this broker do not count.
    """
    for part in parts:
        leader, batches = part.leader, part.batches
        if batches and leader is not None and not part.failed:
            try:
                if part.verified_from is not None:
                    check_not_ended(part)
                info = leader.appended_before(batches) if batches[0].producer_id >= 0 else None
                if info is None:
                    info = leader.append(memoryview(batches[0].buffer), batches, acks=acks)
            except KafkaError as error:
                part.fail(error)
            else:
                part.required_offset = info.last_offset + 1
                response = part.response
                response.base_offset = info.base_offset
                response.log_append_time_ms = info.log_append_time_ms
                response.log_start_offset = info.log_start_offset
        topic = part.partition.traffic if part.partition else traffic.find(part.key.topic)
        if topic is not None:
            topic.produces += 1
            if part.failed:
                _count_failed(part, topic)
            else:
                for batch in part.batches:
                    topic.bytes_in += batch.size
                    topic.messages_in += batch.count
        if len(parts) > 1:
            yield None


def _count_failed(part: PartitionAppend, topic: TopicTraffic) -> None:
    topic.failed_produces += 1
    if part.response.error_code in _TOO_LARGE:
        topic.bytes_rejected += len(part.records)
