"""The driver's side: carries out the operations of the protocol against the brokers."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.sink.delivery import PRODUCE_VERSION, RETRIED_PRODUCE, refusal
from trimaran.spark.sink.exactly_once import protocol
from trimaran.spark.sink.exactly_once.coordinator import (
    FENCED,
    OPEN,
    TransactionCoordinators,
)
from trimaran.spark.sink.exactly_once.decisions import (
    KEY,
    encoded,
    ensure_topic,
    last_decision,
    topic_of,
)
from trimaran.spark.sink.exactly_once.pool import CoordinatorPool
from trimaran.spark.sink.exactly_once.protocol import (
    AreOpen,
    Begun,
    Decision,
    Each,
    End,
    Fence,
    Fenced,
    FindOpen,
    IsMarked,
    Lost,
    Operation,
    Prepared,
    ProducerLease,
    ReadDecision,
    TakeLead,
    TransactionOperation,
    Undecided,
    WriteDecision,
)
from trimaran.spark.sink.exactly_once.task_ids import TASK_ID
from trimaran.spark.sink.options import ExactlyOnce, SinkOptions
from trimaran.wire.client.destinations import LeaderNode, NodeWithId
from trimaran.wire.client.errors import RequestTimedOut, VersionMismatch
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.list_transactions import ListTransactionsRequest
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

log = logging.getLogger(__name__)
NAMES_SHOWN = 3  # transactions that an error names
# Open transactions at a broker that does not list them within this time end by their timeout.
LIST_SECONDS = 5.0


class SinkDriver:
    """Runs the functions of the protocol for one query; see `open_driver`."""

    def __init__(self, client: BlockingClient, options: SinkOptions, once: ExactlyOnce) -> None:
        self._client = client
        self._options = options
        self._once = once
        self._topic = topic_of(once.prefix)
        self._coordinators = TransactionCoordinators(client, self._topic)
        self._pool = CoordinatorPool(options.cluster, self._coordinators)
        self._sequences: dict[ProducerLease, int] = {}

    @property
    def _driver_id(self) -> str:
        return f"{self._once.prefix}-driver"

    def begin(self) -> Begun:
        """Begins a micro-batch. Raises WriteFailed."""
        ensure_topic(
            self._client,
            self._topic.topic,
            self._options.creation,
            self._options.producer.block_seconds,
        )
        begun: Begun = self._run(protocol.begin(self._once.lost_batch_accepted))
        return begun

    def commit(
        self, lease: ProducerLease, query: str, batch: int, transactions: Sequence[Prepared]
    ) -> None:
        """Decides and commits a micro-batch. Raises WriteFailed."""
        self._run(protocol.commit(lease, query, batch, transactions))

    def abort(
        self, lease: ProducerLease, query: str, batch: int, transactions: Sequence[Prepared]
    ) -> None:
        """Aborts a micro-batch that is not decided. Raises WriteFailed."""
        self._run(protocol.abort(lease, query, batch, transactions))

    def _run(self, steps: protocol.Steps) -> Any:
        try:
            operation = next(steps)
            while True:
                try:
                    result = self._carry_out(operation)
                except Fenced as fenced:
                    operation = steps.throw(fenced)
                else:
                    operation = steps.send(result)
        except StopIteration as stop:
            return stop.value
        except Fenced:
            raise WriteFailed(
                f"another driver has taken over the transactions of {self._once.prefix}: is the query running twice, "
                "or does another one use this transactionalIdPrefix?"
            ) from None
        except Undecided as undecided:
            raise WriteFailed(
                f"micro-batch {undecided.batch} was not written: {_named(undecided.transactions)} were aborted before "
                "they could be committed, by their time-out (raise kafka.transaction.timeout.ms, or make micro-batches "
                "smaller) or by a newer driver of the query. The micro-batch is repeated when the query starts again"
            ) from None
        except Lost as lost:
            raise WriteFailed(
                f"micro-batch {lost.batch} is written in part: its transactions were decided, {lost.committed} of them "
                f"are committed, but {_named(lost.transactions)} were aborted, by their time-out or by an operator, "
                "before the driver could commit them. Their rows are lost; to go on without them set option "
                f"acceptLostBatch={lost.batch}, to find them compare the topics with the source"
            ) from None

    def _carry_out(self, operation: Operation) -> Any:
        match operation:
            case FindOpen():
                return self._find_open()
            case TakeLead(renewed):
                # Otherwise coordinators before transaction.version 2 abort the open transaction and answer that the
                # lease is fenced.
                if renewed is not None:
                    own = Prepared(self._driver_id, renewed)
                    self._coordinators.end(own, is_commit=False)
                return self._coordinators.take(self._driver_id, self._once.timeout_ms, renewed)
            case ReadDecision():
                return last_decision(self._options.cluster, self._topic)
            case WriteDecision(lease, decision):
                self._write(lease, decision)
            case AreOpen(transactions):
                return self._not_open(transactions)
            case Each(operations):
                self._coordinators.find([each.transaction.transactional_id for each in operations])
                return self._pool.map(self._carry_out_at, operations)
        return None

    def _carry_out_at(
        self, coordinators: TransactionCoordinators, operation: TransactionOperation
    ) -> Any:
        """Carries out an operation about one transaction; several run at a time."""
        match operation:
            case End(transaction, is_commit):
                return coordinators.end(transaction, is_commit=is_commit)
            case IsMarked(transaction, batch):
                return coordinators.is_marked(transaction, batch)
            case Fence(transaction):
                try:
                    name, timeout = transaction.transactional_id, self._once.timeout_ms
                    coordinators.take(name, timeout, transaction.lease)
                except Fenced:
                    log.info("transaction %s has ended meanwhile", transaction.transactional_id)
        return None

    def _find_open(self) -> tuple[Prepared, ...]:
        request = ListTransactionsRequest(state_filters=[OPEN], producer_id_filters=[])
        wanted = re.compile(re.escape(self._once.prefix) + TASK_ID)
        self._client.refresh()
        names: list[str] = []
        for node in sorted(self._client.routing.nodes):
            try:
                response = self._client.call(NodeWithId(node), request, timeout=LIST_SECONDS)
            except RequestTimedOut:
                log.warning(
                    "broker %s did not list its transactions; open ones will time out", node
                )
            except VersionMismatch:
                return ()  # before 3.0: open transactions time out
            else:
                names += [found.transactional_id for found in response.transaction_states]
        return tuple(self._coordinators.open_transactions(list(filter(wanted.fullmatch, names))))

    def _not_open(self, transactions: Sequence[Prepared]) -> tuple[Prepared, ...]:
        try:
            names = [transaction.transactional_id for transaction in transactions]
            found = set(self._coordinators.open_transactions(names))
        except VersionMismatch:
            return ()  # before 3.0: the commit will fail instead
        return tuple(transaction for transaction in transactions if transaction not in found)

    def _write(self, lease: ProducerLease, decision: Decision) -> None:
        own = Prepared(self._driver_id, lease)
        self._coordinators.add_partitions(own, [self._topic])
        sequence = self._sequences.get(lease, 0)
        batch = build_batch(
            [NewRecord(KEY, encoded(decision), time.time_ns() // 1_000_000)],
            producer_id=lease.producer_id,
            producer_epoch=lease.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        produced = PartitionProduceData(index=self._topic.partition, records=batch)
        request = ProduceRequest(
            transactional_id=self._driver_id,
            acks=-1,
            timeout_ms=int(self._options.producer.request_seconds * 1000),
            topic_data=[TopicProduceData(name=self._topic.topic, partition_data=[produced])],
        )
        response = self._client.call(
            LeaderNode(self._topic), request, version=PRODUCE_VERSION, retried=RETRIED_PRODUCE
        )
        topic = single_item(response.responses, "topic")
        found = single_item(topic.partition_responses, "partition")
        code = found.error_code
        if code in FENCED:
            raise Fenced
        if code and code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            raise WriteFailed(refusal(self._topic, found))
        self._sequences[lease] = sequence + 1
        if self._coordinators.end(own, is_commit=True) is not protocol.Ending.ENDED:
            raise Fenced


@contextmanager
def open_driver(options: SinkOptions) -> Iterator[SinkDriver]:
    """Yields the driver's side of a query with exactly-once delivery. Raises WriteFailed, DataUnreadable."""
    assert options.exactly_once is not None
    with options.cluster.client() as client:
        yield SinkDriver(client, options, options.exactly_once)


def _named(transactions: Sequence[str]) -> str:
    shown = ", ".join(transactions[:NAMES_SHOWN])
    more = len(transactions) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
