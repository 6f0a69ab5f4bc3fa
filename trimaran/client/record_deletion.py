"""Deletion of the oldest records of partitions (DeleteRecords)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, end_offset, out_of_range
from trimaran.errors.refused import Needs, check
from trimaran.wire.client.destinations import LeaderNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

if TYPE_CHECKING:
    from trimaran.client.positions import Position
    from trimaran.wire.blocking import BlockingClient


class RecordDeletion(NamedTuple):
    """The records of a partition from `start`, its first, up to `before`, which stays."""

    partition: TopicPartition
    start: Offset
    before: Offset

    @property
    def size(self) -> int:
        """Returns the number of offsets; compaction may have removed records before."""
        return self.before - self.start


def deletion_in(
    client: BlockingClient, partition: TopicPartition, before: Position
) -> RecordDeletion:
    """Returns the deletion of all records before a position. Raises KafkaError: the position is beyond the end."""
    offset = before.offset_in(client, partition)
    start = end_offset(client, partition, EARLIEST_TIMESTAMP)
    # read last, since records may be written meanwhile
    end = end_offset(client, partition, LATEST_TIMESTAMP)
    if offset > end:
        raise out_of_range(partition, offset, start, end)
    return RecordDeletion(partition, start, max(start, offset))


def delete_records(client: BlockingClient, deletion: RecordDeletion, *, timeout_ms: int) -> Offset:
    """Deletes records, and returns the offset of the first that is left. Raises KafkaError."""
    topic, index = deletion.partition
    wanted = DeleteRecordsPartition(partition_index=index, offset=deletion.before)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=timeout_ms
    )
    topics = client.call(LeaderNode(deletion.partition), request).topics
    result = single_item(single_item(topics, "topic").partitions, "partition")
    check(result.error_code, None, f"{topic}-{index}", Needs("DELETE", topic=topic))
    return Offset(result.low_watermark)
