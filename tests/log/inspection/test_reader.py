"""The read-only view: all complete and valid batches of a directory, at once or in ranges, live or torn."""

import shutil

import pytest

from tests.log.helpers import append, batch_bytes, fill, open_log, ranges_between, read_all
from trimaran.log.batches.records import decode_records
from trimaran.log.inspection.reader import list_segments, scan_batches


def scan_all(directory):
    return [
        bytes(view.buffer)
        for segment in list_segments(directory)
        for _, view in scan_batches(segment.path)
    ]


def test_reader_reads_everything_and_writes_nothing(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 50)
    log.flush()
    before = {path: path.read_bytes() for path in log.directory.iterdir()}
    assert scan_all(log.directory) == read_all(log)
    assert {path: path.read_bytes() for path in log.directory.iterdir()} == before


def test_torn_end_stops_scan_at_every_byte(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    first, second = batch_bytes(2), batch_bytes(1, base_offset=2)
    for cut in range(len(second)):
        path.write_bytes(first + second[:cut])
        assert [position for position, _ in scan_batches(path)] == [0]
        path.write_bytes(first + second[:cut] + b"\xff" * 500)
        assert [position for position, _ in scan_batches(path)] == [0]


def test_wrong_crc_ends_the_scan(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    second = batch_bytes(1, base_offset=2)
    second[-1] ^= 1
    path.write_bytes(batch_bytes(2) + second + batch_bytes(1, base_offset=3))
    assert len(list(scan_batches(path))) == 1


@pytest.mark.parametrize("target", [1, 300, 700, 10**9])
@pytest.mark.parametrize("index", ["sound", "missing", "zeros", "other"])
def test_ranges_cover_the_segment_without_overlap(tmp_path, target, index):
    log = fill(open_log(tmp_path / "t-0"), 50)
    log.close()
    names = sorted(log.directory.glob("*.index"))
    if index == "missing":
        names[0].unlink()
    elif index == "zeros":
        names[0].write_bytes(names[0].read_bytes() + bytes(8000))
    elif index == "other":
        shutil.copy(names[1], names[0])
        names[0].write_bytes(names[0].read_bytes()[:8] + b"\0\0\x7f\0\0\0\3\1")
    for segment in list_segments(log.directory):
        whole = [bytes(v.buffer) for _, v in scan_batches(segment.path)]
        ranges = ranges_between(segment, target)
        assert [a for a, _ in ranges] == [0, *[b for _, b in ranges[:-1]]]
        assert ranges[-1][1] == segment.size
        parts = [bytes(v.buffer) for a, b in ranges for _, v in scan_batches(segment.path, a, b)]
        assert parts == whole
        if target == 1:
            assert len(ranges) > 1


def test_batches_larger_than_block_are_read(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    large = batch_bytes(3, value=bytes(1 << 20))
    path.write_bytes(batch_bytes(1) + large + batch_bytes(1))
    assert [view.count for _, view in scan_batches(path)] == [1, 3, 1]
    path.write_bytes(batch_bytes(1) + large[:-1])
    assert [view.count for _, view in scan_batches(path)] == [1]


def test_directory_of_running_broker_is_readable(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 5)
    batches = scan_batches(list_segments(log.directory)[0].path)
    next(batches)
    append(log)
    assert len(list(batches)) == 4, "the size when the scan began"
    assert len(scan_all(log.directory)) == 6


def test_other_files_are_no_segments(tmp_path):
    (tmp_path / "x.log").write_bytes(b"")
    (tmp_path / ("9" * 20 + ".log")).mkdir()
    (tmp_path / "00000000000000000003.log.deleted").write_bytes(b"")
    (tmp_path / "00000000000000000003.log").write_bytes(batch_bytes(1))
    [segment] = list_segments(tmp_path)
    assert (segment.base_offset, segment.size) == (3, len(batch_bytes(1)))
    [(_, view)] = scan_batches(segment.path)
    assert decode_records(view)[0].key == b"k0"
