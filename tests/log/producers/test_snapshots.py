"""Snapshot files of producers: each field and bound, the files that stay, and the one that is used."""

from __future__ import annotations

import struct

import crc32c
import pytest

from tests.log.helpers import batch_bytes, view_of
from tests.log.recorded_files import RecordedFiles
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.producers.snapshots import (
    SnapshotInPieces,
    format_snapshot,
    load_producers,
    parse_snapshot,
    remove_snapshots,
    write_snapshot,
    write_snapshot_in_pieces,
)
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.recovery import list_snapshots

LAST_SEQUENCE = 2**31 - 1
# id, epoch, last sequence, last offset, offsets before it, timestamp, coordinator epoch, start of its transaction
WITHOUT_BATCH = (1, 2, -1, -1, 0, 3, 4, -1)
ORDINARY = (5, 6, 17, 29, 7, 8, -1, 22)
WRAPPED = (9, 0, 2, 104, 4, 8, 0, -1)
FROM_ZERO = (10, 0, 4, 104, 4, 8, 0, 0)
OF_FIRST_RECORD = (12, 0, 0, 60, 0, 8, 0, -1)
WITHOUT_SEQUENCE = (11, 0, -1, 50, 0, 8, 0, -1)


def snapshot(*entries, version=1, count=None, crc=None):
    body = struct.pack(">i", len(entries) if count is None else count)
    body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", version, crc32c.crc32c(body) if crc is None else crc) + body


def shown(state):
    return [
        (
            producer_id,
            entry.epoch,
            [tuple(batch) for batch in entry.batches],
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_start,
        )
        for producer_id, entry in state.entries()
    ]


def test_each_field_is_read_and_written_back():
    entries = [WITHOUT_BATCH, ORDINARY, WRAPPED, FROM_ZERO, WITHOUT_SEQUENCE, OF_FIRST_RECORD]
    state = parse_snapshot(snapshot(*entries), 200)
    assert state.end_offset == 200
    assert shown(state) == [
        (1, 2, [], 3, 4, -1),
        (5, 6, [(10, 17, 22, 29, 8)], 8, -1, 22),
        (9, 0, [(LAST_SEQUENCE - 1, 2, 100, 104, 8)], 8, 0, -1),
        (10, 0, [(0, 4, 100, 104, 8)], 8, 0, 0),
        (11, 0, [(-1, -1, 50, 50, 8)], 8, 0, -1),
        (12, 0, [(0, 0, 60, 60, 8)], 8, 0, -1),
    ]
    assert format_snapshot(state) == snapshot(*entries)
    assert [state.transactions.last_stable_offset(mark) for mark in (0, 22, 200)] == [0, 0, 0]


def test_empty_snapshot_has_no_producers():
    assert shown(parse_snapshot(snapshot(), 5)) == []
    assert format_snapshot(ProducerState(5)) == snapshot()


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        snapshot()[:-1],
        snapshot(ORDINARY)[:-1],
        snapshot(ORDINARY) + b"\0",
        snapshot(ORDINARY, version=0),
        snapshot(ORDINARY, version=2),
        snapshot(ORDINARY, count=0),
        snapshot(ORDINARY, count=2),
        snapshot(ORDINARY, crc=0),
    ],
)
def test_damaged_snapshot_is_refused(damaged):
    with pytest.raises(ValueError, match="snapshot"):
        parse_snapshot(damaged, 5)


# -- files


@pytest.fixture
def path(tmp_path):
    for offset in (10, 20, 30):
        (tmp_path / f"{offset:020}.snapshot").write_bytes(snapshot(ORDINARY))
    (tmp_path / f"{10:020}.log").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ({}, [10, 20, 30]),
        ({"above": -1}, []),
        ({"above": 9}, []),
        ({"above": 10}, [10]),
        ({"above": 19}, [10]),
        ({"above": 30}, [10, 20, 30]),
        ({"below": 10}, [10, 20, 30]),
        ({"below": 11}, [10, 20, 30]),
        ({"below": 20}, [10, 20, 30]),
        ({"below": 21}, [20, 30]),
        ({"below": 31}, [30]),
    ],
)
def test_snapshots_outside_bounds_are_removed(path, bounds, left):
    """The newest snapshot below the lower bound stays: it describes the records from there on."""
    remove_snapshots(path, REAL_FILES, **bounds)
    assert list_snapshots(path, REAL_FILES) == left
    assert (path / f"{10:020}.log").exists()


@pytest.mark.parametrize("durable", [False, True])
def test_snapshot_is_named_after_its_end(tmp_path, durable):
    files, state = RecordedFiles(), parse_snapshot(snapshot(ORDINARY), 42)
    write_snapshot(tmp_path, state, files, durable=durable)
    assert (tmp_path / f"{42:020}.snapshot").read_bytes() == snapshot(ORDINARY)
    synced = [line for line in files.taken() if line.startswith("sync")]
    expected = ["sync 42.snapshot.tmp", f"sync names in {tmp_path.name}"]
    assert synced == (expected if durable else [])


def test_snapshot_in_pieces_is_written_unsynced(tmp_path):
    """A crash costs only the time to read more headers."""
    files, state = RecordedFiles(), parse_snapshot(snapshot(ORDINARY), 42)
    pieces = SnapshotInPieces(state)
    pieces.go_on(1)
    write_snapshot_in_pieces(tmp_path, pieces, files)
    assert (tmp_path / f"{42:020}.snapshot").read_bytes() == snapshot(ORDINARY)
    assert not [line for line in files.taken() if line.startswith("sync")]


def loaded(path, end_offset):
    """Returns the state of a log without segments."""
    steps = load_producers(path, (), REAL_FILES, start_offset=7, end_offset=end_offset)
    assert list(steps) == []
    result = load_producers(path, (), REAL_FILES, start_offset=7, end_offset=end_offset)
    with pytest.raises(StopIteration) as end:
        next(result)
    return end.value.value


@pytest.mark.parametrize(
    ("end_offset", "is_known"), [(9, False), (10, True), (11, True), (30, True), (99, True)]
)
def test_snapshot_up_to_the_end_is_used(path, end_offset, is_known):
    state = loaded(path, end_offset)
    assert state.end_offset == end_offset
    assert len(state) == is_known


def test_damaged_snapshot_is_kept_aside_for_the_previous(path, caplog):
    other = (path / f"{20:020}.snapshot", snapshot(WRAPPED))
    other[0].write_bytes(other[1])
    (path / f"{30:020}.snapshot").write_bytes(b"damaged")
    assert [entry[0] for entry in shown(loaded(path, 30))] == [9]
    assert list_snapshots(path, REAL_FILES) == [10, 20]
    assert (path / f"{30:020}.snapshot.damaged").read_bytes() == b"damaged"
    assert f"{30:020}.snapshot is damaged: short producer snapshot" in caplog.text


def test_batches_without_producer_are_in_no_snapshot():
    state = ProducerState()
    state.update(view_of(batch_bytes(3)))
    assert format_snapshot(state) == snapshot()
