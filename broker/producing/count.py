"""After Produce's append: what came in, by topic, for metrics. Source: `ReplicaManager.appendRecordsToLocalLog`."""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.partitions.traffic import Traffic
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.wire.errors import ErrorCode

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def count(appends: Iterable[PartitionAppend], traffic: Traffic) -> None:
    """Duplicates count as received; topics without a replica here are not counted."""
    for one in appends:
        topic = one.partition.traffic if one.partition else traffic.find(one.key.topic)
        if topic is None:
            continue
        topic.produces += 1
        if one.failed:
            topic.failed_produces += 1
            if one.response.error_code in _TOO_LARGE:
                topic.bytes_rejected += len(one.records)
            continue
        for batch in one.batches:
            topic.bytes_in += batch.size
            topic.messages_in += batch.count
