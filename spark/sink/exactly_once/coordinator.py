"""Requests about transactions to their coordinators, with the first version of the transaction protocol.

Brokers with transaction.version 2 (KIP-890) support it, too. That version guards against late records of an earlier
transaction of the same epoch; here each transaction begins with a new epoch (InitProducerId), so an epoch has only one
transaction, which its lease identifies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.sink.exactly_once.protocol import Ending, Fenced, Prepared, ProducerLease
from trimaran.wire.client.calls import RETRIED
from trimaran.wire.client.coordinators import TRANSACTION
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import RequestTimedOut, VersionMismatch
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset, TopicPartition
from trimaran.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from trimaran.wire.messages.end_txn import EndTxnRequest
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from trimaran.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.schema import Message

# The last request versions of the first transaction protocol, and that of OffsetFetch for one group with stable
# offsets.
ADD_PARTITIONS_VERSION = 3
ADD_OFFSETS_VERSION = 3
END_VERSION = 3
COMMIT_OFFSETS_VERSION = 3
FETCH_OFFSETS_VERSION = 7
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
MISSING = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
OPEN = "Ongoing"
# A coordinator may not have the metadata of a new topic yet: Kafka's producer also waits (`TransactionManager`).
WAITING = RETRIED | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class TransactionCoordinators:
    """The coordinators of a cluster's transactions and of the groups that hold marks."""

    def __init__(self, client: BlockingClient, marks: TopicPartition) -> None:
        """`marks` is an existing partition: marks are stored as committed offsets of it."""
        self._client = client
        self._marks = marks

    def through(self, client: BlockingClient) -> TransactionCoordinators:
        """Returns the same coordinators for another thread with its own client, which takes over the known routes."""
        client.routing.take_coordinators(self._client.routing)
        return TransactionCoordinators(client, self._marks)

    def take(
        self, transactional_id: str, timeout_ms: int, renewed: ProducerLease | None = None
    ) -> ProducerLease:
        """Returns the next lease of an id, and aborts its open transaction, if any. Raises Fenced, if `renewed` is not
        the newest one, and WriteFailed.
        """
        old = renewed or ProducerLease(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=old.producer_id,
            producer_epoch=old.epoch,
        )
        response = self._ask(transactional_id, request)
        if response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise WriteFailed(
                f"kafka.transaction.timeout.ms={timeout_ms} is more than the brokers allow "
                "(transaction.max.timeout.ms): lower it, or raise theirs"
            )
        self._check(transactional_id, response.error_code)
        return ProducerLease(response.producer_id, response.producer_epoch)

    def add_partitions(self, transaction: Prepared, partitions: Sequence[TopicPartition]) -> None:
        """Adds partitions to a transaction, which begins with the first. Raises Fenced, WriteFailed."""
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction.transactional_id,
            v3_and_below_producer_id=transaction.lease.producer_id,
            v3_and_below_producer_epoch=transaction.lease.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in topics.items()
            ],
        )
        response = self._ask(transaction.transactional_id, request, ADD_PARTITIONS_VERSION)
        codes = [
            (topic.name, found.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for found in topic.results_by_partition
        ]
        # If one partition is refused, the others get OPERATION_NOT_ATTEMPTED: the refusal is reported.
        codes.sort(key=lambda pair: pair[1] == ErrorCode.OPERATION_NOT_ATTEMPTED)
        for name, code in codes:
            self._check(f"{transaction.transactional_id}, topic {name}", code)

    def mark(self, transaction: Prepared, batch: int) -> None:
        """Writes the mark of a micro-batch within a transaction. Raises Fenced, WriteFailed."""
        name, lease = transaction.transactional_id, transaction.lease
        added = AddOffsetsToTxnRequest(
            transactional_id=name,
            producer_id=lease.producer_id,
            producer_epoch=lease.epoch,
            group_id=name,
        )
        self._check(name, self._ask(name, added, ADD_OFFSETS_VERSION).error_code)
        place = TxnOffsetCommitRequestPartition(
            partition_index=self._marks.partition,
            committed_offset=Offset(batch),
            committed_metadata=_mark_of(lease),
        )
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=name,
            producer_id=lease.producer_id,
            producer_epoch=lease.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._marks.topic, partitions=[place])],
        )
        response = self._client.call(
            CoordinatorNode(name), request, version=COMMIT_OFFSETS_VERSION, retried=WAITING
        )
        found = single_item(single_item(response.topics, "topic").partitions, "partition")
        self._check(name, found.error_code)

    def is_marked(self, transaction: Prepared, batch: int) -> bool:
        """Returns whether the mark of a transaction is committed. Raises WriteFailed."""
        name = transaction.transactional_id
        place = OffsetFetchRequestTopic(
            name=self._marks.topic, partition_indexes=[self._marks.partition]
        )
        request = OffsetFetchRequest(group_id=name, topics=[place], require_stable=True)
        response = self._client.call(
            CoordinatorNode(name), request, version=FETCH_OFFSETS_VERSION, retried=WAITING
        )
        self._check(name, response.error_code)
        found = single_item(single_item(response.topics, "topic").partitions, "partition")
        self._check(name, found.error_code)
        return (found.committed_offset, found.metadata) == (batch, _mark_of(transaction.lease))

    def end(self, transaction: Prepared, *, is_commit: bool) -> Ending:
        """Commits or aborts a transaction. Raises WriteFailed."""
        request = EndTxnRequest(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.lease.producer_id,
            producer_epoch=transaction.lease.epoch,
            committed=is_commit,
        )
        code = self._ask(transaction.transactional_id, request, END_VERSION).error_code
        if code in FENCED or code == ErrorCode.INVALID_TXN_STATE:
            return Ending.OTHERWISE
        if code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return Ending.UNKNOWN
        self._check(transaction.transactional_id, code)
        return Ending.ENDED

    def open_transactions(self, transactional_ids: Sequence[str]) -> list[Prepared]:
        """Returns the transactions of these ids that are open, in any order. Raises WriteFailed, and VersionMismatch
        before 3.0.
        """
        with _explained():
            states = self._client.describe_transactions(transactional_ids, retried=WAITING)
        found = []
        for name, state in states.items():
            if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                continue
            self._check(name, state.error_code)
            if state.transaction_state == OPEN:
                found.append(Prepared(name, ProducerLease(state.producer_id, state.producer_epoch)))
        return found

    def find(self, transactional_ids: Sequence[str]) -> None:
        """Finds the coordinators of all these ids with one request, unless they are known. Raises WriteFailed."""
        wanted = [CoordinatorNode(name, TRANSACTION) for name in transactional_ids]
        # Brokers before 3.0 find one coordinator per request: then each request about a transaction looks up its own.
        with _explained(), suppress(VersionMismatch):
            self._client.find_coordinators(wanted)

    def _ask(self, transactional_id: str, request: Message, version: int | None = None) -> Any:
        to = CoordinatorNode(transactional_id, TRANSACTION)
        with _explained(f"transactional id {transactional_id}: "):
            return self._client.call(to, request, version=version, retried=WAITING)

    def _check(self, what: str, code: int) -> None:
        if code in FENCED:
            raise Fenced
        if code:
            raise WriteFailed(f"transactional id {what}: {ErrorCode.of(code).name}")


def _mark_of(lease: ProducerLease) -> str:
    return f"{lease.producer_id}/{lease.epoch}"


@contextmanager
def _explained(what: str = "") -> Iterator[None]:
    try:
        yield
    except RequestTimedOut as error:
        reason = error.__cause__
        if isinstance(reason, KafkaError) and reason.code in MISSING:
            raise WriteFailed(
                f"{error}: it is on a partition of __transaction_state, which has no leader; the brokers create "
                "that topic when there are as many of them as transaction.state.log.replication.factor says"
            ) from None
        if isinstance(reason, KafkaError) and reason.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise WriteFailed(f"{what}{error}: was a topic deleted meanwhile?") from None
        raise
