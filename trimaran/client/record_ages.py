"""The ages of records at positions of groups: supplementary data, which needs READ for the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.client.offsets import ASIDE_SECONDS, EARLIEST_TIMESTAMP, end_offset
from trimaran.client.reader import PartitionReader
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.identity import NodeId, TopicPartition


class RecordAges:
    """Reads the ages of records for a view; a record that cannot be read has none, and the view is shown without it.

    `denied` has the topics that the client may not read, for a note. These topics, and leaders that did not respond,
    are not asked again.
    """

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._silent: set[NodeId] = set()
        self.denied: set[str] = set()

    def seconds(self, partition: TopicPartition, offset: Offset) -> float | None:
        """Returns `age_seconds`; None also if the topic may not be read, or the leader does not respond within
        `ASIDE_SECONDS`.
        """
        leader = self._client.routing.leader(partition)
        if partition.topic in self.denied or (leader and leader.leader_id in self._silent):
            return None
        try:
            return age_seconds(self._client, partition, offset)
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self.denied.add(partition.topic)
        except (ConnectionLost, RequestTimedOut):
            if leader:
                self._silent.add(leader.leader_id)
        return None


def age_seconds(client: BlockingClient, partition: TopicPartition, offset: Offset) -> float | None:
    """Returns the seconds since the timestamp of the record at `offset`, or of the next one; None if there is none. An
    offset before the start of the partition means its start. A request may take `ASIDE_SECONDS`.

    Raises:
        KafkaError: the leader refused; for example the client has no READ for the topic.
        ConnectionLost, RequestTimedOut: the leader did not respond.
    """
    reader = PartitionReader(client, (), is_committed=False, timeout=ASIDE_SECONDS)
    try:
        timestamp_ms = reader.timestamp_at(partition, max(Offset(0), offset))
    except KafkaError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        start = end_offset(client, partition, EARLIEST_TIMESTAMP)
        timestamp_ms = reader.timestamp_at(partition, start)
    return None if timestamp_ms is None else max(0, now_ms() - timestamp_ms) / 1000
