"""The bytes that are read for a few records of a large segment, on a disk and from an object store."""

from contextlib import contextmanager

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from tests.spark.directories import checkpoint, make_node, write_partition
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.disk.files import Files
from trimaran.log.segments.index import OffsetIndex, TimeIndex
from trimaran.spark.data_source.conditions import NO_CONDITIONS, Conditions
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.source import read_request_of

GIB = 1 << 30
MIB = 1 << 20
EACH = 10  # records of a batch
INTERVAL = 4096  # bytes between index entries, as Kafka has them


class CountedSystem(LocalFileSystem):
    """A file system that only serves ranges of bytes, and counts them."""

    protocol = "counted"
    read = 0
    requests = 0

    def cat_file(self, path, start=None, end=None, **kwargs):
        found = super().cat_file(path, start=start, end=end, **kwargs)
        type(self).read += len(found)
        type(self).requests += 1
        return found


fsspec.register_implementation("counted", CountedSystem, clobber=True)


@contextmanager
def counted_reads(monkeypatch, total):
    """Counts the bytes that are read from the disk."""
    pread, read_bytes = Files.pread, Files.read_bytes

    def counting_pread(self, file, size, position):
        found = pread(self, file, size, position)
        total.append(len(found))
        return found

    def counting_read(self, path):
        found = read_bytes(self, path)
        total.append(len(found))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Files, "pread", counting_pread)
        patched.setattr(Files, "read_bytes", counting_read)
        yield


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Makes a partition with one segment of 1 GiB: a hole between its first batch and its last 200, with the indexes
    that batches in the hole would have.
    """
    node = make_node(tmp_path_factory.mktemp("large"), 1)
    folder = node / "t-0"
    folder.mkdir()

    def batch(base):
        rows = [NewRecord(b"k", bytes(150), base + i) for i in range(EACH)]
        return build_batch(rows, base_offset=base)

    size = len(batch(0))
    tail_start = GIB - 200 * size
    first_of_tail = EACH * (tail_start // size)
    offsets, times = bytearray(), bytearray()
    for position in range(INTERVAL, tail_start - INTERVAL, INTERVAL):
        last = position // size * EACH + EACH - 1
        offsets += OffsetIndex.layout.pack(last, position)
        times += TimeIndex.layout.pack(last, last)
    with (folder / f"{0:020d}.log").open("wb") as file:
        file.write(batch(0))
        for number in range(200):
            base = first_of_tail + number * EACH
            position = tail_start + number * size
            file.seek(position)
            file.write(batch(base))
            if number % 3 == 0:
                offsets += OffsetIndex.layout.pack(base + EACH - 1, position)
                times += TimeIndex.layout.pack(base + EACH - 1, base + EACH - 1)
    (folder / f"{0:020d}.index").write_bytes(offsets)
    (folder / f"{0:020d}.timeindex").write_bytes(times)
    end = first_of_tail + 200 * EACH
    checkpoint(node, {("t", 0): end})
    return node, end


def rows_of(options, conditions=NO_CONDITIONS):
    parsed = LogOptions.parse(options)
    wanted = read_request_of(parsed, ("offset", "timestamp"))
    return [
        row["offset"]
        for task in plan_log(parsed, conditions).tasks
        for found in read_records(task, wanted)
        for row in found.to_pylist()
    ]


def last_ten(end):
    """Returns queries for the last ten records: options, and conditions of a query."""
    first = end - 10
    return {
        "starting offsets": ({"startingOffsets": f'{{"t":{{"0":{first}}}}}'}, NO_CONDITIONS),
        "starting time": ({"startingTimestamp": str(first)}, NO_CONDITIONS),
        "offsets in a query": ({}, [["GreaterThanOrEqual", "offset", first]]),
        "times in a query": ({}, [["GreaterThanOrEqual", "timestamp", {"us": first * 1000}]]),
        "offsets and early times": (
            {},
            [
                ["GreaterThanOrEqual", "offset", first],
                ["GreaterThanOrEqual", "timestamp", {"us": 1000}],
            ],
        ),
    }


@pytest.mark.parametrize(
    "name",
    [
        "starting offsets",
        "starting time",
        "offsets in a query",
        "times in a query",
        "offsets and early times",
    ],
)
@pytest.mark.parametrize("scheme", ["", "counted://"])
def test_last_records_of_large_segment_take_little(large, monkeypatch, name, scheme):
    node, end = large
    options, trees = last_ten(end)[name]
    conditions = Conditions(tuple(trees), RECORDS.axes) if trees != NO_CONDITIONS else trees
    disk: list[int] = []
    before, requests = CountedSystem.read, CountedSystem.requests
    with counted_reads(monkeypatch, disk):
        found = rows_of({"path": f"{scheme}{node}", **options}, conditions)
    assert found[-10:] == list(range(end - 10, end))
    assert len(found) <= EACH * 4
    read = CountedSystem.read - before if scheme else sum(disk)
    assert 0 < read <= MIB
    if scheme:
        assert not disk
        assert CountedSystem.requests - requests < 100


RECORDS = Conditions.parse("[]", "records")


def test_ten_records_inside_take_little(large, monkeypatch):
    node, end = large
    trees = (["GreaterThanOrEqual", "offset", end - 1500], ["LessThan", "offset", end - 1490])
    disk: list[int] = []
    with counted_reads(monkeypatch, disk):
        found = rows_of({"path": str(node)}, Conditions(trees, RECORDS.axes))
    assert found == list(range(end - 1500, end - 1490))
    assert sum(disk) <= MIB


def test_segments_out_of_range_are_not_opened(tmp_path, monkeypatch):
    node = make_node(tmp_path, 1)
    batches = [
        build_batch([NewRecord(b"k", bytes(400), 1000 * i)], base_offset=i) for i in range(30)
    ]
    folder = write_partition(node, "t", 0, batches, segment_bytes=1000)
    checkpoint(node, {("t", 0): 30})
    opened: list[str] = []
    open_file = Files.open

    def watching(self, path, **how):
        opened.append(path.name)
        return open_file(self, path, **how)

    monkeypatch.setattr(Files, "open", watching)
    segments = sorted(path.name for path in folder.glob("*.log"))
    assert len(segments) > 10

    def opened_for(*trees):
        opened.clear()
        rows = rows_of({"path": str(node)}, Conditions(trees, RECORDS.axes))
        return rows, {name for name in opened if name.endswith(".log")}

    rows, names = opened_for(["EqualTo", "offset", 4])
    assert rows == [4]
    assert names == {segments[2], segments[-1]}
    rows, names = opened_for(["GreaterThan", "timestamp", {"us": 28_500_000}])
    assert rows == [29]
    summary = plan_log(
        LogOptions.parse({"path": str(node)}),
        Conditions((["GreaterThan", "timestamp", {"us": 28_500_000}],), RECORDS.axes),
    ).summary
    assert summary.startswith(f"topics 1 of 1, segments 1 of {len(segments)}, ")
