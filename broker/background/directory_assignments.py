"""Reports the log directory of each replica of this broker to the controller (AssignReplicasToDirs, KIP-858).

Source: `AssignmentsManager` of Kafka. Only the newest assignment of a replica counts; it is sent until the controller
has accepted it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import trio

from trimaran.broker import events
from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerEpoch, BrokerId, TopicIdPartition
from trimaran.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from trimaran.wire.transport.scheduling.events import AutoResetEvent

log = logging.getLogger(__name__)

# The maximum number of assignments in one request, as in Kafka.
ASSIGNMENTS_MAX = 2250
RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 5.0
# Codes for assignments that are no longer needed: the topic, the partition or the replica is gone.
_OVER = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


class DirectoryAssignments:
    """The queue of assignments; at most one for each replica of this broker."""

    def __init__(
        self,
        controller: ControllerCalls,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[TopicIdPartition, bytes] = {}
        self._wanted = AutoResetEvent()

    def assign(self, replica: TopicIdPartition, directory_id: bytes) -> None:
        """Queues the report that the replica is in that directory."""
        self._waiting[replica] = directory_id
        self._wanted.set()

    async def run(self) -> None:
        """Sends assignments until cancelled."""
        backoff = ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            await self._wanted.wait()
            batch = dict(list(self._waiting.items())[:ASSIGNMENTS_MAX])
            if await self._send(batch):
                backoff.succeeded()
            else:
                await trio.sleep(backoff.failed())
            if self._waiting:
                self._wanted.set()

    async def _send(self, batch: Mapping[TopicIdPartition, bytes]) -> bool:
        """Sends one request. Returns False if it failed."""
        request = build_request(batch, self._broker_id, self._broker_epoch())
        try:
            response = await self._controller.call(request, timeout=30.0)
        except KafkaError as error:
            events.REPLICA_DIRECTORIES_NOT_TOLD.log(log, replicas=len(batch), error=error)
            return False
        assert isinstance(response, AssignReplicasToDirsResponse)
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            # Below metadata.version 3.7-IV2 a cluster does not support directories: assignments are sent after its
            # upgrade.
            if code is not ErrorCode.UNSUPPORTED_VERSION:
                events.REPLICA_DIRECTORIES_NOT_TOLD.log(log, replicas=len(batch), error=code.name)
            return False
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    key = TopicIdPartition(topic.topic_id, partition.partition_index)
                    said = self._waiting.get(key) == directory.id
                    if said and ErrorCode.of(partition.error_code) in _OVER:
                        del self._waiting[key]
        return True


def build_request(
    assignments: Mapping[TopicIdPartition, bytes], broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> AssignReplicasToDirsRequest:
    """Returns the request for the assignments; a pure function, so that retries are identical."""
    by_directory: dict[bytes, dict[bytes, list[int]]] = {}
    for (topic_id, index), directory_id in assignments.items():
        by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory_id,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            AssignReplicasToDirsRequestPartitionData(partition_index=index)
                            for index in indexes
                        ],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory_id, topics in by_directory.items()
        ],
    )
