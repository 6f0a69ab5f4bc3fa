"""Records that a shard loads from a log: they equal those of a naive twin wherever the log is cut into pieces."""

from __future__ import annotations

import random
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tests.broker.coordination.counters import TOPIC, Count, CounterShard, CountSerde
from tests.broker.coordination.leader import Leader, open_log
from trimaran.broker.coordination.effects import UncommittedWrites
from trimaran.broker.coordination.loader import CoordinatorLoader, load_shard
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.producers.marker import EndMarker
from trimaran.node.replicated.state_machine import Producer
from trimaran.node.runtime.clock import now_ms

KEYS = [b"a", b"b", b"c", b"?new", None]
PRODUCERS = (7, 8, 9)


class Log:
    """A random log; `effective` and `open` hold its committed and pending records, by offset: (offset, producer, key,
    value).
    """

    def __init__(self, path, seed):
        self.random = random.Random(seed)
        self.leader = Leader(open_log(path), 0)
        self.effective, self.open = [], {producer: [] for producer in PRODUCERS}
        self.count = 0
        self._sequences = dict.fromkeys(PRODUCERS, 0)

    def records(self):
        chosen = self.random.choices(KEYS, k=self.random.randint(1, 3))
        return [
            NewRecord(key, self.random.choice([None, b"%d" % self.random.randrange(100)]), now_ms())
            for key in chosen
        ]

    def write(self):
        producer_id = self.random.choice([None, None, *PRODUCERS])
        if producer_id is not None and self.open[producer_id] and self.random.random() < 0.4:
            self.end(producer_id, is_commit=self.random.random() < 0.6)
            return
        records, fields = self.records(), {}
        if self.random.random() < 0.3:
            fields["compression"] = Compression.GZIP
        if producer_id is not None:
            fields |= {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": self._sequences[producer_id],
                "is_transactional": True,
            }
            self._sequences[producer_id] += len(records)
        data = bytearray(build_batch(records, **fields))
        info = self.leader.append(memoryview(data), list(iter_batches(data)))
        self.count += len(records)
        for offset, record in enumerate(records, info.base_offset):
            row = (offset, producer_id, record.key, record.value)
            if record.key is not None:
                (self.effective if producer_id is None else self.open[producer_id]).append(row)
            elif producer_id is not None:
                self.open[producer_id].append(row)

    def end(self, producer_id, *, is_commit):
        append_end_marker(
            self.leader,
            EndMarker(is_commit, 0),
            producer_id=producer_id,
            producer_epoch=0,
            transaction_version=0,
            now_ms=now_ms(),
        )
        if is_commit:
            self.effective += self.open[producer_id]
        self.open[producer_id] = []

    def batches(self):
        end = self.leader.log.log_end_offset
        data = self.leader.log.read_bytes(0, 1 << 24, upto_offset=end)
        return [(view.next_offset, bytes(view.buffer)) for view in iter_batches(data)]


def expected_of(log, *, compacted):
    """Returns the rows outside of open transactions and those inside, both in log order."""
    effective = sorted(row for row in log.effective if row[2] is not None)
    open_rows = sorted(row for rows in log.open.values() for row in rows if row[2] is not None)
    if compacted:
        last = {key: offset for offset, _, key, _ in effective}
        newest = {(row[1], row[2]): row[0] for row in open_rows}
        effective = [row for row in effective if last[row[2]] == row[0] and row[3] is not None]
        open_rows = [
            row
            for row in open_rows
            if newest[row[1], row[2]] == row[0] and last.get(row[2], -1) < row[0]
        ]
    rows = [(offset, key, value) for offset, _, key, value in effective]
    return rows, open_rows


def replayed_of(rows, open_rows):
    """Returns the records as the shard replays them, without those of a future version."""
    plain = [(offset, None, key, value) for offset, key, value in rows]
    serde = CountSerde()
    return [
        (offset, serde.decode(key, value), None if producer is None else Producer(producer, 0))
        for offset, producer, key, value in [*plain, *open_rows]
        if not key.startswith(b"?")
    ]


@pytest.mark.parametrize("compacted", [True, False])
@pytest.mark.parametrize("seed", range(15))
def test_shard_loads_same_records_as_naive_twin(tmp_path, seed, compacted):
    log = Log(tmp_path / "t-0", seed)
    for _ in range(60):
        log.write()
    batches = log.batches()
    assert batches[-1][0] == log.leader.log.log_end_offset
    loader = CoordinatorLoader(CountSerde(), compacted=compacted)
    while batches:
        size = log.random.randint(1, 12)
        some, batches = batches[:size], batches[size:]
        assert loader.feed(b"".join(data for _, data in some)) == some[-1][0]
    assert loader.feed(b"") is None
    rows, open_rows = expected_of(log, compacted=compacted)
    shard, by_rows, taken = CounterShard(), CounterShard(), []
    loader.replay_into(shard)
    assert shard.replayed == replayed_of(rows, open_rows)
    loader.replay_into(by_rows, taken.extend)
    assert taken == rows
    assert by_rows.replayed == replayed_of([], open_rows)
    # Markers are not records of the shard.
    assert loader.record_count == log.count
    log.leader.log.close()


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2000, 2001])
def test_rows_are_loaded_a_thousand_at_a_time(count):
    loader, taken = CoordinatorLoader(CountSerde()), []
    if count:
        loader.feed(build_batch([NewRecord(b"%d" % n, b"1", 0) for n in range(count)]))
    loader.replay_into(CounterShard(), lambda rows: taken.append(len(list(rows))))
    assert taken == [1000] * (count // 1000) + ([count % 1000] if count % 1000 else [])


# -- reading


class Source:
    """A log from `start` on with one record per offset, which notes how it is read."""

    def __init__(self, start, end, *, ends_at=None):
        self.log_start_offset, self.log_end_offset = start, end
        self.reads, self.storages, self._ends_at = [], [], ends_at

    def read(self, offset, size, **limits):
        self.reads.append((offset, size, limits))
        if offset == self._ends_at:
            return None
        data = bytearray(build_batch([NewRecord(b"%d" % offset, b"1", 0)]))
        data[:8] = offset.to_bytes(8, "big")
        return SimpleNamespace(read=lambda: bytes(data))

    def storage(self, what):
        self.storages.append(what)
        return nullcontext()


def spec(**options):
    return CoordinatorSpec(TOPIC, CounterShard, CountSerde(), load_buffer_bytes=77, **options)


@pytest.mark.parametrize(
    ("start", "end", "ends_at", "offsets"),
    [
        (0, 0, None, []),
        (3, 3, None, []),
        (0, 1, None, [0]),
        (3, 6, None, [3, 4, 5]),
        (3, 6, 4, [3, 4]),
    ],
)
async def test_log_is_read_from_start_to_end(start, end, ends_at, offsets):
    source = Source(start, end, ends_at=ends_at)
    shard, end_offset = await load_shard(spec(), "t-0", source, lambda: True)
    assert end_offset == end
    assert source.reads == [
        (offset, 77, {"upto_offset": end, "min_one": True}) for offset in offsets
    ]
    loaded = [offset for offset in offsets if offset != ends_at]
    assert source.storages == ["loading t-0"] * len(loaded)
    assert [offset for offset, _, _ in shard.replayed] == loaded
    assert shard.biggest_loaded == (1 if loaded else 0)


async def test_cancelled_load_stops_early():
    source = Source(0, 9)
    shard, _ = await load_shard(spec(), "t-0", source, lambda: len(source.reads) < 2)
    assert [offset for offset, *_ in source.reads] == [0, 1]
    assert shard.counts == {"0": 1, "1": 1}


async def test_coordinator_may_take_rows_without_replay():
    taken = []

    def taking_rows(shard):
        return lambda rows: taken.append((shard, list(rows)))

    shard, _ = await load_shard(spec(taking_rows=taking_rows), "t-0", Source(0, 2), lambda: True)
    assert taken == [(shard, [(0, b"0", b"1"), (1, b"1", b"1")])]
    assert shard.replayed == []


async def test_uncompacted_topic_yields_every_row(monkeypatch):
    source = Source(0, 3)
    read = source.read

    def same_key(offset, size, **limits):
        piece = read(0, size, **limits)
        data = bytearray(piece.read())
        data[:8] = offset.to_bytes(8, "big")
        return SimpleNamespace(read=lambda: bytes(data))

    monkeypatch.setattr(source, "read", same_key)
    for compacted, offsets in ((True, [2]), (False, [0, 1, 2])):
        shard, _ = await load_shard(spec(compacted=compacted), "t-0", source, lambda: True)
        assert shard.replayed == [(offset, Count("0", 1), None) for offset in offsets]


# -- writes that are not yet committed


def test_writes_commit_and_expire_in_order():
    writes = UncommittedWrites()
    assert (writes.pop_committed(99), writes.pop_expired(99.0)) == ([], [])
    for number in range(4):
        writes.add(f"w{number}", 10 * (number + 1), float(number + 1))
    assert (writes[0].end_offset, writes[0].deadline, len(writes)) == (10, 1.0, 4)
    assert writes.pop_committed(9) == []
    assert writes.pop_committed(10) == ["w0"]
    assert writes.pop_expired(1.9) == []
    assert writes.pop_expired(2.0) == ["w1"]
    assert (writes[0].end_offset, writes[0].deadline, len(writes)) == (30, 3.0, 2)
    assert writes.pop_committed(41) == ["w2", "w3"]
    assert not writes
