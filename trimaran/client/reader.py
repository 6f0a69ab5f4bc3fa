"""Reads the records of a topic with the plain protocol; with read_committed it omits aborted transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, end_offset, out_of_range
from trimaran.client.positions import Position
from trimaran.errors.refused import check
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import iter_records
from trimaran.wire.client.destinations import LeaderNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from trimaran.log.batches.batch import BatchView
    from trimaran.log.batches.records import Record
    from trimaran.wire.blocking import BlockingClient

FETCH_BYTES_MAX = 1 << 20
FETCH_WAIT_MS = 500
READ_COMMITTED = 1


class TopicReader:
    """Reads the partitions of a topic in turn; with `is_committed` as a read_committed consumer does. `timeout` is the
    time limit of a fetch in seconds, None for the client's.
    """

    def __init__(
        self,
        client: BlockingClient,
        topic: str,
        partitions: list[int],
        *,
        is_committed: bool,
        timeout: float | None = None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._isolation = READ_COMMITTED if is_committed else 0
        self._timeout = timeout

    def records(
        self,
        begin: Position,
        exit_at_end: bool,
        before_round: Callable[[], object] = lambda: None,
        until: Position | None = None,
    ) -> Iterator[tuple[int, Record]]:
        """Yields the records of each partition in order; `before_round` is called before each round of fetches.
        `until` is the end, by default the current end of the log.
        """
        exit_at_end = exit_at_end or until is not None
        self._client.refresh([self._topic])
        positions = {
            p: begin.offset_in(
                self._client, TopicPartition(self._topic, p), isolation=self._isolation
            )
            for p in self._partitions
        }
        ends = {p: self._offset_at(p, LATEST_TIMESTAMP) for p in self._partitions if exit_at_end}
        if until is not None:
            for p, end in ends.items():
                where = TopicPartition(self._topic, p)
                wanted = until.offset_in(self._client, where, isolation=self._isolation)
                ends[p] = min(end, wanted)
        waiting = [p for p in self._partitions if until is None or positions[p] < ends[p]]
        while waiting:
            before_round()
            for index in waiting:
                for batch in self._in_range(index, positions[index], wait=not exit_at_end):
                    for record in batch.records():
                        if until is not None and record.offset >= ends[index]:
                            break
                        if record.offset >= positions[index]:
                            yield index, record
                    positions[index] = max(positions[index], batch.next_offset)
            waiting = [p for p in self._partitions if not exit_at_end or positions[p] < ends[p]]

    def timestamp_at(self, partition: int, offset: Offset) -> int | None:
        """Returns the timestamp of the record at `offset`, or of the next one; None at the end."""
        for batch in self.fetch(partition, offset, wait=False):
            for record in batch.records():
                if record.offset >= offset:
                    return record.timestamp_ms
        return None

    def _offset_at(self, partition: int, timestamp: int) -> Offset:
        where = TopicPartition(self._topic, partition)
        return end_offset(self._client, where, timestamp, isolation=self._isolation)

    def _in_range(self, partition: int, offset: Offset, *, wait: bool) -> list[FetchedBatch]:
        """Fetches; the error for an offset that is not in the partition names those that are."""
        try:
            return self.fetch(partition, offset, wait=wait)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        first = self._offset_at(partition, EARLIEST_TIMESTAMP)
        end = self._offset_at(partition, LATEST_TIMESTAMP)
        raise out_of_range(TopicPartition(self._topic, partition), offset, first, end)

    def fetch(self, partition: int, offset: Offset, *, wait: bool) -> list[FetchedBatch]:
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS if wait else 0,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=self._topic, partitions=[wanted])],
        )
        leader = LeaderNode(TopicPartition(self._topic, partition))
        response = self._client.call(leader, request, version=12, timeout=self._timeout).responses
        if not response:
            return []
        found = single_item(single_item(response, "topic").partitions, "partition")
        check(found.error_code, f"{self._topic}-{partition} at offset {offset}")
        return fetched_batches(found)


# More headers than a person reads: two bytes of a header become an object of a hundred bytes.
HEADERS_READ = 10_000


class FetchedBatch(NamedTuple):
    """A fetched batch with its records, neither a control batch nor part of an aborted transaction."""

    batch: BatchView
    is_seen: bool

    @property
    def next_offset(self) -> Offset:
        return self.batch.next_offset

    def records(self) -> Iterator[Record]:
        """Yields the records one by one, since a batch of a few kilobytes may have millions, each with up to
        `HEADERS_READ` headers.
        """
        if self.is_seen:
            for record, _ in iter_records(self.batch, headers_max=HEADERS_READ):
                yield record


def fetched_batches(found: Any) -> list[FetchedBatch]:
    """Yields the batches in order, without aborted transactions, each of which ends at its producer's next marker."""
    begins = sorted(
        (aborted.first_offset, aborted.producer_id) for aborted in found.aborted_transactions or ()
    )
    open_aborted: set[int] = set()
    batches = []
    for batch in iter_batches(found.records or b"", allow_partial_tail=True):
        while begins and begins[0][0] <= batch.last_offset:
            open_aborted.add(begins.pop(0)[1])
        if batch.is_control:
            open_aborted.discard(batch.producer_id)
        is_aborted = batch.is_transactional and batch.producer_id in open_aborted
        batches.append(FetchedBatch(batch, not batch.is_control and not is_aborted))
    return batches
