"""The figures and the clients of `bench` on a virtual clock: when each request is sent, and when they end."""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from trimaran.client import bench
from trimaran.client.bench import Latencies, Load, Producing, consume, produce
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import iter_records
from trimaran.log.codecs.compression import Compression

NOW_MS = 1_795_221_879_206


@pytest.fixture
def clock(monkeypatch):
    """`now` in seconds; a pause of the load advances the clock immediately, and is noted."""
    found = SimpleNamespace(now=100.0, pauses=[])

    def pause_until(load, moment):
        found.pauses.append(round(moment - found.now, 6))
        found.now = max(found.now, moment)

    time = SimpleNamespace(
        monotonic=lambda: found.now, time_ns=lambda: NOW_MS * 1_000_000 + 999_999
    )
    monkeypatch.setattr(bench, "time", time)
    monkeypatch.setattr(Load, "pause_until", pause_until)
    return found


@pytest.fixture
def closed():
    return []


@pytest.fixture
def connect(closed):
    @contextmanager
    def connecting():
        yield "client"
        closed.append(1)

    return connecting


# --- producing


@pytest.fixture
def sent(monkeypatch, clock):
    """Returns each batch as sent: time, partition, number of records. Each takes a quarter of a second."""
    found = []

    def send(client, producing, partition, batch):
        assert (client, producing.topic) == ("client", "t")
        (view,) = iter_batches(batch)
        found.append((round(clock.now - 100, 6), partition, view.count))
        clock.now += 0.25

    monkeypatch.setattr(bench, "_send", send)
    return found


PRODUCING = Producing("t", 5, 10, -1, Compression.NONE, 1000)


def test_unlimited_batches_follow_previous_answer(clock, sent, connect, closed):
    load = Load()
    produce(PRODUCING, connect, [3, 7], 25, None)(load)
    assert sent == [(0, 3, 10), (0.25, 7, 10), (0.5, 3, 5)]
    assert clock.pauses == [0, 0, 0]
    figures = load.figures()
    assert (figures["records"], figures["bytes"], figures["requests"]) == (25, 125, 3)
    assert dict(load.recent().counts) == {0.25: 3}
    assert closed == [1]


def test_limited_batches_are_due_at_the_rate(clock, sent, connect):
    load = Load()
    produce(PRODUCING, connect, [3], 35, 20.0)(load)
    assert [at for at, _, _ in sent] == [0, 0.5, 1.0, 1.5]
    assert clock.pauses == [0, 0.25, 0.25, 0.25]
    assert dict(load.recent().counts) == {0.25: 4}


def test_latency_counts_from_due_time(clock, sent, connect):
    load = Load()
    produce(PRODUCING, connect, [3], 30, 100.0)(load)
    assert [at for at, _, _ in sent] == [0, 0.25, 0.5]
    assert clock.pauses == [0, -0.15, -0.3]
    assert dict(load.recent().counts) == {0.25: 1, 0.4: 1, 0.55: 1}


def test_stopped_run_sends_nothing_more(sent, connect):
    load = Load()
    load.stop()
    produce(PRODUCING, connect, [3], 30, None)(load)
    assert sent == []


@pytest.mark.usefixtures("clock")
def test_batch_has_new_records_of_given_size():
    (view,) = iter_batches(PRODUCING.batch(3))
    records = [record for record, _ in iter_records(view)]
    assert [(record.key, len(record.value), record.timestamp_ms) for record in records] == [
        (None, 5, NOW_MS)
    ] * 3
    assert len({record.value for record in records}) == 3
    lz4 = Producing("t", 5, 10, -1, Compression.LZ4, 1000)
    (view,) = iter_batches(lz4.batch(1))
    assert view.compression is Compression.LZ4


# --- consuming


class Batch:
    def __init__(self, count, next_offset):
        self.batch = SimpleNamespace(count=count, size=100 * count, next_offset=next_offset)


@pytest.fixture
def fetches(monkeypatch, clock):
    """Returns the fetches; each response takes a quarter of a second and has two batches of three records."""
    found = []

    class Reader:
        def __init__(self, client, partitions, *, is_committed):
            found.append((client, partitions, is_committed))

        def fetch(self, where, offset, *, wait):
            partition = where.partition
            found.append((partition, offset, wait))
            clock.now += 0.25
            return [Batch(3, offset + 3), Batch(3, offset + 6)] if partition != 9 else []

    monkeypatch.setattr(bench, "PartitionReader", Reader)
    return found


def test_partitions_are_read_in_turn_to_end(fetches, connect, closed):
    load = Load()
    consume("t", connect, {3: (10, 17), 4: (0, 6), 5: (8, 8), 6: (9, 8)}, None)(load)
    assert fetches == [
        ("client", (), False),
        (3, 10, True),
        (4, 0, True),
        (3, 16, True),
    ]
    figures = load.figures()
    assert (figures["records"], figures["bytes"], figures["requests"]) == (18, 1800, 3)
    assert dict(load.recent().counts) == {0.25: 3}
    assert not load.is_stopped()
    assert closed == [1]


def test_empty_fetch_is_repeated_at_same_offset(fetches, connect):
    load = Load()

    def stop_after_three(*_):
        if len(fetches) == 4:
            load.stop()

    load.add = stop_after_three
    consume("t", connect, {9: (5, 6)}, None)(load)
    assert fetches[1:] == [(9, 5, True)] * 3


@pytest.mark.parametrize(("records", "count"), [(1, 1), (6, 1), (7, 2), (12, 2), (13, 3), (0, 1)])
def test_clients_stop_together_at_record_count(fetches, connect, records, count):
    load = Load()
    consume("t", connect, {3: (0, 1000)}, records)(load)
    assert len(fetches) - 1 == count
    assert load.is_stopped()


# --- the figures


def test_latencies_keep_three_digits():
    latencies = Latencies()
    for seconds in (0.0012344, 0.0012361, 0.0012399, 12.3456):
        latencies.add(seconds)
    assert dict(latencies.counts) == {0.00123: 1, 0.00124: 2, 12.3: 1}


def test_percentile_counts_from_smallest_value():
    latencies = Latencies()
    assert latencies.percentile(50) == 0.0
    for number in range(1, 201):
        latencies.add(number)
    assert [
        latencies.percentile(percent) for percent in (0, 0.5, 50, 50.1, 99, 99.5, 99.9, 100)
    ] == [*(1, 1, 100, 101, 198, 199, 200, 200)]


def test_latencies_are_exact_to_the_microsecond():
    latencies = Latencies()
    for seconds in (0.00000123, 0.00000456, 0.5):
        latencies.add(seconds)
    assert latencies.as_ms() == {
        "mean": 166.669,
        "p50": 0.005,
        "p95": 500.0,
        "p99": 500.0,
        "p99.9": 500.0,
        "max": 500.0,
    }


def test_figures_are_rounded(clock):
    load = Load()
    clock.now = 200.0
    load.begin([])
    clock.now = 203.0
    load.add(100, 1_234_567, 0.5)
    figures = load.figures()
    assert {name: figures[name] for name in list(figures)[:6]} == {
        "records": 100,
        "bytes": 1_234_567,
        "seconds": 3.0,
        "records_per_second": 33.3,
        "mb_per_second": 0.412,
        "requests": 1,
    }


@pytest.mark.usefixtures("clock")
def test_run_of_zero_duration_has_figures():
    load = Load()
    load.begin([])
    load.add(1, 1_000_000, 0.0)
    assert load.figures()["records_per_second"] == 1e9
    assert load.figures()["mb_per_second"] == 1e9


# --- threads


def test_run_ends_after_all_its_clients():
    release = [threading.Event(), threading.Event()]
    load = Load()
    load.begin([lambda _, one=event: one.wait(20) for event in release])
    assert all(thread.daemon for thread in load._threads)
    release[0].set()
    assert load.wait(0.01) is False
    assert load._ended is None
    release[1].set()
    assert load.wait(20) is True
    ended = load._ended
    assert ended is not None
    assert load.wait(20) is True
    assert load._ended == ended


def test_wait_covers_all_clients_with_one_timeout(clock):
    """One client uses up the timeout of the next; no timeout is negative."""
    waited = []

    def client(took):
        def join(seconds):
            waited.append(seconds)
            clock.now += took

        return SimpleNamespace(join=join, is_alive=lambda: took > 1)

    load = Load()
    load._threads = [client(0.5), client(0.25), client(2.0), client(0.5)]
    assert load.wait(1.0) is False
    assert waited == [1.0, 0.5, 0.25, 0.0]
    assert load._ended is None


def test_pause_lasts_until_its_time_or_end(monkeypatch):
    waited = []
    load = Load()
    monkeypatch.setattr(bench, "time", SimpleNamespace(monotonic=lambda: 100.0))
    monkeypatch.setattr(load, "_stopped", SimpleNamespace(wait=waited.append))
    for moment in (102.5, 100.0, 99.0):
        load.pause_until(moment)
    assert waited == [2.5, 0.0, 0.0]


def test_first_of_two_failures_is_raised():
    first, second = ValueError("first"), ValueError("second")
    load = Load()
    load._run(lambda _: (_ for _ in ()).throw(first))
    load._run(lambda _: (_ for _ in ()).throw(second))
    assert load.error is first
    assert load.is_stopped()
