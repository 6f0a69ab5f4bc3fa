"""Sends ISR changes to the controller: one AlterPartition request at a time, with all changes that wait (KIP-497).

Source: `AlterPartitionManager` of Kafka. A change never changes after its creation: a retry repeats it exactly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import trio

from trimaran.broker import events
from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.broker.partitions.isr_change import IsrChange, IsrChangeOwner
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerEpoch, BrokerId, TopicIdPartition
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from trimaran.wire.transport.scheduling.events import AutoResetEvent

log = logging.getLogger(__name__)

# The first and last delay after a temporary refusal by the controller: a replica that is to join the ISR waits this
# long, and so does a client that waits for a replica to leave the ISR.
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 0.5

Waiting: TypeAlias = tuple[IsrChangeOwner, IsrChange]


class AlterPartitions:
    """The queue of changes; a newer change of a partition replaces one that has not been sent."""

    def __init__(
        self,
        controller: ControllerCalls,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        # At most one change for each partition that this broker leads.
        self._waiting: dict[TopicIdPartition, Waiting] = {}
        self._wanted = AutoResetEvent()

    def submit(self, owner: IsrChangeOwner, change: IsrChange) -> None:
        """Sends `change` soon; `owner` receives the outcome unless a newer change replaces it."""
        self._waiting[change.partition] = (owner, change)
        self._wanted.set()

    async def run(self) -> None:
        """Sends changes until cancelled."""
        backoff = ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        while True:
            await self._wanted.wait()
            batch, self._waiting = self._waiting, {}
            if await self._send(batch):
                backoff.succeeded()
            else:
                await trio.sleep(backoff.failed())

    async def _send(self, batch: Mapping[TopicIdPartition, Waiting]) -> bool:
        """Sends one request. Returns False if any change must be retried."""
        request = build_request(
            [change for _, change in batch.values()], self._broker_id, self._broker_epoch()
        )
        try:
            response = await self._controller.call(request, timeout=30.0)
        except KafkaError as error:
            events.ISR_NOT_TOLD.log(log, partitions=len(batch), error=error)
            return self._try_again(batch, batch)
        assert isinstance(response, AlterPartitionResponse)
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            events.ISR_NOT_TOLD.log(log, partitions=len(batch), error=code.name)
            return self._try_again(batch, batch)
        return self._try_again(batch, _deliver(batch, response))

    def _try_again(
        self,
        batch: Mapping[TopicIdPartition, Waiting],
        keys: Sequence[TopicIdPartition] | Mapping[TopicIdPartition, Waiting],
    ) -> bool:
        for key in keys:
            self._waiting.setdefault(key, batch[key])
        if self._waiting:
            self._wanted.set()
        return not keys


def _deliver(
    batch: Mapping[TopicIdPartition, Waiting], response: AlterPartitionResponse
) -> list[TopicIdPartition]:
    """Notifies the owners; returns the changes to send again, including those without an answer."""
    unanswered = dict(batch)
    again: list[TopicIdPartition] = []
    for topic in response.topics:
        for data in topic.partitions:
            key = TopicIdPartition(topic.topic_id, data.partition_index)
            waiting = unanswered.pop(key, None)
            if waiting is None:
                continue
            owner, change = waiting
            if data.error_code == 0:
                owner.isr_committed(
                    change, tuple(data.isr), data.leader_epoch, data.partition_epoch
                )
            elif owner.isr_refused(change, data.error_code):
                again.append(key)
    return [*again, *unanswered]


def build_request(
    changes: Sequence[IsrChange], broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> AlterPartitionRequest:
    """Returns the request for the changes; a pure function, so that retries are identical."""
    topics: dict[bytes, AlterPartitionRequestTopicData] = {}
    for change in changes:
        topic = topics.setdefault(
            change.partition.topic_id,
            AlterPartitionRequestTopicData(topic_id=change.partition.topic_id, partitions=[]),
        )
        topic.partitions.append(
            AlterPartitionRequestPartitionData(
                partition_index=change.partition.partition,
                leader_epoch=change.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=member, broker_epoch=epoch)
                    for member, epoch in change.new_isr
                ],
                leader_recovery_state=change.leader_recovery_state,
                partition_epoch=change.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )
