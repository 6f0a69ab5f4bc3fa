"""The stage `verify` of Produce: a transactional batch must belong to an open transaction (KIP-890).

The transaction coordinator confirms the transaction's first batch in a partition; later batches need no confirmation
while the transaction is open there. A marker that arrives between the confirmation and the append invalidates the
confirmation, unless every transaction has its own epoch. `trimaran.log.producers.verifications` checks the sequences
that may follow. Source: `ReplicaManager.handleProduceAppend`, `UnifiedLog.maybeStartTransactionVerification` of Kafka.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.log.batches.batch import ATTRIBUTES_TRANSACTIONAL as TRANSACTIONAL
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.transport.scheduling.effects import Handling

# From this version on every transaction has its own epoch: a marker that ends this transaction fences the batch. A
# marker before the confirmation ends the previous transaction: the coordinator has already waited for it.
BUMPING_VERSION = 12

NOT_IN_TRANSACTION = "the partition is not part of the transaction"
ENDED_MEANWHILE = "the transaction was ended before the batch came"


class Verifier(Protocol):
    """The interface that `trimaran.broker.transactions.verification.TransactionVerifier` implements."""

    def checking_produce(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        version: int,
    ) -> Handling[Mapping[TopicPartition, ErrorCode]]: ...


def verify(
    parts: Sequence[PartitionAppend],
    verifier: Verifier,
    transactional_id: str | None,
    version: int,
) -> Handling[None]:
    """Verifies the transactions that begin in these partitions with the coordinator. Fails the parts of unknown
    transactions; the rest may be appended until the next marker.
    """
    unknown = []
    for part in parts:
        if part.failed or not part.batches or not part.batches[0].attributes & TRANSACTIONAL:
            continue
        if must_verify(part, transactional_id):
            unknown.append(part)
        if len(parts) > 1:
            yield None
    if not unknown or transactional_id is None:
        return
    if version < BUMPING_VERSION:
        for part in unknown:
            assert part.leader is not None
            part.verified_from = part.leader.log.log_end_offset
    for producer, theirs in _begun(unknown, version).items():
        codes = yield from verifier.checking_produce(
            transactional_id, producer, _keys(theirs), version
        )
        for part in theirs:
            code = codes[part.key]
            if code:
                part.fail(KafkaError(code, _why(code)))


def must_verify(part: PartitionAppend, transactional_id: str | None) -> bool:
    """Returns whether a transactional part must be verified with the coordinator.

    Fails the part immediately if its epoch is over. A transactional batch without a transactional id gets
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because the client's permission to write cannot be checked (CVE-2018-17196).
    """
    if not transactional_id:
        part.fail(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return False
    batch, leader = part.batches[0], part.leader
    assert leader is not None
    try:
        leader.log.producers.check_epoch(batch.producer_id, batch.producer_epoch)
    except KafkaError as error:
        part.fail(error)
        return False
    return not leader.log.producers.in_transaction(batch.producer_id, batch.producer_epoch)


def _begun(
    parts: Iterable[PartitionAppend], version: int
) -> Mapping[Producer, Sequence[PartitionAppend]]:
    """Returns the parts by producer; notes in their partitions that verification has begun."""
    by_producer: defaultdict[Producer, list[PartitionAppend]] = defaultdict(list)
    for part in parts:
        batch, leader = part.batches[0], part.leader
        assert leader is not None
        leader.log.producers.verifying(batch, has_own_epoch=version >= BUMPING_VERSION)
        by_producer[Producer(batch.producer_id, batch.producer_epoch)].append(part)
    return by_producer


def _keys(parts: Iterable[PartitionAppend]) -> set[TopicPartition]:
    return {part.key for part in parts}


def _why(code: ErrorCode) -> str:
    refused = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)
    return (
        NOT_IN_TRANSACTION if code in refused else f"the transaction is not verified: {code.name}"
    )


def check_not_ended(part: PartitionAppend) -> None:
    """Raises KafkaError INVALID_TXN_STATE if a marker was appended since verification began. Called just before the
    append.
    """
    assert part.leader is not None
    assert part.verified_from is not None
    if part.leader.log.producers.ended_since(part.batches[0].producer_id, part.verified_from):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, ENDED_MEANWHILE)
