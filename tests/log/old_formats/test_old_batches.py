"""Logs that an old Kafka began: messages of v0 and v1, plain and in wrappers, between batches of v2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.compaction.helpers import compact
from tests.log.helpers import open_log, ranges_between, read_all
from tests.log.old_formats.test_message_sets import CODECS, records_of
from trimaran.log.batches.batch import BatchView, check_batch, has_valid_crc, iter_batches
from trimaran.log.batches.records import NewRecord, Record, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.config import LogConfig
from trimaran.log.inspection.reader import list_segments, scan_batches
from trimaran.log.old_formats.down_conversion import down_convert
from trimaran.log.old_formats.message_sets import build_message_set, decode_message_set
from trimaran.log.old_formats.old_batches import as_v2, opened, timestamp_type_id
from trimaran.wire.errors import KafkaError, RemoteProtocolError

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, retention_ms=-1)
FORMATS = [(magic, codec) for magic in (0, 1) for codec in CODECS]


def stored_sets(count=30, *, first_offset=0, step=3, magics=(0, 1)):
    """Returns sets as an old leader stored them, and their records: every format and codec in turn, with gaps between
    offsets.
    """
    offset, sets, all_records = first_offset, [], []
    formats = [(magic, codec) for magic, codec in FORMATS if magic in magics]
    for turn in range(count):
        magic, codec = formats[turn % len(formats)]
        records = []
        for n in range(1 + turn % 4):
            value = None if offset % 7 == 3 else b"value %d" % offset
            records.append(
                Record(
                    offset, 1000 + offset - n * 5 if magic else -1, b"k%d" % (offset % 5), value, ()
                )
            )
            offset += 1 + (turn + n) % step
        sets.append(build_message_set(records, magic=magic, compression=codec))
        all_records += records
    return sets, all_records


def write_old_log(directory, sets, config=CONFIG, **options):
    log = open_log(directory, config, **options)
    for data in sets:
        log.append_as_follower(memoryview(data))
    return log


def records_in(data):
    return [r for view in iter_batches(data, allow_old=True) for r in decode_records(as_v2(view))]


def everything(log):
    return [record for data in read_all(log) for record in records_in(data)]


@given(data=st.data())
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_v2_batch_has_the_same_content(magic, codec, data):
    records = data.draw(records_of(magic))
    stored = build_message_set(records, magic=magic, compression=codec)
    views = list(iter_batches(stored, allow_old=True))
    assert [view.last_offset for view in views][-1] == records[-1].offset
    assert sum(view.size for view in views) == len(stored)
    for view in views:
        check_batch(view, allow_old=True)
        assert view.compression is codec
        assert (view.leader_epoch, view.producer_id, view.is_control) == (-1, -1, False)
        new = as_v2(view, keep_codec=data.draw(st.booleans()))
        check_batch(new)
        assert (new.base_offset, new.last_offset, new.max_timestamp) == (
            opened(view).base_offset,
            view.last_offset,
            view.max_timestamp,
        )
        assert (opened(view).count, view.base_timestamp) == (new.count, new.base_timestamp)
    assert records_in(stored) == records


def test_log_append_time_is_that_of_the_wrapper():
    records = [Record(7, 1, b"k", b"v", ()), Record(9, 2, b"k", b"v", ())]
    for codec in CODECS:
        stored = build_message_set(records, magic=1, compression=codec, append_time_ms=55)
        assert [r.timestamp_ms for r in records_in(stored)] == [55, 55]
        assert {timestamp_type_id(view) for view in iter_batches(stored, allow_old=True)} == {1}
    stored = build_message_set(records, magic=0)
    assert {timestamp_type_id(view) for view in iter_batches(stored, allow_old=True)} == {-1}


def test_producers_batches_must_have_magic_2():
    [data], _ = stored_sets(1)
    with pytest.raises(RemoteProtocolError, match="magic 0"):
        list(iter_batches(data + bytes(61)))


def test_damaged_wrapper_keeps_its_offsets_without_records():
    sets, _ = stored_sets(8)
    stored = bytearray(sets[5])  # a message set of v1 with gzip
    [view] = iter_batches(stored, allow_old=True)
    stored[-5] ^= 0xFF
    [damaged] = iter_batches(stored, allow_old=True)
    assert not has_valid_crc(damaged)
    assert opened(damaged).last_offset == view.last_offset
    with pytest.raises(RemoteProtocolError):
        as_v2(damaged)


@pytest.mark.parametrize("clean", [True, False])
def test_old_log_continues_in_v2_and_reopens(tmp_path, clean):
    sets, records = stored_sets()
    log = write_old_log(tmp_path / "t-0", sets)
    assert len(log.segment_base_offsets) > 3
    assert log.epochs.latest_epoch == -1, "old messages have no epoch"
    batch = build_batch([NewRecord(b"new", b"v", 5000)], base_offset=log.log_end_offset)
    view = memoryview(bytearray(batch))
    log.append_as_leader(view, list(iter_batches(view)), leader_epoch=4, now_ms=0)
    records = [*records, Record(records[-1].offset + 1, 5000, b"new", b"v", ())]
    assert everything(log) == records
    log.close(clean=clean)
    again = open_log(tmp_path / "t-0", CONFIG, clean=clean)
    assert everything(again) == records
    assert again.log_end_offset == records[-1].offset + 1
    assert again.epochs.entries() == [(4, records[-1].offset)]


def test_every_offset_and_timestamp_is_found(tmp_path):
    sets, records = stored_sets(40)
    log = write_old_log(tmp_path / "t-0", sets)
    for remove in (False, True):
        if remove:  # rebuilt from the log
            log.close()
            for path in log.directory.glob("*index"):
                path.unlink()
            log = open_log(tmp_path / "t-0", CONFIG)
        for offset in range(log.log_end_offset):
            found = records_in(log.read_bytes(offset, 1, upto_offset=log.log_end_offset))
            wanted = next(r for r in records if r.offset >= offset)
            assert wanted in found
        for timestamp in {r.timestamp_ms for r in records if r.timestamp_ms >= 0}:
            first = next(r for r in records if r.timestamp_ms >= timestamp)
            assert log.offset_for_timestamp(timestamp) == (first.timestamp_ms, first.offset, -1)
        newest = max(records, key=lambda r: r.timestamp_ms)
        assert log.max_timestamp_offset() == (newest.timestamp_ms, newest.offset, -1)


@pytest.mark.parametrize("magic", [0, 1])
def test_recovery_cuts_a_torn_end_at_every_byte(tmp_path, magic):
    sets, records = stored_sets(9, magics=(magic,))
    directory = tmp_path / "t-0"
    directory.mkdir()
    path = directory / "00000000000000000000.log"
    whole = b"".join(sets)
    views = list(iter_batches(whole, allow_old=True))
    ends = [sum(view.size for view in views[: n + 1]) for n in range(len(views))]
    for cut in range(ends[-2] + 1, len(whole)):
        for tail in (b"", b"\0" * 40, whole[:90]):
            for old in directory.iterdir():
                old.unlink()
            torn = whole[:cut] + tail
            path.write_bytes(torn)
            end = max(end for end in ends if torn[:end] == whole[:end])
            assert [p + v.size for p, v in scan_batches(path)][-1] == end
            log = open_log(directory, CONFIG, recovery_point=0)
            assert path.stat().st_size == end
            assert (
                everything(log)
                == records_in(whole[:end])
                == records[: len(records_in(whole[:end]))]
            )
            log.close(clean=False)


def test_damage_below_recovery_point_is_reported(tmp_path):
    sets, _ = stored_sets(9)
    log = write_old_log(tmp_path / "t-0", sets, LogConfig())
    log.close()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(KafkaError, match="in the part that was flushed"):
        open_log(tmp_path / "t-0", recovery_point=log.log_end_offset - 1)


def test_truncation_ends_where_the_batch_began(tmp_path):
    records = [Record(offset, 1000 + offset, b"k", b"v", ()) for offset in range(4, 10)]
    sets = [
        build_message_set(some, magic=1, compression=Compression.GZIP)
        for some in (records[:2], records[2:])
    ]
    for offset in (6, 8, 9):
        log = write_old_log(tmp_path / f"t-{offset}", sets)
        log.truncate_to(offset)
        assert log.log_end_offset == 6
        assert everything(log) == records[:2]


def test_ranges_cover_the_old_segment(tmp_path):
    sets, records = stored_sets(40)
    write_old_log(tmp_path / "t-0", sets, LogConfig(index_interval_bytes=100)).close()
    [segment] = list_segments(tmp_path / "t-0")
    ranges = ranges_between(segment, 300)
    assert len(ranges) > 3
    found = [v for a, b in ranges for _, v in scan_batches(segment.path, a, b)]
    assert [r for view in found for r in decode_records(as_v2(view))] == records


@pytest.mark.parametrize("magic", [0, 1])
def test_old_consumers_get_old_formats_unchanged(magic):
    sets, records = stored_sets(8)
    new = build_batch([NewRecord(b"k", b"v", 7)], base_offset=records[-1].offset + 1)
    stored = b"".join(sets) + bytes(new)
    found = decode_message_set(down_convert(stored, magic, 0))
    wanted = [*records, Record(records[-1].offset + 1, 7, b"k", b"v", ())]
    assert found == [r if magic else r._replace(timestamp_ms=-1) for r in wanted[: len(found)]]
    assert len(found) >= len(records)
    if magic:
        assert down_convert(stored, magic, 0).startswith(b"".join(sets))


def test_compaction_writes_v2_with_newest_per_key(tmp_path):
    config = LogConfig(segment_bytes=600, index_interval_bytes=100, compacts=True, deletes=False)
    sets, records = stored_sets(60)
    log = write_old_log(tmp_path / "t-0", sets, config)
    limit = log.active_segment.base_offset
    compact(log, now_ms=9000)
    newest = {r.key: r.offset for r in records if r.offset < limit}
    kept = [r for r in records if r.offset >= limit or newest[r.key] == r.offset]
    assert everything(log) == kept
    views = [v for s in list_segments(log.directory) for _, v in scan_batches(s.path)]
    cleaned = [view for view in views if view.last_offset < limit]
    assert {view.magic for view in cleaned} == {2}
    assert {v.magic for v in views if v.base_offset >= limit} <= {0, 1}
    assert any(v.delete_horizon_ms == 9000 + config.delete_retention_ms for v in cleaned)
    log.close()
    assert everything(open_log(tmp_path / "t-0", config, clean=True)) == kept


def test_views_of_both_kinds_share_an_interface():
    [data], _ = stored_sets(1)
    [view] = iter_batches(data, allow_old=True)
    assert isinstance(view, BatchView)
    assert all(hasattr(view, name) for name in BatchView.__slots__)


def test_old_messages_behind_new_ones_change_no_epoch(tmp_path):
    """The topic's message.format.version was lowered."""
    log = open_log(tmp_path / "t-0", CONFIG)
    new = build_batch([NewRecord(b"k", b"v", 1)], leader_epoch=4)
    [old], _ = stored_sets(1, first_offset=1)
    log.append_as_follower(memoryview(bytes(new) + old))
    assert log.epochs.entries() == [(4, 0)]
    assert log.log_end_offset == 2
