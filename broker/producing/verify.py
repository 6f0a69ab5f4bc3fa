"""Stage 4 of Produce: whether a transactional batch is of a transaction that is under way (KIP-890).

The first batch of a transaction in a partition needs the word of the transaction's coordinator; those that follow it do
not, as long as the transaction is open there. A marker that arrives between the word and the append makes it void,
unless every transaction has its own epoch. The sequences that may follow are `trimaran.log.producers.verifications`'
matter. Source: `ReplicaManager.handleProduceAppend`, `UnifiedLog.maybeStartTransactionVerification` of Kafka.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

# From here on every transaction has an epoch of its own: a marker that ends this one fences the batch. One that comes
# before the answer ends the transaction before, which the coordinator has waited for.
BUMPING_VERSION = 12

NOT_IN_TRANSACTION = "the partition is not part of the transaction"
ENDED_MEANWHILE = "the transaction was ended before the batch came"


class Verifier(Protocol):
    """`trimaran.broker.transactions.verification.TransactionVerifier` is one."""

    def check_produce_now(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        version: int,
    ) -> bool: ...

    async def check_produce(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        version: int,
    ) -> Mapping[TopicPartition, ErrorCode]: ...


def unverified(
    appends: Iterable[PartitionAppend], transactional_id: str | None
) -> list[PartitionAppend]:
    """Those of which the coordinator must be asked.

    One of an epoch that is over fails at once. A transactional batch without the id of a transaction gets
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as nobody has said that its client may write so (CVE-2018-17196).
    """
    found = []
    for one in appends:
        if one.failed or not one.batches or not one.batches[0].is_transactional:
            continue
        if not transactional_id:
            one.fail(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            continue
        batch, leader = one.batches[0], one.leader
        assert leader is not None
        try:
            leader.log.producers.check_epoch(batch.producer_id, batch.producer_epoch)
        except KafkaError as error:
            one.fail(error)
            continue
        if not leader.log.producers.in_transaction(batch.producer_id, batch.producer_epoch):
            found.append(one)
    return found


def is_verified_here(
    appends: Sequence[PartitionAppend], verifier: Verifier, transactional_id: str, version: int
) -> bool:
    """Whether `unverified` ones may be appended at once, as their coordinator is this broker and knows of them all, or
    has added them by now. If not, they are to be verified.
    """
    return all(
        verifier.check_produce_now(transactional_id, producer, _keys(theirs), version)
        for producer, theirs in _begun(appends, version).items()
    )


async def verify(
    appends: Sequence[PartitionAppend], verifier: Verifier, transactional_id: str, version: int
) -> None:
    """Asks the coordinator of `unverified` ones; they fail where it does not know of them, and may be appended till the
    next marker otherwise.
    """
    by_producer = _begun(appends, version)
    if version < BUMPING_VERSION:
        for one in appends:
            assert one.leader is not None
            one.verified_from = one.leader.log.log_end_offset
    for producer, theirs in by_producer.items():
        codes = await verifier.check_produce(transactional_id, producer, _keys(theirs), version)
        for one in theirs:
            code = codes[one.key]
            if code:
                one.fail(KafkaError(code, _why(code)))


def _begun(
    appends: Iterable[PartitionAppend], version: int
) -> Mapping[Producer, Sequence[PartitionAppend]]:
    """By producer; their partitions note that the coordinator is asked."""
    by_producer: defaultdict[Producer, list[PartitionAppend]] = defaultdict(list)
    for one in appends:
        batch, leader = one.batches[0], one.leader
        assert leader is not None
        leader.log.producers.verifying(batch, has_own_epoch=version >= BUMPING_VERSION)
        by_producer[Producer(batch.producer_id, batch.producer_epoch)].append(one)
    return by_producer


def _keys(appends: Iterable[PartitionAppend]) -> set[TopicPartition]:
    return {one.key for one in appends}


def _why(code: ErrorCode) -> str:
    refused = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)
    return (
        NOT_IN_TRANSACTION if code in refused else f"the transaction is not verified: {code.name}"
    )


def check_not_ended(one: PartitionAppend) -> None:
    """Just before the append. Raises KafkaError INVALID_TXN_STATE: a marker has come since it was verified."""
    assert one.leader is not None
    if one.leader.log.producers.ended_since(one.batches[0].producer_id, one.verified_from):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, ENDED_MEANWHILE)
