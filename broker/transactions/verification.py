"""Verification that a partition belongs to a producer's transaction: leaders send a request to the coordinator before
an append (KIP-890).

Clients with version 2 of transactions do not add partitions themselves: the leader adds them with the same request.
One request to a coordinator verifies several producers. Without verification, a batch that arrives after
its transaction was aborted would begin one that never ends. Source: Kafka's `AddPartitionsToTxnManager`,
`ReplicaManager.maybeSendPartitionsToTransactionCoordinator`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeVar

import trio

from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.channels.gathering import Gathering
from trimaran.broker.coordination.ports import Metadata
from trimaran.broker.transactions.coordinator import TransactionCoordinator
from trimaran.broker.transactions.ports import TRANSACTION_TOPIC
from trimaran.broker.transactions.records import partitions_by_topic
from trimaran.broker.transactions.transaction import EPOCH_BUMP_VERSION
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer
from trimaran.quorum.metadata.image import NO_LEADER
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId, TopicPartition
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

T = TypeVar("T")

E = ErrorCode
Codes = dict[TopicPartition, ErrorCode]


class _Support(Enum):
    """The parts of KIP-890 that a client supports."""

    NOTHING = "nothing"
    ABORTABLE = "abortable"  # the error TRANSACTION_ABORTABLE
    ADDING = "adding"  # the broker adds its partitions

    @classmethod
    def of(cls, version: int, abortable: int, adding: int) -> _Support:
        """Returns the support of a request version; `abortable` and `adding` are the first versions with each
        feature.
        """
        if version >= adding:
            return cls.ADDING
        return cls.ABORTABLE if version >= abortable else cls.NOTHING


class _Question(NamedTuple):
    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    verify_only: bool


class TransactionVerifier:
    """Verifies transactions with their coordinators while `run` is running."""

    def __init__(
        self,
        node_id: BrokerId,
        coordinator: TransactionCoordinator,
        channels: Channels,
        metadata: Metadata,
        seconds: float,
        is_enabled: Callable[[], bool],
    ) -> None:
        """`seconds` is the timeout of requests to coordinators. `is_enabled` returns
        transaction.partition.verification.enable.
        """
        self._node_id = node_id
        self._coordinator = coordinator
        self._channels = channels
        self._metadata = metadata
        self._seconds = seconds
        self._is_enabled = is_enabled
        self._gathering = Gathering[_Question, Codes](self._send, lambda one: one.transactional_id)
        self.run = self._gathering.run

    def checking_produce(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        version: int,
    ) -> Handling[Codes]:
        """Returns NONE or the code for a Produce request of `version` for each partition; without a wait if this broker
        coordinates the transaction and the decision is committed. Adds partitions that the client leaves for the broker
        to add.
        """
        support = _Support.of(version, abortable=11, adding=12)
        codes = yield from self._checking(transactional_id, producer, partitions, support)
        return {partition: _code_for_producer(code, support) for partition, code in codes.items()}

    def checking_offset_commit(
        self, transactional_id: str, producer: Producer, partition: TopicPartition, version: int
    ) -> Handling[ErrorCode]:
        """Checks a TxnOffsetCommit in the same way, for the partition of `__consumer_offsets` to which it writes."""
        support = _Support.of(version, abortable=4, adding=5)
        codes = yield from self._checking(transactional_id, producer, [partition], support)
        code = codes[partition]
        if code is E.CONCURRENT_TRANSACTIONS and support is not _Support.ADDING:
            # older clients do not expect CONCURRENT_TRANSACTIONS here
            return E.COORDINATOR_LOAD_IN_PROGRESS
        return code

    def _checking(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        support: _Support,
    ) -> Handling[Codes]:
        adds = support is _Support.ADDING
        if not adds and not self._is_enabled():
            return dict.fromkeys(partitions, E.NONE)
        question = _Question(transactional_id, producer, frozenset(partitions), not adds)
        limits = self._coordinator.limits
        deadline = trio.current_time() + limits.add_retry_ms_max / 1000
        codes = yield from self._asking(question)
        while E.CONCURRENT_TRANSACTIONS in codes.values() and adds:
            if trio.current_time() + limits.add_retry_ms / 1000 > deadline:
                break
            yield Blocking(partial(trio.sleep, limits.add_retry_ms / 1000))
            codes = yield from self._asking(question)
        return {partition: _code_for_client(code, support) for partition, code in codes.items()}

    def _asking(self, question: _Question) -> Handling[Codes]:
        broker_id = self._coordinator_of(question.transactional_id)
        if broker_id == self._node_id:
            return (yield from self._asking_here(question))
        if broker_id < 0:
            return dict.fromkeys(question.partitions, E.COORDINATOR_NOT_AVAILABLE)
        try:
            codes: Codes = yield Blocking(partial(self._gathering.ask, broker_id, question))
        except (NotSent, OutcomeUnknown):
            return dict.fromkeys(question.partitions, E.NETWORK_EXCEPTION)
        return codes

    def _coordinator_of(self, transactional_id: str) -> BrokerId:
        """Returns the broker that leads the id's partition; negative if there is none."""
        topic = self._metadata.image.topics.by_name.get(TRANSACTION_TOPIC)
        index = self._coordinator.partition_of(transactional_id)
        if topic is None or index not in topic.partitions:
            return NO_LEADER
        return topic.partitions[index].leader

    def _asking_here(self, question: _Question) -> Handling[Codes]:
        coordinator, partitions = self._coordinator, question.partitions
        name, producer = question.transactional_id, question.producer
        try:
            if question.verify_only:
                pending = coordinator.verify_partitions(name, producer, partitions)
                return (yield from _blocking(pending))
            if coordinator.unknown(partitions) and (
                yield Blocking(partial(coordinator.wait_known, partitions))
            ):
                return dict.fromkeys(partitions, E.COORDINATOR_NOT_AVAILABLE)
            added = yield from coordinator.adding_partitions(
                *(name, producer, partitions, EPOCH_BUMP_VERSION),
                trio.current_time() + coordinator.limits.add_retry_ms_max / 1000,
            )
            yield from _blocking(added)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return dict.fromkeys(partitions, E.NONE)

    async def _send(self, broker_id: BrokerId, questions: Sequence[_Question]) -> list[Codes]:
        request = AddPartitionsToTxnRequest(
            transactions=[_to_request(question) for question in questions]
        )
        response = await self._channels.call(broker_id, request, timeout=self._seconds)
        assert isinstance(response, AddPartitionsToTxnResponse)
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            if code is E.CLUSTER_AUTHORIZATION_FAILED:  # not the client's fault
                code = E.INVALID_TXN_STATE
            return [dict.fromkeys(question.partitions, code) for question in questions]
        found = {
            result.transactional_id: {
                (topic.name, each_result.partition_index): ErrorCode.of(
                    each_result.partition_error_code
                )
                for topic in result.topic_results
                for each_result in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        return [
            {
                partition: found.get(question.transactional_id, {}).get(
                    partition, E.NETWORK_EXCEPTION
                )
                for partition in question.partitions
            }
            for question in questions
        ]


def _blocking(pending: PendingResponse[T]) -> Handling[T]:
    """Returns the response when it is committed. Unlike `settled`, need not be the last effect of a handler."""
    if pending.ready():
        return pending.response
    response: T = yield Blocking(pending.wait)
    return response


def _to_request(question: _Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer.id,
        producer_epoch=question.producer.epoch,
        verify_only=question.verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in partitions_by_topic(question.partitions).items()
        ],
    )


def _code_for_client(code: ErrorCode, support: _Support) -> ErrorCode:
    """Converts a coordinator's code to the code that producers expect."""
    if code is E.PRODUCER_FENCED:
        return E.INVALID_PRODUCER_EPOCH
    if code is E.TRANSACTION_ABORTABLE and support is _Support.NOTHING:
        return E.INVALID_TXN_STATE
    return code


# Producers do not retry these codes as they should, but they retry NOT_ENOUGH_REPLICAS without a metadata request
# (KAFKA-16386).
_RETRIED_AS_TOO_FEW_REPLICAS = frozenset(
    {
        E.NETWORK_EXCEPTION,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
    }
)


def _code_for_producer(code: ErrorCode, support: _Support) -> ErrorCode:
    is_concurrent = code is E.CONCURRENT_TRANSACTIONS and support is not _Support.ADDING
    return E.NOT_ENOUGH_REPLICAS if code in _RETRIED_AS_TOO_FEW_REPLICAS or is_concurrent else code
