"""Sends all lines of a call in one transaction: consumers read them when it is committed, or never (KIP-98).

It follows version 1 of transactions, which every broker since 0.11 serves: partitions are added before they are written
to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.client.idempotent_producer import (
    ALL_ACKS,
    IdempotentProducer,
    ProducerIdentity,
    SendOptions,
)
from trimaran.errors.refused import Needs, check
from trimaran.wire.client.calls import RETRIED
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from trimaran.wire.messages.end_txn import EndTxnRequest
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimaran.log.batches.records import NewRecord
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.schema import Message

# The time after which the coordinator aborts an abandoned transaction.
TRANSACTION_TIMEOUT_MS = 60_000


class TransactionalProducer(IdempotentProducer):
    """A producer in a transaction, which begins with the first batch; `end` commits or aborts it. Another producer with
    the same id is fenced.
    """

    def __init__(
        self,
        client: BlockingClient,
        topic: str,
        transactional_id: str,
        delivery: SendOptions = ALL_ACKS,
    ) -> None:
        assert delivery.is_idempotent
        super().__init__(client, topic, delivery)
        self.transactional_id = self._id = transactional_id
        self._added: set[int] = set()

    def send_records(self, partition: int, records: Sequence[NewRecord]) -> None:
        """See `IdempotentProducer.send_records`."""
        if partition not in self._added:
            self._add(self.identity, partition)
            self._added.add(partition)
        super().send_records(partition, records)

    def _add(self, identity: ProducerIdentity, partition: int) -> None:
        topic = AddPartitionsToTxnTopic(name=self._topic, partitions=[partition])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[topic],
        )
        response = self._ask(request, version=3)
        found = single_item(response.results_by_topic_v3_and_below, "topic").results_by_partition
        check(single_item(found, "partition").partition_error_code, *self._check_arguments)

    def end(self, *, is_commit: bool) -> None:
        """Ends the transaction; does nothing if nothing was sent. Raises KafkaError, or RequestTimedOut if the outcome
        is unknown.
        """
        if not self._added:
            return
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=is_commit,
        )
        check(self._ask(request, version=3).error_code, *self._check_arguments)

    def _new_identity(self) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        response = self._ask(request)
        check(response.error_code, *self._check_arguments)
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    @property
    def _check_arguments(self) -> tuple[None, str, Needs]:
        """Returns the arguments of `check` after the error code."""
        needs = Needs("WRITE", topic=self._topic, transactional_id=self._id)
        return None, f"transactional id {self._id}", needs

    def _ask(self, request: Message, version: int | None = None) -> Any:
        to = CoordinatorNode(self._id, key_type=1)
        retried = RETRIED | {ErrorCode.CONCURRENT_TRANSACTIONS}
        return self._client.call(to, request, version=version, retried=retried)
