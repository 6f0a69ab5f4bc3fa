"""Offsets that brokers tell: where a partition begins and ends, and what was written when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.client.connect import check

if TYPE_CHECKING:
    from wire.blocking import BlockingClient

# Kafka's special timestamps of ListOffsets.
LATEST_TIMESTAMP, EARLIEST_TIMESTAMP = -1, -2


def end_offset(
    client: BlockingClient,
    topic: str,
    partition: int,
    timestamp: int = LATEST_TIMESTAMP,
    *,
    isolation: int = 0,
) -> int:
    """The high watermark of a partition (with `isolation` 1 the last stable offset), or what ListOffsets says for
    another special timestamp.
    """
    from wire.client.answers import the_one
    from wire.client.destinations import Leader
    from wire.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
    )
    topics = client.call(Leader(topic, partition), request).topics
    answer = the_one(the_one(topics, "topic").partitions, "partition")
    check(answer.error_code, None)
    return int(answer.offset)
