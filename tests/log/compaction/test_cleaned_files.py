"""Files that a round writes: their names, durability and sizes; and when a round must stop."""

import zlib

import crc32c
import pytest

from tests.log.compaction.helpers import KEY, LIMITS, compact, dirt, no_pause
from tests.log.compaction.test_against_twin import views_of
from tests.log.compaction.test_rules import mark, opened, put, sealed
from tests.log.faulty_files import FaultyFiles
from tests.log.power_loss import Rename, Sync, Write
from trimaran.log.batches.records import Record
from trimaran.log.codecs.compression import Compression
from trimaran.log.compaction.cleaning import CleanerLimits, CleaningStopped, Uncleanable
from trimaran.log.compaction.offset_map import SLOT_BYTES
from trimaran.log.compaction.planning import plan_round
from trimaran.log.old_formats.message_sets import build_message_set


def planned(log, *, limits=LIMITS, pause=no_pause, **options):
    return plan_round(log, dirt(log, **options), limits=limits, map_key=KEY, now_ms=0, pause=pause)


def with_an_abort(tmp_path, files):
    """Returns one sealed segment with a transaction whose records and marker compaction removes."""
    log = opened(tmp_path, files=files)
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    put(log, (b"a", b"1"), is_transactional=True, **fields)
    mark(log, 1, commit=False)
    later = {"producer_id": 1, "producer_epoch": 1, "base_sequence": 0}
    put(log, (b"a", b"2"), is_transactional=True, **later)
    mark(log, 1, commit=True, epoch=1)
    return sealed(log)


def test_cleaned_files_are_durable_before_they_are_renamed(tmp_path):
    files = FaultyFiles()
    log = with_an_abort(tmp_path, files)
    log.flush()
    done = []
    files.on_operation = done.append
    compact(log)
    renamed = next(n for n, operation in enumerate(done) if isinstance(operation, Rename))
    written = {operation.file for operation in done[:renamed] if isinstance(operation, Write)}
    assert written
    for node in written:
        last = max(
            n
            for n, operation in enumerate(done)
            if isinstance(operation, Write) and operation.file == node
        )
        synced = [
            n
            for n, operation in enumerate(done)
            if isinstance(operation, Sync) and operation.file == node
        ]
        assert any(last < n < renamed for n in synced)


def test_emptied_abort_index_replaces_the_old_one(tmp_path):
    """Otherwise the old one would stay, and some day name offsets of another transaction."""
    log = with_an_abort(tmp_path, FaultyFiles())
    (path,) = [path for path in log.directory.glob("*.txnindex") if path.stat().st_size]
    compact(log)
    assert path.stat().st_size > 0
    compact(log, cleaned_to=0, now_ms=1)
    assert log.aborted_transactions(0, 4) == []
    assert path.stat().st_size == 0


def test_segment_without_aborts_gets_no_abort_index(tmp_path):
    log = opened(tmp_path)
    put(log, (b"a", b"1"))
    compact(sealed(log))
    assert not list(log.directory.glob("*.txnindex"))


def test_batch_with_too_many_keys_is_uncleanable(tmp_path):
    log = opened(tmp_path)
    put(log, *((b"%d" % number, b"v") for number in range(5)))
    sealed(log)
    for slots, fits in ((5, False), (7, True)):
        round_ = planned(log, limits=CleanerLimits(slots * SLOT_BYTES))
        if fits:
            assert round_.build_map() == 5
        else:
            with pytest.raises(Uncleanable, match="one batch at 0 do not fit"):
                round_.build_map()


def test_map_full_in_a_run_ends_before_batch(tmp_path):
    log = opened(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"1"))
    for key in (b"c", b"d", b"e"):
        put(log, (key, b"1"))
    sealed(log)
    for slots, end_offset in ((3, 2), (4, 3), (5, 4), (7, 5)):
        assert planned(log, limits=CleanerLimits(slots * SLOT_BYTES)).build_map() == end_offset


def test_batch_larger_than_block_is_read_whole(tmp_path, monkeypatch):
    log = opened(tmp_path)
    put(log, (b"a", b"v" * 20))
    put(log, (b"b", b"v" * 300))
    size = log.active_segment.size
    sealed(log)
    monkeypatch.setattr("trimaran.log.compaction.cleaning.BLOCK_BYTES", 200)
    round_ = planned(log)
    assert round_.build_map() == 2
    assert round_.bytes_read > size


@pytest.mark.parametrize(
    ("map_bytes", "offsets", "slots"),
    [
        (1000 * SLOT_BYTES, 90, 102),
        (50 * SLOT_BYTES, 90, 50),
        (0, 90, 2),
        (1000 * SLOT_BYTES, 0, 2),
    ],
)
def test_map_size_is_bounded_by_offsets_and_limit(map_bytes, offsets, slots, monkeypatch):
    made = []
    monkeypatch.setattr(
        "trimaran.log.compaction.cleaning.OffsetMap", lambda *given: made.append(given)
    )
    CleanerLimits(map_bytes).offset_map(offsets, KEY)
    assert made == [(slots, max(1, min(slots - 1, int(slots * 0.9))), KEY)]


@pytest.mark.parametrize(
    ("load_factor", "offsets", "made_of"),
    [(1.0, 90, (50, 49)), (0.4, 0, (2, 1)), (0.5, 9, (20, 10))],
)
def test_map_is_full_at_load_factor(load_factor, offsets, made_of, monkeypatch):
    made = []
    monkeypatch.setattr(
        "trimaran.log.compaction.cleaning.OffsetMap", lambda *given: made.append(given[:2])
    )
    CleanerLimits(50 * SLOT_BYTES, load_factor).offset_map(offsets, KEY)
    assert made == [made_of]


def test_round_counts_and_paces_reads_and_writes(tmp_path):
    log = opened(tmp_path)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    sealed(log)
    paced = []
    round_ = planned(log, pause=paced.append)
    size = log.sealed_segments[0].size
    assert round_.build_map() == 3
    (sources,) = round_.groups(3)
    cleaned = round_.clean(sources)
    assert round_.bytes_read == 2 * size
    assert round_.bytes_written == cleaned.size < size
    assert sum(paced) == round_.bytes_read + round_.bytes_written


def test_stopped_round_leaves_nothing_behind(tmp_path):
    log = opened(tmp_path)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    sealed(log)
    round_ = planned(log)
    (sources,) = round_.groups(round_.build_map())

    def stop(_size):
        raise CleaningStopped

    round_.pause = stop
    with pytest.raises(CleaningStopped):
        round_.clean(sources)
    assert not list(log.directory.glob("*.cleaned"))


def test_undecodable_old_message_leaves_log_alone(tmp_path):
    log = opened(tmp_path)
    record = Record(0, 5, b"a", b"v" * 50, ())
    data = bytearray(build_message_set([record], magic=1, compression=Compression.SNAPPY))
    data[-8:] = b"\xff" * 8
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    log.append_as_follower(memoryview(data))
    sealed(log)
    with pytest.raises(Uncleanable, match="segment 0 of"):
        planned(log).build_map()


def test_rest_of_compressed_old_message_keeps_its_codec(tmp_path):
    log = opened(tmp_path)
    records = [Record(n, 5, b"%d" % (n % 2), b"v" * 50, ()) for n in range(3)]
    data = build_message_set(records, magic=1, compression=Compression.SNAPPY)
    log.append_as_follower(memoryview(data))
    compact(sealed(log))
    [view] = views_of(log)
    assert (view.magic, view.compression, view.count) == (2, Compression.SNAPPY, 2)


def test_header_mismatch_ends_round_where_records_are_rewritten(tmp_path):
    """An earlier round has processed the part before the first dirty offset, which is not mapped again."""
    log = opened(tmp_path)
    put(log, (b"a", b"1"))
    sealed(log)
    put(log, (b"b", b"1"))
    sealed(log)
    path = log.sealed_segments[0].path(".log")
    data = bytearray(path.read_bytes())
    data[61] ^= 0x55  # the size of the record
    data[17:21] = crc32c.crc32c(data[21:]).to_bytes(4, "big")
    path.write_bytes(data)
    round_ = planned(log, cleaned_to=1)
    assert round_.build_map() == 2
    with pytest.raises(Uncleanable, match="segment 0 of"):
        round_.clean(round_.groups(2)[0])
    with pytest.raises(Uncleanable, match="segment 0 of"):
        planned(log).build_map()


def test_removed_segment_stops_the_round(tmp_path):
    log = opened(tmp_path)
    put(log, (b"a", b"1"))
    sealed(log)
    round_ = planned(log)
    log.sealed_segments[0].path(".log").unlink()
    with pytest.raises(CleaningStopped, match="is gone"):
        round_.build_map()
