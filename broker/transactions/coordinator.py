"""The coordinator of transactions of one broker: a shard per partition of `__transaction_state` that it leads.

Handlers call it with the fields of requests; it finds the shard of a transactional id, or raises NOT_COORDINATOR while
another broker leads, and COORDINATOR_LOAD_IN_PROGRESS before the log is read.
Source: Kafka's `TransactionCoordinator`. Different on purpose: a request that comes while markers of the last
transaction are being written waits for them a while, where Kafka answers CONCURRENT_TRANSACTIONS at once and the client
asks again later than necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

import trio

from trimaran.broker.coordination.ports import Metadata
from trimaran.broker.coordination.runtime import CoordinatorRuntime, partition_for
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.broker.coordination.shard_epoch import ShardEpoch, ShardState
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.transactions import rules
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.markers import MarkerWriter
from trimaran.broker.transactions.memory import TransactionMemory
from trimaran.broker.transactions.ports import (
    TRANSACTION_TOPIC,
    ProducerIds,
    has_partition,
)
from trimaran.broker.transactions.records import TransactionRecord, TransactionRecordSerde
from trimaran.broker.transactions.shard import TransactionCoordinatorShard
from trimaran.broker.transactions.transaction import Transaction
from trimaran.node.replicated.pending import PendingResponse, settled
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_PRODUCER_ID, ProducerId, TopicPartition
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

T = TypeVar("T")

_Epoch = ShardEpoch[TransactionCoordinatorShard, TransactionRecord]
Decide = Callable[[TransactionCoordinatorShard, Instant], Result[TransactionRecord, T]]

# For the markers of the transaction before: they take milliseconds while leaders are there. Clients come back after 20
# to 100 ms; their requests wait 30 s.
END_SECONDS_MAX = 1.0
# For a topic that the leader of a partition knows already, and this broker not yet.
METADATA_SECONDS_MAX = 1.0


class TransactionCoordinator:
    """The interface for handlers. The shards live in `runtime`, which listens to the leadership of the topic and must
    be run. Methods raise KafkaError with the code for the client.
    """

    def __init__(
        self,
        limits: TransactionLimits,
        metadata: Metadata,
        producer_ids: ProducerIds,
        markers: MarkerWriter,
    ) -> None:
        self.limits = limits
        self.markers = markers
        self.memory = TransactionMemory()
        self._metadata = metadata
        self._producer_ids = producer_ids
        self.runtime = CoordinatorRuntime(
            CoordinatorSpec(
                topic=TRANSACTION_TOPIC,
                make_shard=lambda: TransactionCoordinatorShard(limits, self.memory),
                serde=TransactionRecordSerde(self.transaction_version),
                commit_timeout_ms=limits.commit_timeout_ms,
                load_buffer_bytes=limits.load_buffer_bytes,
                follow_up=markers.finish,
            )
        )

    def transaction_version(self) -> int:
        """Returns the cluster's level of the feature."""
        return self._metadata.image.features.levels.get("transaction.version", 0)

    # -- finding

    def partition_count(self) -> int:
        """Returns that of the topic as it is, or as it would be created."""
        topic = self._metadata.image.topics.by_name.get(TRANSACTION_TOPIC)
        return len(topic.partitions) if topic is not None else self.limits.partition_count

    def partition_of(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self.partition_count())

    def epoch_of(self, transactional_id: str) -> _Epoch:
        """Returns the epoch of the id's shard, which may still be loading.

        Raises:
            KafkaError: INVALID_REQUEST: the id is empty; NOT_COORDINATOR.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        return self.runtime.epoch_of(self.partition_of(transactional_id))

    # -- decisions: each is made before the method returns, and committed later

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> PendingResponse[Transaction]:
        """Adds partitions, which are in the metadata here (`wait_known`). Raises CONCURRENT_TRANSACTIONS: markers of
        the transaction before are still being written.
        """
        return self.epoch_of(transactional_id).decide(
            lambda shard, at: shard.add_partitions(
                transactional_id, producer, partitions, client_version, at
            )
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> PendingResponse[dict[TopicPartition, ErrorCode]]:
        """Says whether each is part of the open transaction; TRANSACTION_ABORTABLE if not."""
        return self.epoch_of(transactional_id).decide(
            lambda shard, _at: shard.verify_partitions(transactional_id, producer, partitions)
        )

    # -- requests: parts of handlers, which also wait for what comes before the decision

    def initializing(
        self, transactional_id: str, timeout_ms: int, told: Producer | None
    ) -> Handling[Producer]:
        """Returns the producer that the id has from now on; an open transaction of the one before is aborted first."""
        if not 0 < timeout_ms <= self.limits.timeout_ms_max:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction.timeout.ms {timeout_ms} is not between 1 and {self.limits.timeout_ms_max}",
            )
        deadline = trio.current_time() + END_SECONDS_MAX
        epoch = self.runtime.epoch_of(self.partition_of(transactional_id))
        if epoch.state is ShardState.LOADING:
            # The topic was created a moment ago for this producer, or its coordinator has moved.
            yield Blocking(partial(_wait_loaded, epoch, deadline))
        while True:
            pending = yield from self._deciding(
                transactional_id,
                lambda new_id: (
                    lambda shard, at: shard.init_producer(
                        transactional_id, told, timeout_ms, ProducerId(new_id), at
                    )
                ),
                lambda known: rules.needs_producer_id(known, told),
                deadline,
            )
            if not pending.response.state.is_prepared:
                decided = yield from settled(pending)
                return Producer(decided.producer_id, decided.epoch)
            yield Blocking(pending.wait)
            yield Blocking(partial(self.wait_for_end, transactional_id, deadline))

    def adding_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> Handling[Transaction]:
        """As `add_partitions`; waits up to `END_SECONDS_MAX` for the markers of the transaction before."""
        pending = yield from self._deciding(
            transactional_id,
            lambda _new_id: (
                lambda shard, at: shard.add_partitions(
                    transactional_id, producer, partitions, client_version, at
                )
            ),
        )
        return (yield from settled(pending))

    def ending(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int
    ) -> Handling[Transaction]:
        """Decides how the transaction ends; the markers follow. The `told_producer` of what it returns is the producer
        from then on. Waits up to `END_SECONDS_MAX` for the markers of the transaction before.
        """
        pending = yield from self._deciding(
            transactional_id,
            lambda new_id: (
                lambda shard, at: shard.end(
                    transactional_id, producer, is_commit, client_version, new_id, at
                )
            ),
            lambda known: rules.needs_next_producer_id(known, client_version),
        )
        return (yield from settled(pending))

    def _deciding(
        self,
        transactional_id: str,
        decide: Callable[[int], Decide[T]],
        needs_id: Callable[[Transaction | None], bool] | None = None,
        deadline: float | None = None,
    ) -> Handling[PendingResponse[T]]:
        """Decides with a new producer id if the state needs one; again while the transaction before is still ending,
        until `deadline`, by default for `END_SECONDS_MAX`.
        """
        while True:
            epoch, new_id = self.epoch_of(transactional_id), NO_PRODUCER_ID
            if needs_id is not None:
                known = epoch.active().transactions.get(transactional_id)
                if needs_id(known):
                    new_id = yield Blocking(self._producer_ids.take)
                    epoch = self.epoch_of(transactional_id)
                    if epoch.active().transactions.get(transactional_id) is not known:
                        continue
            try:
                return epoch.decide(decide(new_id))
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
            if deadline is None:
                deadline = trio.current_time() + END_SECONDS_MAX
            yield Blocking(partial(self.wait_for_end, transactional_id, deadline))

    # -- waiting

    def unknown(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Returns the partitions that are not in the metadata here."""
        image = self._metadata.image
        return {key for key in partitions if not has_partition(image, key)}

    async def wait_known(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Returns those that are not in the metadata here after a while: they are gone, or it is far behind.

        A partition that was added and is not there when its marker is due was deleted, so others must not be added.
        """
        missing = set(partitions)

        def all_known(_image: object = None) -> bool:
            missing.intersection_update(self.unknown(missing))
            return not missing

        if not all_known():
            with trio.move_on_after(METADATA_SECONDS_MAX):
                await self._metadata.wait_for(all_known)
        return missing

    async def wait_for_end(self, transactional_id: str, deadline: float) -> None:
        """Returns when the transaction that is decided is complete, or its coordinator another.

        Raises:
            KafkaError: CONCURRENT_TRANSACTIONS: not before `deadline`.
        """
        epoch, token = self.epoch_of(transactional_id), PendingResponse[object]()
        epoch.step(lambda shard, _at: shard.await_end(transactional_id, token))
        with trio.move_on_at(deadline) as scope:
            await token.wait()
        if scope.cancelled_caught:
            epoch.active().forget_waiting(transactional_id, token)
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


async def _wait_loaded(epoch: _Epoch, deadline: float) -> None:
    with trio.move_on_at(deadline):
        await epoch.wait_loaded()
