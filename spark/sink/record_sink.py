"""Writes rows to topics: places them in partitions as Kafka's producer does, fills batches, and passes them on for
delivery.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from trimaran.log.batches.batch import HEADER_BYTES, SEQUENCE_SPACE
from trimaran.log.batches.row_writing import group_rows, place_rows
from trimaran.log.batches.rows import FIRST_BYTES, BatchIdentity, OpenBatch
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.sink.delivery import BatchDelivery
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.rows import Rows, rows_of
from trimaran.spark.sink.topics import WrittenTopics
from trimaran.wire.identity import NO_NODE, NodeId, TopicPartition

# The size of the columns computed for a row: its slot, its place in the order, its time, and the positions of its key,
# value and headers.
ROW_BYTES = 64


class OpenTransaction(Protocol):
    """The transaction in which records are written."""

    def add(self, partitions: Sequence[TopicPartition]) -> None:
        """Adds partitions before they are written to."""


class _Partition:
    """A partition to which rows are written."""

    __slots__ = ("batch", "began", "key", "leader", "sequence")

    def __init__(self, key: TopicPartition, leader: NodeId) -> None:
        self.key = key
        self.leader = leader
        self.sequence = 0
        self.batch: OpenBatch | None = None
        self.began = 0.0


class _NumberedTopic:
    """A topic of a task. Rows without a key are written to the partition of slot `sticky`, which has received `filled`
    bytes of its share.
    """

    __slots__ = ("count", "filled", "first", "sticky")

    def __init__(self, first: int, count: int, sticky: int) -> None:
        self.first = first
        self.count = count
        self.sticky = sticky
        self.filled = 0


class RecordSink:
    """Writes the records of one task. `producing` has the producer's id and epoch, and the compression of batches."""

    def __init__(
        self,
        options: SinkOptions,
        topics: WrittenTopics,
        delivery: BatchDelivery,
        producing: BatchIdentity,
        transaction: OpenTransaction | None = None,
    ) -> None:
        self._options = options
        self._settings = options.producer
        self._finder = topics
        self._delivery = delivery
        self._producing = producing
        self._transaction = transaction
        self._added: set[TopicPartition] = set()
        self._topics: dict[str, _NumberedTopic] = {}
        self._slots: list[_Partition] = []
        # by slot: the slot of the next partition with a leader
        self._nexts = array("i")
        self._open: dict[TopicPartition, _Partition] = {}
        # Both count against `buffer.memory`, like batches in flight.
        self._open_bytes = 0
        self._rows_bytes = 0
        self.count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes the rows of an Arrow batch. Raises WriteFailed: these or earlier rows cannot be written."""
        if not batch.num_rows:
            return
        self._rows_bytes = batch.get_total_buffer_size() + ROW_BYTES * batch.num_rows
        self._make_room(0)
        rows = rows_of(batch, self._options.topic, time.time_ns() // 1_000_000)
        slots = self._place(rows, batch)
        ends = array("i", (0,)) * len(self._slots)
        order = array("i", (0,)) * rows.size
        group_rows(slots, ends, order)
        self._add_to_transaction(ends)
        begin = 0
        for partition, end in zip(self._slots, ends, strict=True):
            while begin < end:
                begin = self._fill(partition, rows, order, begin, end)
        self.count += rows.size
        self._seal_old()

    def flush(self) -> None:
        """Waits until all records are acknowledged. Raises WriteFailed."""
        for partition in list(self._open.values()):
            self._seal(partition)
        self._delivery.flush()

    def _place(self, rows: Rows, batch: pa.RecordBatch) -> array[int]:
        """Returns the slot of each row."""
        topics = [self._topic(name) for name in rows.topics]
        firsts = array("i", [topic.first for topic in topics])
        counts = array("i", [topic.count for topic in topics])
        sticky = array("i", [topic.sticky for topic in topics])
        filled = array("q", [topic.filled for topic in topics])
        slots = array("i", (0,)) * rows.size
        wrong = place_rows(
            rows.topic_of,
            firsts,
            counts,
            rows.partitions,
            rows.keys,
            rows.values,
            sticky,
            filled,
            self._nexts,
            self._settings.batch_bytes,
            not self._settings.ignores_keys,
            slots,
        )
        if wrong >= 0:
            topic = rows.topic_of[wrong]
            raise WriteFailed(
                f"topic {rows.topics[topic]}: a row asks for partition {rows.partitions[wrong]}, and there are "
                f"{counts[topic]} partitions{rows.key_at(wrong, batch)}"
            )
        for known, slot, size in zip(topics, sticky, filled, strict=True):
            known.sticky, known.filled = slot, size
        return slots

    def _topic(self, name: str) -> _NumberedTopic:
        if name not in self._topics:
            found, first = self._finder.find(name), len(self._slots)
            slots = range(first, first + len(found.leaders))
            led = [slot for slot in slots if found.leaders[slot - first] != NO_NODE] or list(slots)
            after = {slot: led[(number + 1) % len(led)] for number, slot in enumerate(led)}
            self._nexts.extend(after.get(slot, slot) for slot in slots)
            self._slots += [
                _Partition(TopicPartition(name, slot - first), found.leaders[slot - first])
                for slot in slots
            ]
            # A time-dependent choice, so that the tasks of a job begin with different partitions.
            self._topics[name] = _NumberedTopic(
                first, len(slots), led[time.time_ns() // 1000 % len(led)]
            )
        return self._topics[name]

    def _add_to_transaction(self, ends: array[int]) -> None:
        """Adds the partitions that get rows for the first time to the transaction, all in one request."""
        if self._transaction is None:
            return
        wanted = [
            partition.key
            for partition, begin, end in zip(self._slots, (0, *ends[:-1]), ends, strict=True)
            if end > begin and partition.key not in self._added
        ]
        if wanted:
            self._transaction.add(wanted)
            self._added.update(wanted)

    def _fill(self, partition: _Partition, rows: Rows, order: array[int], at: int, end: int) -> int:
        """Adds rows to the open batch of a partition, and seals it when it is full. Returns the next row."""
        if partition.batch is None:
            self._make_room(FIRST_BYTES)
            partition.batch = OpenBatch(self._settings.batch_bytes)
            partition.began = time.monotonic()
            self._open[partition.key] = partition
            self._open_bytes += partition.batch.held_bytes
        batch = partition.batch
        before = batch.held_bytes
        at, is_full = batch.add(rows.writer, order, at, end, rows.timestamps)
        self._open_bytes += batch.held_bytes - before
        if batch.size > self._settings.request_bytes:
            raise WriteFailed(
                f"topic {partition.key.topic}, partition {partition.key.partition}: a record of "
                f"{batch.size - HEADER_BYTES} bytes is larger than {self._settings.request_bytes} "
                "(kafka.max.request.size)"
            )
        if is_full:
            self._seal(partition)
        self._make_room(0)
        return at

    def _make_room(self, size: int) -> None:
        """Ensures that rows, open batches and batches in flight, with `size` more bytes, fit into `buffer.memory`:
        sends the open batches, and waits. A single Arrow batch or batch may exceed it.
        """
        bound = self._settings.buffer_bytes - self._rows_bytes - size
        if self._delivery.held_bytes + self._open_bytes <= bound:
            return
        for partition in list(self._open.values()):
            self._seal(partition)
        self._delivery.wait_for_room(self._rows_bytes + size)

    def _seal(self, partition: _Partition) -> None:
        batch, partition.batch = partition.batch, None
        del self._open[partition.key]
        assert batch is not None
        self._open_bytes -= batch.held_bytes
        sequence = partition.sequence if self._settings.is_idempotent else -1
        sealed = batch.seal(self._producing, sequence)
        partition.sequence = (partition.sequence + sealed.records) % SEQUENCE_SPACE
        self._delivery.put(partition.key, partition.leader, sealed)

    def _seal_old(self) -> None:
        """Seals batches older than `linger.ms` of partitions without a batch in flight."""
        now = time.monotonic()
        for partition in list(self._open.values()):
            is_old = now - partition.began >= self._settings.linger_seconds
            if is_old and self._delivery.is_idle(partition.key):
                self._seal(partition)
