"""Writes the markers of a decided transaction to all its partitions, with retries until every partition has its marker.

A transaction is complete when all its partitions have their markers; partitions of deleted topics need none. The work
belongs to the shard's epoch and ends with it: the next coordinator finds the decision and continues (T7). A broker
writes to the partitions that it leads without a request to itself. Source: Kafka's `TransactionMarkerChannelManager`,
`TransactionMarkerRequestCompletionHandler`. Intentional difference: if a newer epoch of the producer has already
written to a partition, the partition needs no marker of this epoch; in Kafka the transaction would hang (KAFKA-16352
and similar).
"""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import trio

from trimaran.broker import events
from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.channels.gathering import Gathering
from trimaran.broker.coordination.ports import Metadata
from trimaran.broker.coordination.shard_epoch import ShardEpoch, ShardState
from trimaran.broker.transactions.marking import Marking
from trimaran.broker.transactions.ports import has_partition
from trimaran.broker.transactions.records import TransactionRecord, partitions_by_topic
from trimaran.broker.transactions.shard import TransactionCoordinatorShard
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.node.runtime.pacing import run_handling
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId, CoordinatorEpoch, TopicPartition
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from trimaran.wire.transport.scheduling.loop_turns import loop_turns

log = logging.getLogger(__name__)

Epoch = ShardEpoch[TransactionCoordinatorShard, TransactionRecord]
E = ErrorCode

# The delays between two attempts: leaders move within tenths of a second, and readers wait for the marker.
RETRY_SECONDS_MIN = 0.02
RETRY_SECONDS_MAX = 1.0
# The attempts after which a transaction that does not end is logged: about twenty seconds.
ATTEMPTS_BEFORE_WARNING = 25

# Codes of partitions that reject this marker and do not need it.
_NEEDS_NONE = frozenset(
    {E.INVALID_PRODUCER_EPOCH, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION}
)

Results = Mapping[TopicPartition, ErrorCode]


class _Marker(NamedTuple):
    """The marker of one transaction, for the partitions that one broker leads."""

    decided: Transaction
    coordinator_epoch: CoordinatorEpoch
    partitions: frozenset[TopicPartition]


class MarkerWriter:
    """Writes markers while `run` is running. `finish` is the follow-up that a shard names."""

    def __init__(
        self,
        node_id: BrokerId,
        marking: Marking,
        channels: Channels,
        metadata: Metadata,
        seconds: float,
    ) -> None:
        """`marking` writes on this broker, `node_id`. `seconds` is the timeout of requests to other brokers."""
        self._node_id = node_id
        self._marking = marking
        self._channels = channels
        self._metadata = metadata
        self._seconds = seconds
        self._gathering = Gathering[_Marker, Results](
            self._send, lambda marker: marker.decided.producer_id
        )
        self.run = self._gathering.run
        self._writes_alone = False
        self._wrote_alone_in = -1

    async def finish(self, epoch: Epoch, transactional_id: str) -> None:
        """Writes the markers of the decided transaction, and then completes it in the shard."""
        retry = _backoff()
        while epoch.state is ShardState.ACTIVE:
            decided = epoch.active().decided(transactional_id)
            if decided is None:
                return
            await self._write_all(epoch, transactional_id, decided)
            try:
                _complete(epoch, transactional_id, decided)
            except KafkaError as error:  # the write failed; writing the markers again is harmless
                log.debug("the end of %r: %s", transactional_id, error)
                await trio.sleep(retry.failed())

    async def _write_all(self, epoch: Epoch, transactional_id: str, decided: Transaction) -> None:
        left, coordinator_epoch = decided.partitions, CoordinatorEpoch(epoch.leader_epoch)
        retry = _backoff()
        while left := frozenset(filter(self._exists, left)):
            written = await self._write_some(coordinator_epoch, decided, left)
            left -= written
            if not left:
                return
            await trio.sleep(retry.failed())
            if retry.failures == ATTEMPTS_BEFORE_WARNING:
                shown = ", ".join(f"{topic}-{index}" for topic, index in sorted(left)[:5])
                events.TRANSACTION_MARKERS_WAIT.log(
                    log, transactional_id=transactional_id, partitions=shown
                )

    def _exists(self, partition: TopicPartition) -> bool:
        """Whether the partition still exists: it was in the metadata when it was added, so if it is missing, it has
        been deleted.
        """
        return has_partition(self._metadata.image, partition)

    async def _write_some(
        self,
        coordinator_epoch: CoordinatorEpoch,
        decided: Transaction,
        partitions: frozenset[TopicPartition],
    ) -> set[TopicPartition]:
        """Makes one attempt; returns the partitions that need no further one."""
        done: set[TopicPartition] = set()

        async def write(broker_id: BrokerId, led: set[TopicPartition]) -> None:
            marker = _Marker(decided, coordinator_epoch, frozenset(led))
            try:
                results = await self._ask_about(broker_id, marker)
            except (NotSent, OutcomeUnknown) as error:
                log.debug("markers to broker %d: %s", broker_id, error)
                return
            done.update(
                partition
                for partition in led
                if _is_done(results.get(partition, E.UNKNOWN_SERVER_ERROR))
            )

        by_leader = self._by_leader(partitions)
        if len(by_leader) == 1:  # the usual case; a task would cost two turns of the event loop
            await write(*by_leader.popitem())
            return done
        async with trio.open_nursery() as nursery:
            for broker_id, led in by_leader.items():
                nursery.start_soon(write, broker_id, led)
        return done

    async def _ask_about(self, broker_id: BrokerId, marker: _Marker) -> Results:
        """Sends a marker to a broker. A single marker for this broker is written immediately; further markers in the
        meantime, or in the same turn of the event loop, are written together: after a fail-over there may be thousands.
        """
        turn = loop_turns().number
        if broker_id != self._node_id or self._writes_alone or turn == self._wrote_alone_in:
            return await self._gathering.ask(broker_id, marker)
        self._writes_alone, self._wrote_alone_in = True, turn
        try:
            (results,) = await self._send(broker_id, [marker])
        finally:
            self._writes_alone = False
        return results

    def _by_leader(
        self, partitions: frozenset[TopicPartition]
    ) -> dict[BrokerId, set[TopicPartition]]:
        """Returns the partitions by leader; partitions without a live leader are retried later."""
        image = self._metadata.image
        found: defaultdict[BrokerId, set[TopicPartition]] = defaultdict(set)
        for topic, index in partitions:
            leader = image.topics.by_name[topic].partitions[index].leader
            broker = image.cluster.brokers.get(leader)
            if broker is not None and not broker.fenced:
                found[leader].add(TopicPartition(topic, index))
        return found

    async def _send(self, broker_id: BrokerId, markers: Sequence[_Marker]) -> list[Results]:
        request = WriteTxnMarkersRequest(markers=[_to_request(marker) for marker in markers])
        response = await self._ask(broker_id, request)
        results: dict[int, Results] = {
            marker.producer_id: {
                TopicPartition(topic.name, partition.partition_index): ErrorCode.of(
                    partition.error_code
                )
                for topic in marker.topics
                for partition in topic.partitions
            }
            for marker in response.markers
        }
        return [results.get(marker.decided.producer_id, {}) for marker in markers]

    async def _ask(
        self, broker_id: BrokerId, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        if broker_id == self._node_id:
            return await run_handling(self._marking.writing(request))
        response = await self._channels.call(broker_id, request, timeout=self._seconds)
        assert isinstance(response, WriteTxnMarkersResponse)
        return response


def _complete(epoch: Epoch, transactional_id: str, decided: Transaction) -> None:
    epoch.decide(lambda shard, at: shard.complete(transactional_id, decided, at))


def _is_done(code: ErrorCode) -> bool:
    return code is E.NONE or code in _NEEDS_NONE


def _to_request(marker: _Marker) -> WritableTxnMarker:
    decided = marker.decided
    return WritableTxnMarker(
        producer_id=decided.producer_id,
        producer_epoch=decided.epoch,
        transaction_result=decided.state is TransactionState.PREPARE_COMMIT,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in partitions_by_topic(marker.partitions).items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=decided.client_version,
    )


def _backoff() -> ExponentialBackoff:
    return ExponentialBackoff(RETRY_SECONDS_MIN, RETRY_SECONDS_MAX, uniform=random.random)
