"""The coordinator of transactions of one broker: a shard per partition of `__transaction_state` that it leads.

Handlers call it with what requests say; it finds the shard of a transactional id, or says who is to blame
(NOT_COORDINATOR while another broker leads, COORDINATOR_LOAD_IN_PROGRESS before the log is read).
Source: Kafka's `TransactionCoordinator`. Different on purpose: who comes while markers of the last transaction are
being written waits for them a while, where Kafka answers CONCURRENT_TRANSACTIONS at once and the client comes back
later than it need.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import trio

from trimaran.broker.coordination.runtime import CoordinatorRuntime, partition_for
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.broker.coordination.shard_epoch import ShardEpoch
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.transactions import rules
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.markers import MarkerWriter
from trimaran.broker.transactions.memory import TransactionMemory
from trimaran.broker.transactions.ports import (
    TRANSACTION_TOPIC,
    Metadata,
    ProducerIds,
    has_partition,
)
from trimaran.broker.transactions.records import TransactionRecord, TransactionRecordSerde
from trimaran.broker.transactions.shard import TransactionCoordinatorShard
from trimaran.broker.transactions.transaction import NO_PRODUCER_ID, Transaction
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import ProducerId, TopicPartition

T = TypeVar("T")

_Epoch = ShardEpoch[TransactionCoordinatorShard, TransactionRecord]
Decide = Callable[[TransactionCoordinatorShard, Instant], Result[TransactionRecord, T]]

# For the markers of the transaction before: they take milliseconds while leaders are there. Clients come back after 20
# to 100 ms; their requests wait 30 s.
END_SECONDS_MAX = 1.0
# For a topic that the leader of a partition knows already, and this broker not yet.
METADATA_SECONDS_MAX = 1.0


class TransactionCoordinator:
    """What handlers call. The shards live in `runtime`, which listens to the leadership of the topic and must be run.

    Methods raise KafkaError with the code for the client; they return when what they say is committed.
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
        """The cluster's level of the feature."""
        return self._metadata.image.features.levels.get("transaction.version", 0)

    # -- finding

    def partition_count(self) -> int:
        """Of the topic as it is, or as it would be created."""
        topic = self._metadata.image.topics.by_name.get(TRANSACTION_TOPIC)
        return len(topic.partitions) if topic is not None else self.limits.partition_count

    def partition_of(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self.partition_count())

    def epoch_of(self, transactional_id: str) -> _Epoch:
        """The epoch of the id's shard, which may still be loading.

        Raises:
            KafkaError: INVALID_REQUEST: the id is empty; NOT_COORDINATOR.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        return self.runtime.epoch_of(self.partition_of(transactional_id))

    async def _wait_loaded(self, transactional_id: str, deadline: float) -> None:
        """The topic was created a moment ago for the producer that asks, or its coordinator has moved."""
        epoch = self.runtime.epoch_of(self.partition_of(transactional_id))
        with trio.move_on_at(deadline):
            await epoch.wait_loaded()

    # -- requests

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, told: Producer | None
    ) -> Producer:
        """The producer that the id has from now on; an open transaction of the one before is aborted first."""
        if not 0 < timeout_ms <= self.limits.timeout_ms_max:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction.timeout.ms {timeout_ms} is not between 1 and {self.limits.timeout_ms_max}",
            )
        deadline = trio.current_time() + END_SECONDS_MAX
        await self._wait_loaded(transactional_id, deadline)

        async def attempt() -> Transaction:
            new_id = await self._new_producer_id(
                transactional_id, lambda known: rules.needs_producer_id(known, told)
            )
            return await self._submit(
                transactional_id,
                lambda shard, at: shard.init_producer(
                    transactional_id, told, timeout_ms, ProducerId(new_id), at
                ),
            )

        while (
            decided := await self._after_end(transactional_id, attempt, deadline)
        ).state.is_prepared:
            await self._wait_for_end(transactional_id, deadline)
        return Producer(decided.producer_id, decided.epoch)

    async def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
        *,
        seconds: float = END_SECONDS_MAX,
    ) -> None:
        """Waits up to `seconds` for the markers of the transaction before. What is added is in the metadata here
        (`wait_known`).
        """
        adding = _adding(transactional_id, producer, partitions, client_version)

        async def attempt() -> Transaction:
            return await self._submit(transactional_id, adding)

        await self._after_end(transactional_id, attempt, trio.current_time() + seconds)

    def add_partitions_now(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> PendingResponse[Transaction] | None:
        """As `add_partitions`, decided before this returns; None where it has to wait before, or is refused."""
        adding = _adding(transactional_id, producer, partitions, client_version)
        return self._decide_now(transactional_id, adding)

    def adds(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> bool:
        """Whether all are part of the transaction for certain, added by now where they were not. Where this says no,
        they may have been added, too: `wait_known` and `add_partitions` tell.
        """
        if self._unknown(partitions):
            return False
        added = self.add_partitions_now(transactional_id, producer, partitions, client_version)
        return added is not None and added.ready()

    def _unknown(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        image = self._metadata.image
        return {one for one in partitions if not has_partition(image, *one)}

    async def wait_known(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those that are not in the metadata here, though it was waited for: they are gone, or it is far behind.

        A partition that was added and is not there when its marker is due was deleted, so others must not be added.
        """
        missing = set(partitions)

        def all_known(_image: object = None) -> bool:
            missing.intersection_update(self._unknown(missing))
            return not missing

        if not all_known():
            with trio.move_on_after(METADATA_SECONDS_MAX):
                await self._metadata.wait_for(all_known)
        return missing

    async def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each is part of the open transaction; TRANSACTION_ABORTABLE if not."""
        return await self._submit(
            transactional_id,
            lambda shard, _at: shard.verify_partitions(transactional_id, producer, partitions),
        )

    def knows(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> bool:
        """Whether all are part of the open transaction for certain: its shard is here, and `verify_partitions` would
        say so at once.
        """
        try:
            epoch = self.epoch_of(transactional_id)
            result = epoch.active().verify_partitions(transactional_id, producer, partitions)
        except KafkaError:
            return False
        return epoch.is_committed and not any(result.response.values())

    async def end(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int
    ) -> Transaction:
        """Decides how the transaction ends; the markers follow. Its `told_producer` is who the producer is then."""

        async def attempt() -> Transaction:
            new_id = await self._new_producer_id(
                transactional_id, lambda known: rules.needs_next_producer_id(known, client_version)
            )
            return await self._submit(
                transactional_id,
                lambda shard, at: shard.end(
                    transactional_id, producer, is_commit, client_version, new_id, at
                ),
            )

        deadline = trio.current_time() + END_SECONDS_MAX
        return await self._after_end(transactional_id, attempt, deadline)

    def end_now(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int
    ) -> PendingResponse[Transaction] | None:
        """As `end`, decided before this returns; None where it has to wait before, or is refused."""

        def decide(
            shard: TransactionCoordinatorShard, at: Instant
        ) -> Result[TransactionRecord, Transaction]:
            known = shard.transactions.get(transactional_id)
            if rules.needs_next_producer_id(known, client_version):
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "a new id comes first")
            return shard.end(
                transactional_id, producer, is_commit, client_version, NO_PRODUCER_ID, at
            )

        return self._decide_now(transactional_id, decide)

    # -- deciding

    async def _new_producer_id(
        self, transactional_id: str, is_needed: Callable[[Transaction | None], bool]
    ) -> int:
        """A new id if the state needs one, which has not changed since when this returns."""
        while True:
            shard = self.epoch_of(transactional_id).active()
            known = shard.transactions.get(transactional_id)
            if not is_needed(known):
                return NO_PRODUCER_ID
            new_id = await self._producer_ids.take()
            if self.epoch_of(transactional_id).active().transactions.get(transactional_id) is known:
                return new_id

    async def _submit(self, transactional_id: str, decide: Decide[T]) -> T:
        """Returns when what was decided is committed."""
        return await self._decide(transactional_id, decide).wait()

    def _decide_now(self, transactional_id: str, decide: Decide[T]) -> PendingResponse[T] | None:
        try:
            return self._decide(transactional_id, decide)
        except KafkaError:
            return None

    def _decide(self, transactional_id: str, decide: Decide[T]) -> PendingResponse[T]:
        return self.epoch_of(transactional_id).decide(decide)

    async def _after_end(
        self, transactional_id: str, attempt: Callable[[], Awaitable[T]], deadline: float
    ) -> T:
        """Attempts again while the transaction before is still ending, until `deadline`."""
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
            await self._wait_for_end(transactional_id, deadline)

    async def _wait_for_end(self, transactional_id: str, deadline: float) -> None:
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


def _adding(
    transactional_id: str,
    producer: Producer,
    partitions: Collection[TopicPartition],
    client_version: int,
) -> Decide[Transaction]:
    return lambda shard, at: shard.add_partitions(
        transactional_id, producer, partitions, client_version, at
    )
