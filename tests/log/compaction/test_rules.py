"""Kafka's rules of compaction, one per test."""

import contextlib
import os
from dataclasses import replace

import pytest

from tests.log.compaction.helpers import compact, dirt
from tests.log.compaction.test_against_twin import obvious, records_of, views_of
from tests.log.faulty_files import FaultyFiles
from tests.log.helpers import open_log, view_of
from trimaran.log.batches.batch import BatchView, TimestampType
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.compaction.choosing import GroupMember, SealedSegment, group, measure
from trimaran.log.compaction.cleaning import CleanerLimits, Uncleanable
from trimaran.log.compaction.offset_map import OffsetMap
from trimaran.log.config import RELATIVE_OFFSET_MAX, LogConfig
from trimaran.log.partitions.retention import newest_ms
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.wire.errors import KafkaError

RETENTION_MS = 1000
CONFIG = LogConfig(
    segment_bytes=100_000, compacts=True, deletes=False, delete_retention_ms=RETENTION_MS
)


def put(log, *pairs, **fields):
    """Appends a batch of (key, value) pairs."""
    records = [NewRecord(key, value, 5000 + i) for i, (key, value) in enumerate(pairs)]
    append(log, build_batch(records, **fields))


def append(log, data):
    view = view_of(bytearray(data))
    log.append_as_leader(view.buffer, [view], leader_epoch=0, now_ms=0)


def mark(log, producer, *, commit, epoch=0):
    append(
        log,
        build_end_marker(
            EndMarker(commit, 0), producer_id=producer, producer_epoch=epoch, timestamp_ms=5000
        ),
    )


def opened(tmp_path, config=CONFIG, **options):
    return open_log(tmp_path / "t-0", config, **options)


def sealed(log):
    log.roll(0)
    return log


def shape(log):
    """Returns (first offset, last offset, records) of each batch."""
    return [(view.base_offset, view.last_offset, view.count) for view in views_of(log)]


def test_tombstone_gets_a_horizon_and_expires_after_it(tmp_path):
    """KIP-534."""
    log = opened(tmp_path)
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"2"), compression=Compression.ZSTD)
    put(log, (b"z", b"z"))
    compact(sealed(log), now_ms=100)
    [first, _] = views_of(log)
    assert first.delete_horizon_ms == 100 + RETENTION_MS
    assert first.compression is Compression.ZSTD
    assert [(r.key, r.value, r.timestamp_ms) for r in decode_records(first)] == [
        (b"a", None, 5000),
        (b"b", b"2", 5001),
    ]
    compact(log, now_ms=99 + RETENTION_MS, cleaned_to=0)
    assert views_of(log)[0].buffer == first.buffer, "the horizon is set once"
    compact(log, now_ms=100 + RETENTION_MS, cleaned_to=0)
    assert [r.key for r in records_of(log)] == [b"b", b"z"]
    assert views_of(log)[0].delete_horizon_ms == 100 + RETENTION_MS


def test_markers_outlive_their_data_by_tombstone_retention(tmp_path):
    """T9; the user's key equals that of a commit marker (KAFKA-14055)."""
    log = opened(tmp_path)
    put(
        log,
        (b"\0\0\0\1", b"v"),
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    mark(log, 1, commit=True)
    put(
        log,
        (b"\0\0\0\0", b"v"),
        producer_id=1,
        producer_epoch=0,
        base_sequence=1,
        is_transactional=True,
    )
    mark(log, 1, commit=False)
    put(log, (b"x", b"1"), producer_id=1, producer_epoch=1, base_sequence=0, is_transactional=True)
    mark(log, 1, commit=True, epoch=1)
    put(log, (b"y", b"1"))
    compact(sealed(log), now_ms=0)
    assert shape(log) == [(0, 0, 1), (1, 1, 1), (3, 3, 1), (4, 4, 1), (5, 5, 1), (6, 6, 1)]
    assert log.aborted_transactions(0, 7) == [(1, 2, 3, 4)]
    compact(log, now_ms=10, cleaned_to=0)
    assert log.aborted_transactions(0, 7) == [], "nothing of it was left: the entry goes"
    assert [view.delete_horizon_ms for view in views_of(log)] == [
        None,
        None,
        1010,
        None,
        None,
        None,
    ]
    compact(log, now_ms=1010, cleaned_to=0)
    assert shape(log) == [(0, 0, 1), (1, 1, 1), (4, 4, 1), (5, 5, 1), (6, 6, 1)]
    assert log.last_stable_offset(7) == 7


def test_aborted_data_stays_aborted_when_partly_cleaned(tmp_path):
    """T8 (KAFKA-13727): once the first part of a transaction had been cleaned, the rest counted as committed."""
    log = opened(tmp_path, replace(CONFIG, segment_bytes=400))
    for number in range(6):
        fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": number}
        put(log, (b"plain", b"%d" % number), (b"other %d" % number, b""))
        put(log, (b"aborted", b"v" * 60), is_transactional=True, **fields)
    mark(log, 1, commit=False)
    put(log, (b"plain", b"last"))
    sealed(log)
    assert len(log.sealed_segments) > 3
    rounds, end = 0, 0
    while end < log.active_segment.base_offset:
        end = compact(log, limits=CleanerLimits(24 * 5), cleaned_to=end)
        aborted = [view for view in views_of(log) if view.producer_id == 1 and not view.is_control]
        rounds += any(view.count for view in aborted)
        named = log.aborted_transactions(0, log.log_end_offset)
        assert all(
            any(batch.first_offset <= view.base_offset < batch.last_offset for batch in named)
            for view in aborted
        )
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
    assert rounds, "there was a round after which a part of it was left"
    assert [r.key for r in records_of(log)].count(b"aborted") == 0


def test_last_batch_of_producer_remains_as_header(tmp_path):
    log = opened(tmp_path)
    fields = {"producer_id": 7, "producer_epoch": 2}
    put(log, (b"a", b"1"), (b"b", b"1"), base_sequence=0, **fields)
    put(log, (b"a", b"2"), (b"b", b"2"), base_sequence=2, **fields)
    put(log, (b"a", b"3"), (b"b", b"3"))
    put(log, (b"c", b"3"))
    compact(sealed(log))
    assert shape(log) == [(2, 3, 0), (4, 5, 2), (6, 6, 1)]
    empty = views_of(log)[0]
    assert (empty.producer_id, empty.producer_epoch, empty.last_sequence) == (7, 2, 3)
    log.close()
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    again = opened(tmp_path, clean=True)
    assert again.producers.get(7).batches[-1].last_sequence == 3


def test_producer_epoch_survives_emptying_of_last_marker(tmp_path):
    """I3: a replica with only this log fences the producer's earlier epochs."""
    log = opened(tmp_path)
    put(log, (b"a", b"1"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    mark(log, 1, commit=True, epoch=1)
    put(log, (b"a", b"2"))
    compact(sealed(log), now_ms=0)
    compact(log, now_ms=10, cleaned_to=0)
    compact(log, now_ms=10 + RETENTION_MS, cleaned_to=0)
    assert shape(log) == [(1, 1, 0), (2, 2, 1)]
    log._producers.truncate(-1)
    assert log.producers.get(1).epoch == 1
    compact(log, now_ms=10 + RETENTION_MS, cleaned_to=0)
    assert shape(log) == [(1, 1, 0), (2, 2, 1)]


def test_last_offset_of_round_survives_its_records(tmp_path):
    log = opened(tmp_path)
    put(log, (b"a", b"1"))
    put(log, (None, b"no key"))
    compact(sealed(log))
    assert shape(log) == [(0, 0, 1), (1, 1, 0)]


def test_batches_that_keep_all_records_are_not_touched(tmp_path):
    log = opened(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"1"), compression=Compression.LZ4)
    put(log, (b"c", b"1"), (b"c", b"2"), timestamp_type=TimestampType.LOG_APPEND_TIME)
    [first, second] = [bytes(view.buffer) for view in views_of(log)]
    compact(sealed(log))
    [kept, thinned] = views_of(log)
    assert kept.buffer == first
    assert (thinned.max_timestamp, thinned.timestamp_type) == (
        BatchView(second).max_timestamp,
        TimestampType.LOG_APPEND_TIME,
    )
    assert [r.offset for r in decode_records(thinned)] == [3]


def test_timestamps_are_those_of_remaining_records(tmp_path):
    log = opened(tmp_path)
    append(log, build_batch([NewRecord(b"a", b"1", 10), NewRecord(b"b", b"1", 9000)]))
    append(
        log,
        build_batch(
            [NewRecord(b"c", b"1", 9500)], producer_id=1, producer_epoch=0, base_sequence=0
        ),
    )
    put(log, (b"b", b"2"), (b"c", b"2"))
    compact(sealed(log))
    assert [view.max_timestamp for view in views_of(log)] == [10, 9500, 5001]
    assert log.offset_for_timestamp(11).offset == 3
    assert log.offset_for_timestamp(9000) is None
    assert log.max_timestamp_offset() is None, "its batch is a header only"


def facts(*sizes, width=10, largest=0, first=1):
    return [
        SealedSegment(i * width, (i + 1) * width, size, first, largest)
        for i, size in enumerate(sizes)
    ]


def measured(segments, config=CONFIG, **changes):
    values = {
        "cleaned_to": None,
        "log_start_offset": 0,
        "log_end_offset": 100,
        "stable_offset": 100,
        "now_ms": 10_000,
        **changes,
    }
    return measure(segments, config, **values)


def test_cleanable_range_ends_below_last_stable_offset():
    """P13, KAFKA-13194."""
    segments = facts(5, 6, 7)
    assert measured(segments) == (0, 30, 0, 18, False)
    assert measured(segments, stable_offset=29) == (0, 20, 0, 11, False)
    assert measured(segments, stable_offset=9) == (0, 0, 0, 0, False)
    assert measured(segments, cleaned_to=10) == (10, 30, 5, 13, False)
    assert measured(segments, cleaned_to=15) == (15, 30, 5, 13, False)
    assert measured(segments, cleaned_to=101).first_dirty_offset == 0, (
        "behind the end: all is dirty"
    )
    assert measured(segments, cleaned_to=3, log_start_offset=7).first_dirty_offset == 7


def test_young_segments_are_not_compacted():
    young = replace(CONFIG, min_compaction_lag_ms=100)
    segments = [*facts(5, largest=9900), SealedSegment(10, 20, 5, 1, 9901)]
    assert measured(segments, young).end_offset == 10
    ahead = facts(5, largest=10_001)
    assert measured(ahead).end_offset == 10, "of no age is asked"
    assert measured(ahead, replace(CONFIG, min_compaction_lag_ms=1)).end_offset == 0
    overdue = replace(CONFIG, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=0.9)
    few = facts(90, 5, first=8999)
    assert measured(few, overdue, cleaned_to=10).is_due(overdue)
    assert not measured(few, replace(overdue, max_compaction_lag_ms=1001), cleaned_to=10).is_due(
        overdue
    )
    assert not measured(few, overdue, cleaned_to=20).is_due(overdue), "nothing is dirty"
    assert not measured(facts(90, 5, first=0), overdue).is_overdue, "as for Kafka that is no time"
    assert measured(facts(90, 5, first=1), overdue).is_overdue


def test_log_is_due_above_dirty_ratio():
    half = replace(CONFIG, min_cleanable_dirty_ratio=0.5)
    assert not measured(facts(50, 50), half, cleaned_to=10).is_due(half)
    assert measured(facts(50, 51), half, cleaned_to=10).is_due(half)
    none = replace(CONFIG, min_cleanable_dirty_ratio=0.0)
    assert not measured(facts(50), none, cleaned_to=10).is_due(none)
    assert measured(facts(1), none).is_due(none)


def test_segments_are_grouped_by_size_indexes_and_offsets():
    """KAFKA-5413, KAFKA-6264."""
    config = replace(CONFIG, segment_bytes=100, segment_index_bytes=50)

    def groups(*members):
        return list(group([GroupMember(*member) for member in members], config))

    assert groups((0, 10, 60, 0, 0), (10, 20, 40, 0, 0), (20, 30, 1, 0, 0)) == [[0, 1], [2]]
    assert groups((0, 10, 1, 30, 0), (10, 20, 1, 20, 0), (20, 30, 1, 1, 0)) == [[0, 1], [2]]
    assert groups((0, 10, 1, 0, 30), (10, 20, 1, 0, 20)) == [[0, 1]]
    assert groups((0, 10, 1, 0, 30), (10, 20, 1, 0, 21)) == [[0], [1]]
    far = RELATIVE_OFFSET_MAX
    assert groups((0, 10, 1, 0, 0), (10, far + 1, 1, 0, 0)) == [[0, 1]]
    assert groups((0, 10, 1, 0, 0), (10, far + 2, 1, 0, 0)) == [[0], [1]]
    assert groups((0, 10, 1, 0, 0), (10, far + 2, 0, 0, 0)) == [[0, 1]]
    assert groups() == []
    assert groups((0, 10, 60, 0, 0), (10, 20, 50, 0, 0), (20, 30, 50, 0, 0)) == [[0], [1, 2]]
    assert groups((0, 10, 1, 30, 0), (10, 20, 1, 21, 0), (20, 30, 1, 29, 0)) == [[0], [1, 2]]
    assert groups((0, 10, 1, 0, 30), (10, 20, 1, 0, 21), (20, 30, 1, 0, 29)) == [[0], [1, 2]]


def test_full_map_ends_the_round(tmp_path):
    log = opened(tmp_path, replace(CONFIG, segment_bytes=1000))
    for number in range(60):
        put(log, (b"%d" % (number % 20), b"v" * 30))
    before = records_of(log)
    assert len(log.sealed_segments) > 4
    end = compact(log, limits=CleanerLimits(24 * 12))
    assert 0 < end < log.active_segment.base_offset
    assert records_of(log) == obvious(before, end)
    assert dirt(log, cleaned_to=end).first_dirty_offset == end
    while end < log.active_segment.base_offset:
        end = compact(log, limits=CleanerLimits(24 * 12), cleaned_to=end)
    assert records_of(log) == obvious(before, end)
    compact(log, cleaned_to=0)
    assert len(log.sealed_segments) <= 2


def test_compacted_segment_is_as_old_as_newest_source(tmp_path):
    """Records without timestamps expire by the time at which their segment was written (`Cleaner.cleanSegments`)."""
    log = opened(tmp_path)
    for number in range(3):
        append(log, build_batch([NewRecord(b"%d" % number, b"v", -1)]))
        sealed(log)
    for segment, modified in zip(log.sealed_segments, (9_000, 1_000, 5_000), strict=True):
        os.utime(segment.path(".log"), (modified, modified))
    compact(log)
    [segment] = log.sealed_segments
    assert newest_ms(segment, log.config) == 5_000_000


SIPHASH = {  # the vectors of the reference implementation: key and message are 0, 1, 2, …
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}


@pytest.mark.parametrize("size", SIPHASH)
def test_digests_equal_reference_siphash(size):
    offsets = OffsetMap(3, 2, bytes(range(16)))
    assert offsets.digest(bytes(range(size))).hex() == SIPHASH[size]


def build(tmp_path, files):
    """Returns a log of three segments with an aborted transaction, cleaned but not swapped."""
    config = replace(CONFIG, segment_bytes=100_000)
    log = opened(tmp_path, config, files=files)
    for number in range(3):
        put(log, (b"a", b"%d" % number), (b"b", b"%d" % number))
        put(
            log,
            (b"c", b"x"),
            producer_id=1,
            producer_epoch=0,
            base_sequence=number,
            is_transactional=True,
        )
        mark(log, 1, commit=False)
        sealed(log)
    put(log, (b"z", b"z"))
    log.flush()
    return log


def visible(log):
    aborted = log.aborted_transactions(0, log.log_end_offset)
    out = [range(entry.first_offset, entry.last_offset + 1) for entry in aborted]
    return [(r.offset, r.value) for r in records_of(log) if not any(r.offset in o for o in out)]


@pytest.mark.parametrize("loses_power", [False, True])
def test_crash_leaves_either_old_or_new_segments(tmp_path, loses_power):
    """read_committed readers see the same last values and the same aborts before and after; no files are left over."""
    outcomes = set()
    for operation in range(200):
        files = FaultyFiles()
        path = tmp_path / str(operation)
        path.mkdir()
        log = build(path, files)
        old = visible(log)
        new = obvious_pairs(records_of(log), log)
        aborted = log.aborted_transactions(0, log.log_end_offset)
        crashed = stop_after(files, operation)
        with contextlib.suppress(OSError, KafkaError):
            compact(log)
        assert crashed() or operation > 20
        if loses_power:
            files.crash()
        again = opened(path, recovery_point=log.flushed_offset)
        assert visible(again) in (old, new)
        assert again.aborted_transactions(0, again.log_end_offset) == aborted
        outcomes.add(visible(again) == new)
        leftovers = [p.name for p in again.directory.iterdir() if p.suffix in (".cleaned", ".swap")]
        assert leftovers == []
        if not crashed():
            break
    assert loses_power or outcomes == {True, False}
    assert not crashed(), "the last run was a whole one"


def obvious_pairs(records, log):
    end = log.active_segment.base_offset
    values = [r for r in records if r.key != b"c"]
    return [(r.offset, r.value) for r in obvious(values, end)]


def stop_after(files, count):
    """Makes every call after `count` renames, unlinks and writes fail, as when the process dies."""
    left = [count]
    gone = []

    def hook(original):
        def call(*arguments, **options):
            if left[0] == 0:
                gone.append(True)
                raise OSError("gone")
            left[0] -= 1
            return original(*arguments, **options)

        return call

    for name in ("rename", "unlink", "pwrite", "fdatasync"):
        setattr(files, name, hook(getattr(files, name)))
    return lambda: bool(gone)


def test_records_without_timestamps_have_their_files_age(tmp_path):
    """Producers of Kafka 0.9 write them, and those that send -1."""
    log = opened(tmp_path, replace(CONFIG, min_compaction_lag_ms=60_000))
    append(log, build_batch([NewRecord(b"a", b"1", -1), NewRecord(b"a", b"2", -1)]))
    written_ms = 1_000_000
    [path] = log.directory.glob("*.log")
    os.utime(path, ns=(0, written_ms * 1_000_000))
    sealed(log)
    assert dirt(log, now_ms=written_ms + 59_999).dirty_bytes == 0
    assert dirt(log, now_ms=written_ms + 60_000).dirty_bytes > 0


def test_files_of_failed_round_are_removed(tmp_path):
    """The log is not cleaned again, so nothing else would remove them before the next start."""
    log = opened(tmp_path)
    for key in (b"a", b"b"):
        put(log, (key, b"1"))
    sealed(log)
    clean_to = compact(log)
    [path] = [path for path in log.directory.glob("*.log") if path.stat().st_size]
    put(log, (b"a", b"2"))
    sealed(log)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(Uncleanable):
        compact(log, cleaned_to=clean_to)
    assert not list(log.directory.glob("*.cleaned"))
