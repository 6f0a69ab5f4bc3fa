"""Loading the producers of a log: the segments that are read, and the repair of damaged transaction indexes."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from tests.log.helpers import append, batch_bytes, open_log, view_of
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.producers import snapshots
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.snapshots import _whole_marker, load_producers
from trimaran.log.steps import at_once


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


INDEXES = 3  # each read is a step, unless the segment is known to be empty
ALL = {0: (-1, -1), 8: (-1, -1), 9: (7, 6)}


@pytest.mark.parametrize(
    ("start_offset", "producers", "headers"),
    [
        *((offset, {0, 8, 9}, 5) for offset in (0, 1, 2)),
        *((3, {8, 9}, 3), (6, {9}, 1), (7, {9}, 1), (8, set(), 0)),
    ],
)
def test_batches_from_the_start_on_are_read(log, start_offset, producers, headers):
    """Only the segments from there on are read; the last one stays open, because appends follow."""
    for segment in log._segments.all:
        segment.release()
    state, steps = load(log, start_offset=start_offset)
    assert set(known(state)) == producers
    assert (state.end_offset, steps) == (8, INDEXES + headers)
    is_open = [segment._log_file.is_open for segment in log._segments.all]
    assert is_open == [False, False, headers > 0]
    assert load(log, start_offset=start_offset)[1] == INDEXES - 1 + headers


def test_segment_that_is_missing_is_skipped(log):
    log._segments.all[0].removed = True
    state, steps = load(log)
    assert (set(known(state)), steps) == ({8, 9}, INDEXES + 3 - 1)
    index = SimpleNamespace(is_empty=True, lacks_entries=False)
    not_created = SimpleNamespace(
        base_offset=8, exists=False, removed=False, transaction_index=index
    )
    log._segments.all.append(not_created)
    state, _ = load(log)
    assert (set(known(state)), state.end_offset) == ({8, 9}, 8)
    log._segments.all.pop()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_lost_entries_make_snapshots_useless(log, number):
    log._producers.take_snapshot()
    index = log._segments.all[number].transaction_index
    index.lacks_entries = True
    at_once(log._producers.load(0, 8))
    assert (index.lacks_entries, list(log.directory.glob("*.snapshot"))) == (False, [])


def test_only_batches_of_markers_are_read_whole(monkeypatch):
    views = {
        "marker": view_of(build_end_marker(EndMarker(True, 0), **FIELDS)),
        "of no producer": view_of(
            bytearray(build_batch([NewRecord(b"", b"", 1)], is_control=True))
        ),
        "data": batch_of_producer(),
    }
    read = []
    monkeypatch.setattr(snapshots, "read_batch", lambda *place: read.append(place))
    segment = SimpleNamespace(files="files", file="file")
    for view in views.values():
        assert _whole_marker(segment, 5, view) is view, "a batch that was cut is not whole"
    assert read == [("files", "file", 5, views["marker"].size)]
    monkeypatch.setattr(snapshots, "read_batch", lambda *_place: "whole")
    assert _whole_marker(segment, 5, views["marker"]) == "whole"


def test_all_segments_above_the_start_are_read(log):
    """The log may begin above the offset from which the state is built."""
    log._segments.all[:] = log._segments.all[1:]
    state, _ = load(log, start_offset=0)
    assert set(known(state)) == {8, 9}


def test_log_ending_at_its_start_is_not_read(log):
    state, steps = load(log, start_offset=8, end_offset=8)
    assert (known(state), state.end_offset, steps) == ({}, 8, 3)


@pytest.mark.parametrize(("size", "is_read"), [(1023, True), (1024, True), (1025, False)])
def test_marker_is_read_up_to_its_bound(log, size, is_read):
    """All other batches are read only up to their header; no marker of Kafka comes near the bound."""
    value = struct.pack(">hi", 0, 5)
    for padding in range(900, 1000):
        record = NewRecord(b"\0\0\0\1", value + bytes(padding), 1)
        data = build_batch(
            [record], producer_id=9, producer_epoch=0, is_control=True, is_transactional=True
        )
        if len(data) == size:
            break
    data = memoryview(bytearray(data))
    assert len(data) == size
    log.append_as_leader(data, list(iter_batches(data)), leader_epoch=0, now_ms=0)
    state, _ = load(log)
    assert known(state)[9] == ((-1, -1) if is_read else (7, 6))
    assert state.get(9).coordinator_epoch == (5 if is_read else -1)


FIELDS = {"producer_id": 9, "producer_epoch": 0, "timestamp_ms": 1}


def batch_of_producer():
    return view_of(batch_bytes(1, producer_id=9, producer_epoch=0, base_sequence=0))


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
    """A crash may lose the entries that are being added, so the next load must begin at the same offset."""
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
