"""Loading the producers of a log: the segments that are read, and the repair of damaged transaction indexes."""

from __future__ import annotations

import pytest

from tests.log.helpers import append, open_log
from trimaran.log.batches.batch import iter_batches
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.snapshots import load_producers


def write_marker(log, producer_id):
    data = memoryview(
        build_end_marker(
            EndMarker(False, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=1
        )
    )
    log.append_as_leader(data, list(iter_batches(data)), leader_epoch=0, now_ms=0)


@pytest.fixture
def log(tmp_path):
    """Returns a log of three segments: each has a batch of another producer, and its abort, except in the last."""
    log = open_log(tmp_path / "t-0")
    for producer_id in (0, 8, 9):
        append(log, 2, producer_id=producer_id, base_sequence=0, is_transactional=True)
        if producer_id < 9:
            write_marker(log, producer_id)
            log.roll(0)
    yield log
    log.close(clean=False)


def load(log, *, start_offset=0, end_offset=None):
    """Returns the state, and the number of steps."""
    for path in log.directory.glob("*.snapshot"):
        if int(path.stem):
            path.unlink()
    steps = load_producers(
        log.directory,
        tuple(log._segments.all),
        REAL_FILES,
        start_offset=start_offset,
        end_offset=log.log_end_offset if end_offset is None else end_offset,
    )
    count = 0
    while True:
        try:
            count += next(steps)
        except StopIteration as end:
            return end.value, count


def known(state):
    return {
        producer_id: (entry.last_data_offset, entry.transaction_start)
        for producer_id, entry in state.entries()
    }


ALL = {0: (-1, -1), 8: (-1, -1), 9: (7, 6)}


@pytest.mark.parametrize(
    ("start_offset", "producers"),
    [(0, {0, 8, 9}), (1, {0, 8, 9}), (2, {0, 8, 9}), (3, {8, 9}), (6, {9}), (7, {9}), (8, set())],
)
def test_batches_from_the_start_on_are_read(log, start_offset, producers):
    state, _ = load(log, start_offset=start_offset)
    assert set(known(state)) == producers
    assert state.end_offset == 8


def test_all_segments_above_the_start_are_read(log):
    """The log may begin above the offset from which the state is built."""
    log._segments.all[:] = log._segments.all[1:]
    state, _ = load(log, start_offset=0)
    assert set(known(state)) == {8, 9}


def test_log_ending_at_its_start_is_not_read(log):
    state, steps = load(log, start_offset=8, end_offset=8)
    assert (known(state), state.end_offset, steps) == ({}, 8, 3)


def indexes(log):
    return [
        [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in index.entries()]
        for index in (segment.transaction_index for segment in log._segments.all)
    ]


ABORTED = [[(0, 0, 2)], [(8, 3, 5)], []]


@pytest.mark.parametrize("damage", [b"", b"damaged", bytes(34)])
def test_damaged_index_is_rebuilt_from_all_batches(log, damage):
    state, _ = load(log)
    assert (known(state), indexes(log)) == (ALL, ABORTED)
    again = reopened(log, damage)
    state, _ = load(again, start_offset=0)
    assert (known(state), indexes(again)) == (ALL, ABORTED)
    assert not any(s.transaction_index.lacks_entries for s in again._segments.all)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_damaged_index_makes_snapshots_useless(log, is_damaged):
    """A crash may lose the entries that are added now: the next load must begin as early."""
    again = reopened(
        log, b"damaged" if is_damaged else log._segments.all[0].transaction_index.path.read_bytes()
    )
    before = sorted(again.directory.glob("*.snapshot"))
    assert before
    steps = load_producers(
        again.directory,
        tuple(again._segments.all),
        REAL_FILES,
        start_offset=0,
        end_offset=again.log_end_offset,
    )
    list(steps)
    assert sorted(again.directory.glob("*.snapshot")) == ([] if is_damaged else before)


def reopened(log, damage):
    """Returns the log as another process opens it: its first index is damaged, and it has a snapshot of its end."""
    log._producers.take_snapshot()
    for segment in log._segments.all:
        segment.transaction_index.__init__(segment.transaction_index.path, REAL_FILES)
    log._segments.all[0].transaction_index.path.write_bytes(damage)
    return log


def test_expiry_counts_the_known_producers(log):
    manager = log._producers
    manager.forget()
    assert manager.remove_expired(10_000_000, 1) == 0
    manager.state, _ = load(log)
    assert manager.remove_expired(1, 1_000) == 3
    assert len(manager.state) == 3
    assert manager.remove_expired(10_000_000, 1) == 3
    assert list(known(manager.state)) == [9], "it has an open transaction"
