"""The calls of a round to the file layer in order, and the end of each pass."""

import os
from dataclasses import replace

import crc32c
import pytest

from tests.log.compaction.helpers import compact
from tests.log.compaction.test_against_twin import views_of
from tests.log.compaction.test_cleaned_files import planned, with_an_abort
from tests.log.compaction.test_rules import mark, opened, put, sealed
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.compaction.choosing import GroupMember
from trimaran.log.compaction.cleaning import CleanerLimits, CleaningStopped, Uncleanable
from trimaran.log.compaction.offset_map import SLOT_BYTES
from trimaran.log.disk.files import Files
from trimaran.log.segments.transaction_index import ENTRY_BYTES

SUFFIXES = (".index", ".timeindex", ".txnindex", ".log")


class NotedFiles(Files):
    """Notes the calls of a round, by the ends of the files' names."""

    kernel_syncs = False

    def __init__(self):
        super().__init__()
        self.calls = []

    def note(self, call, path):
        self.calls.append((call, path.name.lstrip("0")))

    def open(self, path, *, create=False, write=True):
        self.note("make" if create else "open" if write else "read", path)
        return super().open(path, create=create, write=write)

    def fdatasync(self, file):
        self.note("sync", file.path)
        super().fdatasync(file)

    def unlink(self, path):
        self.note("unlink", path)
        super().unlink(path)

    def set_modified(self, path, modified_ms):
        self.note(f"age {modified_ms}", path)
        super().set_modified(path, modified_ms)


def noted(tmp_path, *batches):
    """Returns a log with one sealed segment for each batch, and its files."""
    files = NotedFiles()
    log = opened(tmp_path, files=files)
    for pairs in batches:
        put(log, *pairs)
        sealed(log)
    return log, files


A, B, C = (b"a", b"1"), (b"b", b"1"), (b"c", b"1")


def test_segment_is_cleaned_by_calls_in_order(tmp_path):
    """Leftovers of an earlier round are removed first; new files are durable; the new segment has the age of its newest
    source.
    """
    log, files = noted(tmp_path, [A], [B])
    for segment, seconds in zip(log.sealed_segments, (9, 5), strict=True):
        os.utime(segment.path(".log"), (seconds, seconds))
    round_ = planned(log)
    [sources] = round_.groups(round_.build_map())
    files.calls.clear()
    cleaned = round_.clean(sources)
    assert files.calls == [
        *(("unlink", f"{suffix}.cleaned") for suffix in SUFFIXES),
        ("make", ".log.cleaned"),
        ("make", ".index.cleaned"),
        ("make", ".timeindex.cleaned"),
        ("read", ".log"),
        ("read", "1.log"),
        ("open", ".index.cleaned"),
        ("sync", ".index.cleaned"),
        ("open", ".timeindex.cleaned"),
        ("sync", ".timeindex.cleaned"),
        ("open", ".txnindex.cleaned"),
        ("open", ".log.cleaned"),
        ("sync", ".log.cleaned"),
        ("age 5000", ".log.cleaned"),
    ]
    assert cleaned.path(".timeindex").stat().st_size == 12, "it was sealed"
    files.calls.clear()
    round_.discard(cleaned)
    assert files.calls == [("unlink", f"{suffix}.cleaned") for suffix in SUFFIXES]


def test_abort_index_is_created_and_synced(tmp_path):
    files = NotedFiles()
    log = with_an_abort(tmp_path, files)
    round_ = planned(log)
    [sources] = round_.groups(round_.build_map())
    files.calls.clear()
    round_.clean(sources)
    calls = ["unlink", "make", "read", "make", "open", "sync"]
    assert [call for call, name in files.calls if name == ".txnindex.cleaned"] == calls


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY])
def test_full_map_ends_before_batch_that_overflows(tmp_path, codec):
    """Compressed batches are examined separately, the rest together."""
    log = opened(tmp_path)
    for pairs in ([A], [B], [C, (b"d", b"1")], [(b"e", b"1")]):
        put(log, *pairs, compression=codec)
    sealed(log)
    ends = {}
    for slots in (2, 3, 4, 5, 6, 7):
        round_ = planned(log, limits=CleanerLimits(slots * SLOT_BYTES))
        ends[slots] = round_.build_map()
        assert round_.latest_offset == ends[slots] - 1
    assert ends == {2: 1, 3: 2, 4: 2, 5: 4, 6: 5, 7: 5}


def test_full_map_at_segment_start_keeps_previous_segment(tmp_path):
    log, _ = noted(tmp_path, [A], [B], [C])
    round_ = planned(log, limits=CleanerLimits(3 * SLOT_BYTES))
    end_offset = round_.build_map()
    assert end_offset == 2
    [sources] = round_.groups(end_offset)
    assert [source.base_offset for source in sources] == [0, 1]


def test_oversized_dirty_batch_is_reported_by_offset(tmp_path):
    log, _ = noted(tmp_path, [A], [B, C])
    with pytest.raises(Uncleanable, match="the keys of one batch at 1 do not fit"):
        planned(log, limits=CleanerLimits(2 * SLOT_BYTES), cleaned_to=1).build_map()
    assert planned(log, limits=CleanerLimits(4 * SLOT_BYTES), cleaned_to=1).build_map() == 3


def test_segments_are_grouped_by_own_file_sizes(tmp_path, monkeypatch):
    log, _ = noted(tmp_path, [A], [B, C], [C])
    first, second, third = log.sealed_segments
    for segment, suffix, size in (
        *((first, ".index", 8), (first, ".timeindex", 12)),
        *((second, ".index", 16), (second, ".timeindex", 36)),
    ):
        segment.path(suffix).write_bytes(bytes(size))
    third.path(".index").unlink()
    third.path(".timeindex").unlink()
    asked = []

    def noting(members, config):
        asked.extend(members)
        return [[0, 2], [1]]

    monkeypatch.setattr("trimaran.log.compaction.cleaning.group", noting)
    round_ = planned(log)
    groups = round_.groups(round_.build_map())
    assert asked == [
        GroupMember(0, 1, first.size, 8, 12),
        GroupMember(1, 3, second.size, 16, 36),
        GroupMember(3, 4, third.size, 0, 0),
    ]
    assert [[source.segment for source in sources] for sources in groups] == [
        [first, third],
        [second],
    ]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_batch_with_wrong_crc_is_reported_by_position(tmp_path, number, monkeypatch):
    """The batch is in the first block, or in a later one."""
    log = opened(tmp_path)
    for pair in (A, B, C):
        put(log, pair)
    sealed(log)
    path = log.sealed_segments[0].path(".log")
    size = path.stat().st_size // 3
    monkeypatch.setattr("trimaran.log.compaction.cleaning.BLOCK_BYTES", 2 * size)
    data = bytearray(path.read_bytes())
    data[number * size + size - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Uncleanable, match=f": wrong CRC at position {number * size}$"):
        planned(log).build_map()


@pytest.mark.parametrize("is_cut", [True, False])
def test_partial_batch_is_reported_by_position(tmp_path, is_cut):
    log = opened(tmp_path)
    for pair in (A, B):
        put(log, pair)
    sealed(log)
    path = log.sealed_segments[0].path(".log")
    data = bytearray(path.read_bytes())
    half = len(data) // 2
    round_ = planned(log)
    if is_cut:
        path.write_bytes(data[:-1])
    else:
        data[half + 16] = 9  # an unknown magic
        path.write_bytes(data)
    with pytest.raises(Uncleanable, match=f": no whole batch at position {half}$"):
        round_.build_map()


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_batch_is_read_once_unless_larger_than_block(tmp_path, monkeypatch, beyond):
    log = opened(tmp_path)
    put(log, A)
    sealed(log)
    [segment] = log.sealed_segments
    monkeypatch.setattr("trimaran.log.compaction.cleaning.BLOCK_BYTES", segment.size - beyond)
    paced = []
    round_ = planned(log, pause=paced.append)
    assert round_.build_map() == 1
    assert paced == [segment.size]
    assert round_.bytes_read == segment.size


def test_round_ends_at_next_segment_despite_gap(tmp_path):
    log, _ = noted(tmp_path, [A], [B])
    round_ = planned(log)
    first, second = round_.sources
    round_.sources = [first, replace(second, next_base_offset=9)]
    assert round_.build_map() == 9
    assert round_.latest_offset == 8


def stored(log, data, *, count=None):
    """Stores a batch with a right CRC, whatever else is wrong; `count` is the one in its header."""
    data = bytearray(data)
    if count is not None:
        data[57:61] = count.to_bytes(4, "big")
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c.crc32c(data[21:]).to_bytes(4, "big")
    log.append_as_follower(memoryview(data))


def test_batch_emptied_by_kafka_is_only_nominally_compressed(tmp_path):
    log = opened(tmp_path)
    full = build_batch([NewRecord(b"a", b"1", 5)], compression=Compression.GZIP)
    stored(log, full[:61], count=0)
    put(log, B)
    sealed(log)
    round_ = planned(log)
    assert round_.build_map() == 2
    assert round_.offsets.get(b"b") == 1
    compact(log)
    assert [(view.base_offset, view.count) for view in views_of(log)] == [(1, 1)]


def test_records_that_were_aborted_are_not_expanded(tmp_path):
    log = opened(tmp_path)
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    data = bytearray(
        build_batch(
            [NewRecord(b"a", b"1", 5)],
            compression=Compression.GZIP,
            is_transactional=True,
            **fields,
        )
    )
    data[61:65] = b"none"
    stored(log, data)
    mark(log, 1, commit=False)
    put(log, B)
    sealed(log)
    assert planned(log).build_map() == 3


def test_abort_is_indexed_once_for_many_batches(tmp_path):
    """Compressed batches are examined one by one."""
    log = opened(tmp_path)
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    put(log, A, is_transactional=True, **fields)
    mark(log, 1, commit=False)
    for pair in (A, B, C):
        put(log, pair, compression=Compression.GZIP)
    sealed(log)
    aborted = log.aborted_transactions(0, 5)
    compact(log)
    [path] = [path for path in log.directory.glob("*.txnindex") if path.stat().st_size]
    assert path.stat().st_size == ENTRY_BYTES
    assert log.aborted_transactions(0, 5) == aborted


def test_segment_removed_during_cleaning_stops_the_round(tmp_path):
    log, _ = noted(tmp_path, [A], [B])
    round_ = planned(log)
    [sources] = round_.groups(round_.build_map())

    last = log.sealed_segments[1].path(".log")
    paced = []

    def pause(size):
        paced.append(size)
        if len(paced) == 4:  # both were read, and written
            last.unlink()

    round_.pause = pause
    with pytest.raises(CleaningStopped, match="is gone"):
        round_.clean(sources)
    assert not list(log.directory.glob("*.cleaned"))
