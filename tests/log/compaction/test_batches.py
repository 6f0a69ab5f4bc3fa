"""Planning of a run of batches and its result: batches that lose no record remain the same objects."""

import pytest

from tests.checks import check_each
from tests.log.helpers import view_of
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.compaction import batches as module
from trimaran.log.compaction.batches import Run, clean_run
from trimaran.log.compaction.offset_map import OffsetMap
from trimaran.log.compaction.retention import Fate, Retention, RetentionDecision

KEY = bytes(range(16))
RETENTION = Retention(1000, 100, 99, {})
BY_KEY = RetentionDecision(Fate.BY_KEY, keeps_empty=False, needs_horizon=False)
ALL = RetentionDecision(Fate.KEEP_ALL, keeps_empty=False, needs_horizon=False)
NONE = RetentionDecision(Fate.DROP_ALL, keeps_empty=False, needs_horizon=False)


def run_of(*batches):
    """Returns a run of (offset, keys)."""
    data = b"".join(
        build_batch([NewRecord(key, b"v", 5) for key in keys], base_offset=offset)
        for offset, keys in batches
    )
    views = list(iter_batches(memoryview(data)))
    positions = [sum(view.size for view in views[:n]) for n in range(len(views))]
    return Run(views, memoryview(data), positions)


def put(offsets, run):
    for _, columns in run.columns(range(len(run.batches)), None):
        offsets.put_all(columns, 0)


AT_ONCE = [
    # records of each batch, expected; place and records of each batch examined together
    ((2, 1), (0, 1), [(0, 3)]),
    ((2, 2), (0, 1), [(0, 2), (1, 2)]),
    ((2, 2, 1), (0, 2), [(0, 3)]),
    ((4, 1), (0, 1), [(0, 3), (0, 1), (1, 1)]),
    ((1, 4), (1,), [(0, 3), (0, 1)]),
    ((7,), (0,), [(0, 3), (0, 3), (0, 1)]),
]


def test_records_are_examined_in_bounded_runs(monkeypatch):
    monkeypatch.setattr(module, "RECORDS_AT_ONCE", 3)

    def is_so(row):
        counts, wanted, expected = row
        offset, batches = 0, []
        for count in counts:
            batches.append((offset, [b"k"] * count))
            offset += count
        found = [(place, len(columns)) for place, columns in run_of(*batches).columns(wanted, None)]
        assert found == expected

    check_each(AT_ONCE, is_so)


def test_hundred_thousand_records_are_examined_together():
    assert module.RECORDS_AT_ONCE == 100_000


@pytest.mark.parametrize("verdict", [BY_KEY, ALL])
def test_fully_kept_batch_stays_the_same_object(verdict):
    run = run_of((0, [b"a", b"b"]), (2, [b"c", b"d"]), (4, [b"a"]))
    offsets = OffsetMap(20, 10, KEY)
    put(offsets, run)
    kept = clean_run(run, [BY_KEY, verdict, BY_KEY], offsets, 4, RETENTION)
    assert [view.count for view in kept] == [1, 2, 1]
    assert kept[0] is not run.batches[0]
    assert kept[1] is run.batches[1]
    assert kept[2] is run.batches[2]
    assert clean_run(run, [ALL, ALL, ALL], offsets, 4, RETENTION) is run.batches


def test_unchanged_header_is_the_same_object():
    run = run_of((0, [b"a"]))
    offsets = OffsetMap(20, 10, KEY)
    put(offsets, run)
    stays = RetentionDecision(Fate.DROP_ALL, keeps_empty=True, needs_horizon=False)
    [emptied] = clean_run(run, [stays], offsets, 0, RETENTION)
    assert emptied.count == 0
    [again] = clean_run(Run([emptied]), [stays], offsets, 0, RETENTION)
    assert again is emptied
    assert list(clean_run(Run([emptied]), [NONE], offsets, 0, RETENTION)) == []


def test_removed_compressed_batch_is_not_decompressed():
    data = bytearray(build_batch([NewRecord(b"a", b"v", 5)], compression=Compression.SNAPPY))
    data[-1:] = b"\xff\xff"
    view = view_of(data[: len(data) - 1])
    view.buffer = view.buffer[:-3]
    assert list(clean_run(Run([view]), [NONE], OffsetMap(3, 2, KEY), 0, RETENTION)) == []
