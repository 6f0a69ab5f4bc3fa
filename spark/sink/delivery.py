"""Sends whole batches to the leaders of their partitions in the background: a thread for each leader.

A partition has one batch in flight at a time, so batches arrive in order, also after errors. With a producer id, a
batch that is sent repeatedly is written only once (KIP-98). The sequences of a partition's batches ascend in the order
of `put`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import NewRecord, build_batch, iter_records
from trimaran.log.batches.rows import SealedBatch
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.spark.origins.running_cluster.connection import ClusterSettings, TimeLimit
from trimaran.spark.sink.options import ProducerSettings
from trimaran.wire.client.calls import RETRIED
from trimaran.wire.client.destinations import NodeWithId
from trimaran.wire.client.errors import AuthenticationRefused, ConnectionLost, RequestTimedOut
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_NODE, NodeId, TopicPartition
from trimaran.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

# A version that names topics and in which clients add partitions to transactions, as up to version 11. Brokers serve it
# since Kafka 2.8.
PRODUCE_VERSION = 9
RETRIED_PRODUCE = RETRIED | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
RECREATED = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
# Errors of a transaction that has ended, or of a producer that another one has replaced.
ENDED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
# The maximum number of bytes of a request for each partition, besides the batch and the topic's name.
BATCH_OVERHEAD = 64
DELIVERY_TIMEOUT = "kafka.delivery.timeout.ms"
BACKOFF_SECONDS = 0.1  # Kafka's default of `retry.backoff.ms`
ERRORS_SHOWN = 3  # refused records that an error names


class Waiting(NamedTuple):
    """A batch that is not yet acknowledged; `deadline` is a time of `time.monotonic`."""

    batch: SealedBatch
    deadline: float


class BatchDelivery:
    """The batches in flight and in queues. One thread calls `put`; its next call raises the first failure."""

    def __init__(
        self, cluster: ClusterSettings, producer: ProducerSettings, transactional_id: str | None
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._transactional_id = transactional_id
        self._changed = threading.Condition()
        # by the leader of the first batch; later the key only identifies the thread
        self._queues: dict[NodeId, dict[TopicPartition, deque[Waiting]]] = {}
        self._owners: dict[TopicPartition, NodeId] = {}
        self._threads: list[threading.Thread] = []
        self._held_bytes = 0
        self._failure: Exception | None = None
        self._is_closed = False

    @property
    def held_bytes(self) -> int:
        """Returns the bytes of all batches that are not yet acknowledged."""
        return self._held_bytes

    def wait_for_room(self, size: int) -> None:
        """Waits until `size` bytes of `buffer.memory` are free, or all batches are acknowledged. Raises the failure of
        a batch.
        """
        left = max(0, self._producer.buffer_bytes - size)
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self._held_bytes <= left)
            self._check()

    def is_idle(self, partition: TopicPartition) -> bool:
        """Returns whether no batch of the partition waits or is in flight."""
        owner = self._owners.get(partition)
        return owner is None or not self._queues[owner].get(partition)

    def put(self, partition: TopicPartition, leader: NodeId, batch: SealedBatch) -> None:
        """Queues a batch. Raises the failure of an earlier one."""
        deadline = time.monotonic() + self._producer.delivery_seconds
        with self._changed:
            self._check()
            owner = self._owners.setdefault(partition, leader)
            if owner not in self._queues:
                self._queues[owner] = {}
                thread = threading.Thread(target=self._run, args=(owner,), daemon=True)
                self._threads.append(thread)
                thread.start()
            queue = self._queues[owner].setdefault(partition, deque())
            queue.append(Waiting(batch, deadline))
            self._held_bytes += batch.held_bytes
            self._changed.notify_all()

    def flush(self) -> None:
        """Waits until all batches are acknowledged. Raises the failure of the first that was not."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self._held_bytes)
            self._check()

    def close(self) -> None:
        """Ends the threads; unacknowledged batches are abandoned."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- in a thread of a leader

    def _run(self, owner: NodeId) -> None:
        try:
            with self._reachable_cluster().client() as client:
                while heads := self._next_heads(owner):
                    self._send(client, owner, heads)
        except DataUnreadable as error:
            self._fail(self._unwritten(owner, error))
        except (WriteFailed, OptionError) as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that writes
            self._fail(error)

    def _reachable_cluster(self) -> ClusterSettings:
        """Returns the cluster, with a time limit for connecting that does not exceed the delivery timeout."""
        limit = self._cluster.call_limit
        seconds = max(self._producer.delivery_seconds, self._producer.request_seconds)
        if seconds >= limit.seconds:
            return self._cluster
        return replace(self._cluster, call_limit=TimeLimit(DELIVERY_TIMEOUT, seconds))

    def _unwritten(self, owner: NodeId, error: DataUnreadable) -> Exception:
        """Returns the error for a failed connection: if a batch's deadline has passed, it names the partition."""
        with self._changed:
            now = time.monotonic()
            for partition, queue in self._queues[owner].items():
                if queue and now >= queue[0].deadline:
                    return self._late(partition, str(error))
        return error

    def _late(self, partition: TopicPartition, reason: str) -> WriteFailed:
        return WriteFailed(
            f"topic {partition.topic}, partition {partition.partition}: not written within "
            f"{self._producer.delivery_seconds:g} s ({DELIVERY_TIMEOUT}): {reason}"
        )

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _next_heads(self, owner: NodeId) -> dict[TopicPartition, Waiting]:
        """Waits for batches. Returns the first batch of each partition, as many as fit into a request; none after
        `close` or a failure.
        """
        with self._changed:
            queues = self._queues[owner]
            self._changed.wait_for(
                lambda: self._is_closed or self._failure is not None or any(queues.values())
            )
            heads: dict[TopicPartition, Waiting] = {}
            if self._is_closed or self._failure is not None:
                return heads
            size = 0
            for partition, queue in queues.items():
                if not queue:
                    continue
                size += len(queue[0].batch.data) + len(partition.topic) + BATCH_OVERHEAD
                if heads and size > self._producer.request_bytes:
                    break
                heads[partition] = queue[0]
            # A partition that was chosen is the last one next time, so that none waits forever.
            for partition in heads:
                queues[partition] = queues.pop(partition)
            return heads

    def _send(
        self, client: BlockingClient, owner: NodeId, heads: dict[TopicPartition, Waiting]
    ) -> None:
        """Sends batches once. A batch with a retriable error stays at the head of its queue."""
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        for partition in heads:
            known = client.routing.leader(partition)
            by_leader.setdefault(known.leader_id if known else NO_NODE, []).append(partition)
        left: dict[TopicPartition, str] = {}
        for leader, partitions in by_leader.items():
            answered = self._produce(client, leader, {key: heads[key] for key in partitions})
            for partition in partitions:
                reason = self._judge(owner, partition, heads[partition], answered)
                if reason is not None:
                    left[partition] = reason
        if left:
            self._pause(client, heads, left)

    def _pause(
        self,
        client: BlockingClient,
        heads: dict[TopicPartition, Waiting],
        left: dict[TopicPartition, str],
    ) -> None:
        now = time.monotonic()
        for partition, reason in left.items():
            if now >= heads[partition].deadline:
                raise self._late(partition, reason)
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed, timeout=BACKOFF_SECONDS)
        seconds = max(0.001, min(heads[partition].deadline for partition in left) - now)
        try:
            client.refresh({partition.topic for partition in left}, timeout=seconds)
        except RequestTimedOut:
            return  # a deadline has passed: the next attempt raises the error

    def _produce(
        self, client: BlockingClient, leader: NodeId, heads: dict[TopicPartition, Waiting]
    ) -> ProduceResponse | str:
        """Returns the answer, or the reason why there is none."""
        address = client.routing.locate(NodeWithId(leader))
        if address is None:
            return "the partition has no leader"
        topics: dict[str, list[PartitionProduceData]] = {}
        for partition, waiting in heads.items():
            data = PartitionProduceData(index=partition.partition, records=waiting.batch.data)
            topics.setdefault(partition.topic, []).append(data)
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._producer.acks,
            timeout_ms=int(self._producer.request_seconds * 1000),
            topic_data=[
                TopicProduceData(name=name, partition_data=data) for name, data in topics.items()
            ],
        )
        try:
            connection = client.connection_to(address)
            answer: ProduceResponse = connection.call(
                request, version=PRODUCE_VERSION, timeout=self._producer.request_seconds
            )
        except AuthenticationRefused:
            raise
        except (ConnectionLost, RequestTimedOut) as error:
            client.close()
            return str(error)
        return answer

    def _judge(
        self,
        owner: NodeId,
        partition: TopicPartition,
        waiting: Waiting,
        answered: ProduceResponse | str,
    ) -> str | None:
        """Removes a written batch from its queue; for any other batch, returns the reason why it must be sent again."""
        if isinstance(answered, str):
            return answered
        found = _answer_of(answered, partition)
        if found is None:
            return "the answer of the broker does not name the partition"
        code = found.error_code
        if code in RETRIED_PRODUCE:
            return f"{ErrorCode.of(code).name}{_because(found)}"
        if code == ErrorCode.MESSAGE_TOO_LARGE and waiting.batch.records > 1:
            self._replace(owner, partition, split(waiting.batch), waiting)
            return None
        if code and code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # the log has the records already
            raise WriteFailed(refusal(partition, found))
        self._replace(owner, partition, (), waiting)
        return None

    def _replace(
        self,
        owner: NodeId,
        partition: TopicPartition,
        batches: Sequence[SealedBatch],
        waiting: Waiting,
    ) -> None:
        with self._changed:
            queue = self._queues[owner][partition]
            queue.popleft()
            self._held_bytes -= waiting.batch.held_bytes
            for batch in reversed(batches):
                queue.appendleft(Waiting(batch, waiting.deadline))
                self._held_bytes += batch.held_bytes
            self._changed.notify_all()


def _answer_of(
    answer: ProduceResponse, partition: TopicPartition
) -> PartitionProduceResponse | None:
    for topic in answer.responses:
        if topic.name == partition.topic:
            for found in topic.partition_responses:
                if found.index == partition.partition:
                    return found
    return None


def _because(found: PartitionProduceResponse) -> str:
    return f" ({found.error_message})" if found.error_message else ""


def refusal(partition: TopicPartition, found: PartitionProduceResponse) -> str:
    """Returns the message of an error that ends a write."""
    code = ErrorCode.of(found.error_code)
    text = f"topic {partition.topic}, partition {partition.partition}: {code.name}{_because(found)}"
    if found.record_errors:
        shown = [
            f"record {error.batch_index}: {error.batch_index_error_message or code.name}"
            for error in found.record_errors[:ERRORS_SHOWN]
        ]
        more = len(found.record_errors) - len(shown)
        text += "; " + "; ".join(shown) + (f"; and {more} more" if more else "")
    if code in RECREATED:
        text += (
            "; the log has lost what was written before: was the topic deleted and created again, or its retention "
            "shorter than this task?"
        )
    if code in ENDED:
        text += (
            "; the transaction was aborted meanwhile, by its time-out (raise kafka.transaction.timeout.ms, or make "
            "micro-batches smaller) or by a newer driver of the query"
        )
    if code == ErrorCode.MESSAGE_TOO_LARGE:
        text += "; raise max.message.bytes of the topic, or filter such rows"
    return text


def split(batch: SealedBatch) -> list[SealedBatch]:
    """Splits a batch that is too large for its topic in two, without changing sequences, as Kafka's producer does."""
    view = BatchView(batch.data)
    records = [
        NewRecord(record.key, record.value, record.timestamp_ms, record.headers)
        for record, _ in iter_records(view)
    ]
    middle = len(records) // 2
    made = []
    for first, some in ((0, records[:middle]), (middle, records[middle:])):
        sequence = -1 if view.base_sequence < 0 else (view.base_sequence + first) & 0x7FFF_FFFF
        data = build_batch(
            some,
            compression=view.compression,
            producer_id=view.producer_id,
            producer_epoch=view.producer_epoch,
            base_sequence=sequence,
            is_transactional=view.is_transactional,
        )
        made.append(SealedBatch(data, len(some)))
    return made
