"""The transaction coordinator of one broker: a shard for each partition of `__transaction_state` that it leads.

Handlers call it with the fields of requests; it finds the shard of a transactional id, or raises NOT_COORDINATOR if
another broker leads, or COORDINATOR_LOAD_IN_PROGRESS until the log has been read. Source: Kafka's
`TransactionCoordinator`. Intentional difference: a request that arrives while markers of the previous transaction are
being written waits for them for a while; Kafka returns CONCURRENT_TRANSACTIONS immediately, and the client retries
later than necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar
from weakref import WeakSet

import trio

from trimaran.broker.coordination.memory import Account
from trimaran.broker.coordination.ports import Metadata
from trimaran.broker.coordination.runtime import CoordinatorRuntime, partition_for
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.broker.coordination.shard_epoch import ShardEpoch, ShardState
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.transactions import rules
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.markers import MarkerWriter
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

# The wait for the markers of the previous transaction: these take milliseconds while the leaders are available. Clients
# retry after 20 to 100 ms; their requests time out after 30 s.
END_SECONDS_MAX = 1.0
# The wait for a topic that the leader of a partition already knows, but this broker does not yet.
METADATA_SECONDS_MAX = 1.0


class TransactionCoordinator:
    """The interface for handlers. `runtime` has the shards, listens to the leadership of the topic, and must be
    running. Methods raise KafkaError with the code for the client.
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
        self.accounts = WeakSet[Account]()
        self._metadata = metadata
        self._producer_ids = producer_ids
        self.runtime = CoordinatorRuntime(
            CoordinatorSpec(
                topic=TRANSACTION_TOPIC,
                make_shard=lambda: TransactionCoordinatorShard(limits, self.accounts),
                serde=TransactionRecordSerde(self.transaction_version),
                commit_timeout_ms=limits.commit_timeout_ms,
                load_buffer_bytes=limits.load_buffer_bytes,
                follow_up=markers.finish,
            )
        )

    def transaction_version(self) -> int:
        """Returns the cluster's level of the feature `transaction.version`."""
        return self._metadata.image.features.levels.get("transaction.version", 0)

    # -- finding

    def partition_count(self) -> int:
        """Returns the number of partitions of the topic, existing or yet to be created."""
        topic = self._metadata.image.topics.by_name.get(TRANSACTION_TOPIC)
        return len(topic.partitions) if topic is not None else self.limits.partition_count

    def partition_of(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self.partition_count())

    def epoch_of(self, transactional_id: str) -> _Epoch:
        """Returns the epoch of the id's shard, which may still be loading.

        Raises:
            KafkaError: INVALID_REQUEST if the id is empty; NOT_COORDINATOR.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        return self.runtime.epoch_of(self.partition_of(transactional_id))

    # -- decisions: made before the method returns, committed later

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> PendingResponse[Transaction]:
        """Adds partitions, which must be in this broker's metadata (`wait_known`). Raises CONCURRENT_TRANSACTIONS while
        markers of the previous transaction are being written.
        """
        return self.epoch_of(transactional_id).decide(
            lambda shard, at: shard.add_partitions(
                transactional_id, producer, partitions, client_version, at
            )
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> PendingResponse[dict[TopicPartition, ErrorCode]]:
        """Returns NONE for each partition of the open transaction, TRANSACTION_ABORTABLE for all others."""
        return self.epoch_of(transactional_id).decide(
            lambda shard, _at: shard.verify_partitions(transactional_id, producer, partitions)
        )

    # -- requests: parts of handlers that also wait until a decision is possible

    def initializing(
        self, transactional_id: str, timeout_ms: int, told: Producer | None
    ) -> Handling[Producer]:
        """Returns the producer that the id has from now on; first aborts an open transaction of the previous
        producer.
        """
        if not 0 < timeout_ms <= self.limits.timeout_ms_max:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction.timeout.ms {timeout_ms} is not between 1 and {self.limits.timeout_ms_max}",
            )
        deadline = trio.current_time() + END_SECONDS_MAX
        epoch = self.runtime.epoch_of(self.partition_of(transactional_id))
        if epoch.state is ShardState.LOADING:
            # The topic has just been created for this producer, or its coordinator has moved.
            yield Blocking(partial(_wait_loaded, epoch, deadline))
        while True:
            pending = yield from self._deciding(
                transactional_id,
                lambda new_id: (
                    lambda shard, at: shard.init_producer(
                        transactional_id, told, timeout_ms, new_id, at
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
        deadline: float | None = None,
    ) -> Handling[PendingResponse[Transaction]]:
        """Adds partitions as `add_partitions` does, but waits for the markers of the previous transaction, until
        `deadline`, by default for `END_SECONDS_MAX`.
        """
        return self._deciding(
            transactional_id,
            lambda _new_id: (
                lambda shard, at: shard.add_partitions(
                    transactional_id, producer, partitions, client_version, at
                )
            ),
            deadline=deadline,
        )

    def ending(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int
    ) -> Handling[Transaction]:
        """Decides how the transaction ends; the markers are written later. `response_producer` of the result is the
        producer from then on. Waits up to `END_SECONDS_MAX` for the markers of the previous transaction.
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
        decide: Callable[[ProducerId], Decide[T]],
        needs_id: Callable[[Transaction | None], bool] | None = None,
        deadline: float | None = None,
    ) -> Handling[PendingResponse[T]]:
        """Decides, with a new producer id if the state requires one; retries while the previous transaction is still
        ending, until `deadline`, by default for `END_SECONDS_MAX`.
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
        """Returns the partitions that are missing from this broker's metadata."""
        image = self._metadata.image
        return {key for key in partitions if not has_partition(image, key)}

    async def wait_known(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Returns the partitions that are still missing from this broker's metadata after a while: they have been
        deleted, or the metadata lags behind.

        Unknown partitions must not be added: a partition that is missing when its marker is due counts as deleted.
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
        """Waits until the decided transaction is complete, or the coordinator moves.

        Raises:
            KafkaError: CONCURRENT_TRANSACTIONS if it is not complete by `deadline`.
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
