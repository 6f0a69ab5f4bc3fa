"""A task's side: writes rows in a transaction, which it leaves open for the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from trimaran.log.batches.rows import BatchIdentity
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.sink.delivery import BatchDelivery
from trimaran.spark.sink.exactly_once.coordinator import TransactionCoordinators
from trimaran.spark.sink.exactly_once.decisions import topic_of
from trimaran.spark.sink.exactly_once.protocol import (
    Begun,
    Fenced,
    Mismatch,
    Prepared,
    ProducerLease,
    Treatment,
    verdict,
)
from trimaran.spark.sink.exactly_once.task_ids import TASK_IDS
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.record_sink import RecordSink
from trimaran.spark.sink.topics import WrittenTopics
from trimaran.wire.identity import TopicPartition

log = logging.getLogger(__name__)


class TaskOutcome(NamedTuple):
    """The report of a task to the driver. `transaction` is None if it had no rows, or if they are written already."""

    lease: ProducerLease
    query: str
    is_skipped: bool
    transaction: Prepared | None
    records: int


class _TaskTransaction:
    """The transaction of one task as `RecordSink` sees it."""

    def __init__(self, coordinators: TransactionCoordinators, transaction: Prepared) -> None:
        self._coordinators = coordinators
        self._transaction = transaction

    def add(self, partitions: Sequence[TopicPartition]) -> None:
        self._coordinators.add_partitions(self._transaction, partitions)


def write_prepared(
    options: SinkOptions, begun: Begun, query: str, batch: int, rows: Iterator[pa.RecordBatch]
) -> TaskOutcome:
    """Writes all rows of a task of a micro-batch in a transaction, unless the micro-batch is written already.

    Raises:
        WriteFailed: a record was refused, the transaction timed out, or checkpoint and decisions do not match.
        DataUnreadable: the cluster cannot be reached.
    """
    once = options.exactly_once
    assert once is not None
    try:
        decided = verdict(begun, query, batch, adopts=once.adopts)
    except Mismatch as error:
        raise WriteFailed(
            f"{error} (topic {topic_of(once.prefix).topic}); adoptCheckpoint=true goes on after writes without "
            "exactly_once, and another transactionalIdPrefix begins again"
        ) from None
    if decided is Treatment.SKIP:
        for _ in rows:  # Spark requires that the rows are consumed
            pass
        return TaskOutcome(begun.lease, query, True, None, 0)
    try:
        transaction, count = _written(options, begun, batch, rows)
    except Fenced:
        raise WriteFailed(
            f"micro-batch {batch}: the transaction of this task was fenced or timed out "
            f"(kafka.transaction.timeout.ms={once.timeout_ms})"
        ) from None
    return TaskOutcome(begun.lease, query, False, transaction, count)


def _written(
    options: SinkOptions, begun: Begun, batch: int, batches: Iterator[pa.RecordBatch]
) -> tuple[Prepared | None, int]:
    once, settings = options.exactly_once, options.producer
    assert once is not None
    first = next((rows for rows in batches if rows.num_rows), None)
    if first is None:
        return None, 0
    with options.cluster.client() as client:
        coordinators = TransactionCoordinators(client, topic_of(once.prefix))
        name = TASK_IDS.next(once.prefix, begun.lease)
        transaction = Prepared(name, coordinators.take(name, once.timeout_ms))
        delivery = BatchDelivery(options.cluster, settings, name)
        try:
            identity = BatchIdentity(
                settings.compression,
                settings.compression_level,
                transaction.lease.producer_id,
                transaction.lease.epoch,
                is_transactional=True,
            )
            topics = WrittenTopics(client, options.creation, settings.block_seconds)
            steps = _TaskTransaction(coordinators, transaction)
            sink = RecordSink(options, topics, delivery, identity, steps)
            sink.write(first)
            for rows in batches:
                sink.write(rows)
            sink.flush()
            coordinators.mark(transaction, batch)
        except BaseException:
            delivery.close()
            _give_up(coordinators, transaction, once.timeout_ms)
            raise
        delivery.close()
        return transaction, sink.count


def _give_up(coordinators: TransactionCoordinators, transaction: Prepared, timeout_ms: int) -> None:
    """Aborts the transaction of a failed task; if this fails, the next micro-batch or the timeout aborts it.

    The abort uses a new epoch, because an abandoned batch may still be in flight: after an abort in the same epoch, a
    leader without KIP-890 would begin a transaction with this batch, which would never end.
    """
    try:
        coordinators.take(transaction.transactional_id, timeout_ms, transaction.lease)
    except Fenced:
        return  # it has ended; old coordinators also answer this after the abort
    except Exception as error:  # noqa: BLE001 - the task's own error is raised
        log.warning("transaction %s is left open: %s", transaction.transactional_id, error)
