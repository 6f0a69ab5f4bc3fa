"""Reads the records of partitions with the plain protocol; with read_committed it omits aborted transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, end_offset, out_of_range
from trimaran.client.positions import Position
from trimaran.errors.refused import Needs, check
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import iter_records
from trimaran.wire.client.destinations import LeaderNode
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NodeId, Offset, TopicPartition
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from trimaran.log.batches.batch import BatchView
    from trimaran.log.batches.records import Record
    from trimaran.wire.blocking import BlockingClient

FETCH_BYTES_MAX = 1 << 20
FETCH_WAIT_MS = 500
READ_COMMITTED = 1
# The last version of Fetch that names topics instead of ids. Requests have no session (KIP-227), since a client may end
# at any time.
_VERSION = 12


class PartitionReader:
    """Reads partitions, also of several topics: a request to a leader names all of its partitions, and those that
    returned records are last in the next request. With `is_committed` it reads as a read_committed consumer does.
    `timeout` is the time limit of a fetch in seconds, None for the client's.
    """

    def __init__(
        self,
        client: BlockingClient,
        partitions: Iterable[TopicPartition],
        *,
        is_committed: bool,
        timeout: float | None = None,
    ) -> None:
        self._client = client
        self._partitions = list(partitions)
        self._isolation = READ_COMMITTED if is_committed else 0
        self._timeout = timeout

    def records(
        self,
        begin: Position,
        exit_at_end: bool,
        before_round: Callable[[], object] = lambda: None,
        until: Position | None = None,
    ) -> Iterator[tuple[TopicPartition, Record]]:
        """Yields the records of each partition in order; `before_round` is called before each round of fetches.
        `until` is the end, by default the current end of the log.
        """
        chosen = self._partitions
        exit_at_end = exit_at_end or until is not None
        self._client.refresh(sorted({each.topic for each in chosen}))
        positions = {each: self.offset_of(begin, each) for each in chosen}
        ends = {each: self.end_of(each) for each in chosen if exit_at_end}
        if until is not None:
            for each, end in ends.items():
                ends[each] = min(end, self.offset_of(until, each))
        waiting = [each for each in chosen if until is None or positions[each] < ends[each]]
        wait_ms = 0
        while waiting:
            before_round()
            busy = set()
            asked = {each: positions[each] for each in waiting}
            for where, batches in self.round(asked, wait_ms=0 if exit_at_end else wait_ms):
                for batch in batches:
                    busy.add(where)
                    for record in batch.records():
                        if until is not None and record.offset >= ends[where]:
                            break
                        if record.offset >= positions[where]:
                            yield where, record
                    positions[where] = max(positions[where], batch.next_offset)
            wait_ms = 0 if busy else FETCH_WAIT_MS
            rest = [each for each in waiting if not exit_at_end or positions[each] < ends[each]]
            waiting = sorted(rest, key=lambda each: each in busy)

    def offset_of(self, position: Position, partition: TopicPartition) -> Offset:
        """Returns the current offset of a position, see `Position.offset_in`."""
        return position.offset_in(self._client, partition, isolation=self._isolation)

    def end_of(self, partition: TopicPartition, timestamp: int = LATEST_TIMESTAMP) -> Offset:
        """Returns the end of the partition as this reader sees it, see `end_offset`."""
        return end_offset(self._client, partition, timestamp, isolation=self._isolation)

    def timestamp_at(self, partition: TopicPartition, offset: Offset) -> int | None:
        """Returns the timestamp of the record at `offset`, or of the next one; None at the end."""
        for batch in self.fetch(partition, offset, wait=False):
            for record in batch.records():
                if record.offset >= offset:
                    return record.timestamp_ms
        return None

    def round(
        self, positions: Mapping[TopicPartition, Offset], *, wait_ms: int
    ) -> Iterator[tuple[TopicPartition, list[FetchedBatch]]]:
        """Fetches each partition once from its position; all leaders together may wait `wait_ms` for records.

        A partition with an error is fetched once more by itself, which finds its leader, or explains the error.

        Raises:
            KafkaError: a leader refuses, or an offset is not in its partition.
            RequestTimedOut: there is no leader that responds.
        """
        alone = []
        leaders: dict[NodeId, list[TopicPartition]] = {}
        for each in positions:
            leader = self._client.routing.leader(each)
            if leader is not None and leader.leader_id in self._client.routing.nodes:
                leaders.setdefault(leader.leader_id, []).append(each)
            else:
                alone.append(each)
        for leader_id, led in leaders.items():
            wanted = {each: positions[each] for each in led}
            for where, found in self._asked(leader_id, wanted, wait_ms // len(leaders)):
                if found is None:
                    alone.append(where)
                else:
                    yield where, found
        for where in alone:
            yield where, self._in_range(where, positions[where])

    def _asked(
        self, leader: NodeId, wanted: Mapping[TopicPartition, Offset], wait_ms: int
    ) -> list[tuple[TopicPartition, list[FetchedBatch] | None]]:
        """Fetches the partitions of a leader; None for each that it does not serve."""
        request = self._request(wanted, wait_ms)
        found: dict[TopicPartition, list[FetchedBatch] | None] = dict.fromkeys(wanted)
        try:
            response = self._client.call(
                leader,
                request,
                version=_VERSION,
                timeout=self._timeout,
                retry_unknown=False,
                retried=frozenset(),
            )
        except (ConnectionLost, RequestTimedOut):
            return list(found.items())
        for topic in response.responses:
            for each in topic.partitions:
                where = TopicPartition(topic.topic, each.partition_index)
                if where in found and not each.error_code:
                    found[where] = fetched_batches(each)
        return list(found.items())

    def _in_range(self, partition: TopicPartition, offset: Offset) -> list[FetchedBatch]:
        """Fetches; the error for an offset that is not in the partition names those that are."""
        try:
            return self.fetch(partition, offset, wait=False)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        first = self.end_of(partition, EARLIEST_TIMESTAMP)
        raise out_of_range(partition, offset, first, self.end_of(partition))

    def fetch(self, partition: TopicPartition, offset: Offset, *, wait: bool) -> list[FetchedBatch]:
        """Fetches one partition from its leader, which is looked up until it responds.

        Raises:
            KafkaError: the leader refuses.
            RequestTimedOut: no leader responds in time.
        """
        request = self._request({partition: offset}, FETCH_WAIT_MS if wait else 0)
        to = LeaderNode(partition)
        response = self._client.call(to, request, version=_VERSION, timeout=self._timeout).responses
        if not response:
            return []
        found = single_item(single_item(response, "topic").partitions, "partition")
        where = f"{partition.topic}-{partition.partition} at offset {offset}"
        check(found.error_code, None, where, Needs("READ", topic=partition.topic))
        return fetched_batches(found)

    def _request(self, wanted: Mapping[TopicPartition, Offset], wait_ms: int) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, index), offset in wanted.items():
            topics.setdefault(topic, []).append(
                FetchPartition(
                    partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
                )
            )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=name, partitions=each) for name, each in topics.items()],
        )


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
