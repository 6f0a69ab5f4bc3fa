"""`Reader` of a broker that returns a few batches at a time, compared with a twin that has the whole log."""

import random
from types import SimpleNamespace

import pytest

from tests.trimaran.client.answers import batch_of, listed
from tests.trimaran.client.scripted import Routing
from trimaran.client.positions import Position
from trimaran.client.reader import HEADERS_READ, PartitionReader, fetched_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.wire.client.routing import LeaderOf
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from trimaran.wire.messages.list_offsets import ListOffsetsRequest

BATCHES_IN_ANSWER = 2
LEADER = 1
T4, T7 = TopicPartition("t", 4), TopicPartition("t", 7)
ASKED_MAX = 40


class Log:
    """Batches with their meaning for a reader: offsets of visible records, and aborted transactions."""

    def __init__(self, prng):
        self.batches, self.seen, self.aborted = [], [], []  # batches: (base, next, bytes)
        self._open = {}
        self.start = self._end = prng.choice([0, 3])
        for _ in range(prng.randrange(12)):
            getattr(self, prng.choice(["plain", "plain", "transactional", "commit", "abort"]))(prng)
        self.seen += [offset for offsets in self._open.values() for offset in offsets]
        self.seen.sort()

    @property
    def end(self):
        return self._end

    def plain(self, prng):
        self.seen += self._append(prng, -1)

    def transactional(self, prng):
        producer = prng.randrange(2)
        self._open.setdefault(producer, []).extend(self._append(prng, producer))

    def commit(self, prng):
        self._mark(prng, is_commit=True)

    def abort(self, prng):
        self._mark(prng, is_commit=False)

    def _append(self, prng, producer):
        count = prng.randrange(1, 4)
        records = [NewRecord(None, b"v", 1000 + self._end + n) for n in range(count)]
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
        batch = build_batch(
            records,
            base_offset=self._end,
            is_transactional=producer >= 0,
            **(fields if producer >= 0 else {}),
        )
        return self._add(batch, count)

    def _mark(self, prng, *, is_commit):
        producer = prng.randrange(2)
        marker = build_end_marker(
            EndMarker(is_commit, 0), producer_id=producer, producer_epoch=0, timestamp_ms=5
        )
        marker[:8] = self._end.to_bytes(8, "big")
        self._add(bytes(marker), 1)
        offsets = self._open.pop(producer, [])
        if is_commit:
            self.seen += offsets
        elif offsets:
            one = AbortedTransaction(producer_id=producer, first_offset=offsets[0])
            self.aborted.append((self._end, one))

    def _add(self, batch, count):
        base, self._end = self._end, self._end + count
        self.batches.append((base, self._end, batch))
        return list(range(base, self._end))


class Broker:
    """Serves the logs of a topic's partitions, a few batches per response."""

    def __init__(self, logs, batches=BATCHES_IN_ANSWER):
        self.logs = logs
        self.batches = batches
        self.fetches = []
        self.refreshed = None
        self.routing = Routing({TopicPartition("t", index): LeaderOf(LEADER, 0) for index in logs})

    def refresh(self, topics):
        self.refreshed = topics

    def call(self, leader, request, **options):
        assert self.refreshed == ["t"]
        if isinstance(request, ListOffsetsRequest):
            index = leader.partition.partition
            log = self.logs[index]
            (asked,) = request.topics[0].partitions
            offset = {-1: log.end, -2: log.start}.get(asked.timestamp)
            if offset is None:
                later = [
                    number
                    for number in range(log.start, log.end)
                    if 1000 + number >= asked.timestamp
                ]
                offset = later[0] if later else -1
            return listed(offset, first=index)
        assert leader == LEADER
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic="t",
                    partitions=[self._part(asked) for asked in request.topics[0].partitions],
                )
            ]
        )

    def _part(self, asked):
        index, log = asked.partition, self.logs[asked.partition]
        self.fetches.append((index, asked.fetch_offset))
        assert len(self.fetches) < ASKED_MAX, "the reader asks again and again"
        found = [batch for batch in log.batches if batch[1] > asked.fetch_offset][: self.batches]
        return part_of(index, found, log.aborted[::-1])


def answered(partition, batches, aborted):
    part = part_of(partition, batches, aborted)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])


def part_of(partition, batches, aborted):
    """Returns the aborted transactions that overlap the batches, the newest first."""
    begin, end = (batches[0][0], batches[-1][1]) if batches else (0, 0)
    return PartitionData(
        partition_index=partition,
        high_watermark=9,
        aborted_transactions=[
            transaction
            for ended, transaction in aborted
            if transaction.first_offset < end and ended > begin
        ],
        records=b"".join(batch for _, _, batch in batches),
    )


def place_in(log, position):
    """The twin of `Position.offset_in`."""
    if position.offset is not None:
        return position.offset
    if position.before_end is not None:
        return max(log.start, log.end - position.before_end)
    if position.timestamp_ms < 0:
        return log.end if position.timestamp_ms == -1 else log.start
    return min(max(position.timestamp_ms - 1000, log.start), log.end)


POSITIONS = [
    Position(timestamp_ms=-2),
    Position(timestamp_ms=-1),
    *(Position(offset=offset) for offset in range(3, 15, 3)),
    *(Position(before_end=count) for count in (0, 1, 4, 99)),
    *(Position(timestamp_ms=1000 + offset) for offset in (0, 4, 99)),
]


@pytest.mark.parametrize("seed", range(0, 600, 100))
def test_reader_returns_records_between_two_positions(seed):
    for number in range(seed, seed + 100):
        prng = random.Random(number)
        logs = {4: Log(prng), 7: Log(prng)}
        begin = prng.choice(POSITIONS)
        until = prng.choice([None, *POSITIONS])
        broker = Broker(logs, prng.choice([BATCHES_IN_ANSWER, 2 * BATCHES_IN_ANSWER]))
        turns = []
        reader = PartitionReader(broker, [T4, T7], is_committed=True)
        found = reader.records(begin, until is None, lambda turns=turns: turns.append(1), until)
        by_partition = {4: [], 7: []}
        for index, record in found:
            by_partition[index.partition].append(record.offset)
        for index, log in logs.items():
            end = log.end if until is None else min(log.end, place_in(log, until))
            low = place_in(log, begin)
            expected = [offset for offset in log.seen if low <= offset < end]
            assert by_partition[index] == expected, (number, begin, until)
        assert_no_more_is_asked_than_needed(logs, broker, begin, until)


def assert_no_more_is_asked_than_needed(logs, broker, begin, until):
    """Asserts that each partition is fetched as often as its batches need, and once at its end, unless it is known to
    be past `until`.
    """
    for index, log in logs.items():
        low = place_in(log, begin)
        end = log.end if until is None else min(log.end, place_in(log, until))
        needed, at = 0, low
        while at < end or (needed == 0 and until is None):
            needed += 1
            batches = [batch for batch in log.batches if batch[1] > at][: broker.batches]
            at = batches[-1][1] if batches else at
        asked = [offset for partition, offset in broker.fetches if partition == index]
        assert len(asked) == needed
        assert asked == sorted(set(asked))


def test_endless_reader_continues_from_its_position():
    prng = random.Random(3)
    log = Log(prng)
    broker = Broker({0: log})
    found = PartitionReader(broker, [TopicPartition("t", 0)], is_committed=False).records(
        Position(timestamp_ms=-2), False
    )
    first = [next(found)[1].offset for _ in log.seen]
    at_end = log.end
    log.batches.append(
        (at_end, at_end + 1, build_batch([NewRecord(None, b"", 5)], base_offset=at_end))
    )
    assert [*first, next(found)[1].offset] == [*log.seen, at_end]


def test_records_before_answers_begin_are_not_repeated():
    batches = [(base, base + 3, batch_of(3, base)) for base in (0, 3)]
    broker = Broker({0: SimpleNamespace(start=0, end=6, batches=batches, aborted=[])})
    asked, broker.call = broker.call, None

    def from_the_start(leader, request, **options):
        if not isinstance(request, ListOffsetsRequest):
            return answered(0, batches, [])
        return asked(leader, request, **options)

    broker.call = from_the_start
    found = PartitionReader(broker, [TopicPartition("t", 0)], is_committed=False).records(
        Position(offset=5), True
    )
    assert [record.offset for _, record in found] == [5]


def test_truncated_batch_is_fetched_again():
    whole = [build_batch([NewRecord(None, b"v", 5)], base_offset=offset) for offset in range(2)]
    for cut in (1, 20, len(whole[1]) - 1):
        found = SimpleNamespace(aborted_transactions=None, records=whole[0] + whole[1][:cut])
        assert [fetched_batch.next_offset for fetched_batch in fetched_batches(found)] == [1]


def test_transaction_is_aborted_from_its_first_offset():
    batch = build_batch(
        [NewRecord(None, b"v", 5)],
        base_offset=4,
        is_transactional=True,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    plain = build_batch(
        [NewRecord(None, b"v", 5)],
        base_offset=5,
        producer_id=1,
        producer_epoch=0,
        base_sequence=1,
    )
    aborted = [SimpleNamespace(first_offset=4, producer_id=1)]
    found = SimpleNamespace(aborted_transactions=aborted, records=batch + plain)
    assert [fetched_batch.is_seen for fetched_batch in fetched_batches(found)] == [False, True]


def test_at_most_10000_headers_are_read():
    headers = [("h", b"")] * (HEADERS_READ + 1)
    batch = build_batch([NewRecord(None, b"v", 5, headers)])
    (found,) = fetched_batches(SimpleNamespace(aborted_transactions=None, records=batch))
    (record,) = found.records()
    assert len(record.headers) == HEADERS_READ == 10_000
