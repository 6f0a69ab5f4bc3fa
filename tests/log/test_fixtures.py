"""Directories that Apache Kafka 0.10 to 4.3 wrote: our readers and our log agree with the output of Kafka's own
tools.
"""

import contextlib
from pathlib import Path

import pytest

from tests.log import fixtures
from tests.log.fixtures.compare import batches_differ, matrix, records_of, records_printed
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.log.disk.checkpoints import HIGH_WATERMARKS, LEADER_EPOCHS, read_offsets
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.old_formats.old_batches import as_v2
from trimaran.log.producers.snapshots import parse_snapshot
from trimaran.log.segments.index import OffsetIndex, TimeIndex
from trimaran.log.segments.transaction_index import TransactionIndex
from trimaran.wire.identity import TopicPartition

NAMES = fixtures.names()
NEW = [name for name in NAMES if not name.startswith("0.10")]
VERSIONS = ["0.10.2.2", "2.8.2", "3.9.1", "4.3.0"]
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=150, retention_ms=-1)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Returns a directory by its fixture's name; it must not be written to."""
    folder = tmp_path_factory.mktemp("fixtures")
    return {name: fixtures.unpack(name, folder / name) for name in NAMES}


@contextlib.contextmanager
def opened(name, folder: Path):
    """Returns the log directory, unpacked if necessary; for Kafka 0.10 the missing cluster id is added."""
    path = folder / name
    if not path.exists():
        fixtures.unpack(name, path)
    identity = path / "meta.properties"
    if "cluster.id" not in identity.read_text():
        with pytest.raises(MetaPropertiesError, match=r"no cluster\.id"):
            LogDirectory(path)
        identity.write_text(f"{identity.read_text()}cluster.id=someone\n")
    directory = LogDirectory(path)
    try:
        yield directory
    finally:
        directory.close(broker_epoch=1)


def partitions(name):
    """Returns (topic, partition) of the partitions whose records were printed."""
    found = dict.fromkeys(Path(file).parent.name for file in fixtures.files(name, "batch", ".log"))
    return [(topic.rpartition("-")[0], int(topic.rpartition("-")[2])) for topic in found]


def segments(name, topic, partition):
    return [
        f for f in fixtures.files(name, "batch", ".log") if f.startswith(f"{topic}-{partition}/")
    ]


def served(log, upto=None):
    """Returns all records from the log's start, by consecutive reads, as (record, producer id, is control)."""
    end = log.log_end_offset if upto is None else upto
    offset, found = log.log_start_offset, []
    while offset < end:
        data = log.read_bytes(offset, 500, upto_offset=end)
        if not data:
            break
        for view in iter_batches(data, allow_old=True):
            records = decode_records(as_v2(view)) if view.count else ()
            found += [(r, view.producer_id, view.is_control) for r in records if r.offset >= offset]
            after = view.next_offset
        offset = after
    return found


def test_each_version_has_two_fixtures():
    assert [f"{version}-{kind}" for version in VERSIONS for kind in ("clean", "killed")] == NAMES


def test_every_format_of_every_version_is_read(tmp_path):
    cells = list(matrix(tmp_path))
    assert [cell for cell, _, _, wrong in cells if wrong] == []
    assert min(records for _, _, records, _ in cells) > 0
    old = ("gzip", "lz4", "none", "snappy")
    wanted = {("0.10.2.2", f, c) for f in ("v0", "v1") for c in old}
    wanted |= {("2.8.2", f, c) for f in ("v0", "v1", "v2") for c in old} | {("2.8.2", "v2", "zstd")}
    wanted |= {(v, "v2", c) for v in ("3.9.1", "4.3.0") for c in (*old, "zstd")}
    found = {(fixtures.version_of(name), f, c) for (name, f, c), *_ in cells}
    assert found == wanted


def test_differing_batch_is_detected(unpacked):
    name = NAMES[0]
    first = fixtures.files(name, "batch", "0.log")[0]
    directory = unpacked[name]
    assert batches_differ(directory, fixtures.rows_of_file(name, first), first) is False
    (directory / "other-0").mkdir()
    changed = bytearray((directory / first).read_bytes())
    changed[-1] ^= 1
    (directory / "other-0" / Path(first).name).write_bytes(changed)
    changed_rows = list(records_of(directory, f"other-0/{Path(first).name}"))
    assert len(changed_rows) < len(list(records_printed(fixtures.rows_of_file(name, first))))


@pytest.mark.parametrize("name", NAMES)
def test_our_log_serves_the_same_records(name, tmp_path):
    """After a clean shutdown no log is checked; after a kill all are recovered."""
    with opened(name, tmp_path) as directory:
        assert directory.clean_shutdown is name.endswith("clean")
        for topic, partition in partitions(name):
            printed = [
                row
                for file in segments(name, topic, partition)
                for row in fixtures.rows(name, "record", file)
            ]
            config = CONFIG if "compacted" not in topic else CONFIG.__class__(compacts=True)
            log = directory.open_log(TopicPartition(topic, partition), config)
            if topic.startswith("__"):
                continue
            start = log.log_start_offset
            assert start == (13 if topic == "deleted" else 0)
            found = [(r.offset, r.timestamp_ms) for r, _, _ in served(log)]
            assert found == [(r["offset"], r["timestamp"]) for r in printed if r["offset"] >= start]
            assert log.log_end_offset >= printed[-1]["offset"] + 1


@pytest.mark.parametrize("name", NAMES)
def test_every_offset_and_timestamp_is_found(name, tmp_path):
    if name.endswith("clean"):  # our indexes are rebuilt, Kafka's are its own
        for path in fixtures.unpack(name, tmp_path / name).rglob("*index"):
            path.unlink()
    with opened(name, tmp_path) as directory:
        for topic, partition in partitions(name):
            if topic.startswith("__"):
                continue
            log = directory.open_log(TopicPartition(topic, partition), CONFIG)
            records = [record for record, _, is_control in served(log)]
            for record in records:
                data = log.read_bytes(record.offset, 1, upto_offset=log.log_end_offset)
                [view] = iter_batches(data, allow_old=True)
                assert record in decode_records(as_v2(view))
            for timestamp in {r.timestamp_ms for r in records if r.timestamp_ms >= 0}:
                first = next(r for r in records if r.timestamp_ms >= timestamp)
                found = log.offset_for_timestamp(timestamp)
                assert found is not None
                assert found[:2] == (first.timestamp_ms, first.offset)


@pytest.mark.parametrize("name", NAMES)
def test_indexes_match_kafkas_dump(name, unpacked):
    kinds = {".index": ("offset", "position"), ".timeindex": ("timestamp", "offset")}
    seen = 0
    for suffix, columns in kinds.items():
        for file in fixtures.files(name, suffix[1:]):
            path = unpacked[name] / file
            base = int(path.stem)
            layout = OffsetIndex if suffix == ".index" else TimeIndex
            index = layout(path, REAL_FILES, created=False)
            ours = [index.entry(slot) for slot in range(index.entries)]
            theirs = []
            for row in fixtures.rows(name, suffix[1:], file):
                first, second = (row[column] for column in columns)
                theirs.append(
                    (first - base, second) if suffix == ".index" else (first, second - base)
                )
            assert ours == [entry for entry in theirs if _is_entry(entry, suffix)], file
            seen += len(ours)
            index.release()
    assert seen > 20


def _is_entry(entry, suffix):
    """Kafka also prints zeros of an unclean shutdown's preallocated space, and an empty time index as one entry."""
    return entry[0] > 0 if suffix == ".timeindex" else entry[1] > 0


@pytest.mark.parametrize("name", NEW)
def test_producers_and_aborted_transactions_are_kafkas(name, unpacked, tmp_path):
    for file in fixtures.files(name, "producer"):
        state = parse_snapshot((unpacked[name] / file).read_bytes(), int(Path(file).stem))
        theirs = {row["producerId"]: row for row in fixtures.rows(name, "producer", file)}
        assert {producer for producer, _ in state.entries()} == set(theirs)
        for producer, entry in state.entries():
            assert (entry.epoch, entry.coordinator_epoch) == (
                theirs[producer]["producerEpoch"],
                theirs[producer]["coordinatorEpoch"],
            )
    theirs = [
        tuple(row[key] for key in ("producerId", "firstOffset", "lastOffset", "lastStableOffset"))
        for row in fixtures.rows(name, "aborted")
    ]
    assert len(theirs) >= 2
    files = fixtures.files(name, "aborted")
    ours = [
        tuple(entry)
        for file in files
        for entry in TransactionIndex(unpacked[name] / file, REAL_FILES).entries()
    ]
    assert ours == theirs
    rebuilt = fixtures.unpack(name, tmp_path / name)
    for path in [*rebuilt.rglob("*.txnindex"), *rebuilt.rglob("*.snapshot")]:
        path.unlink()
    with opened(name, tmp_path) as directory:
        log = directory.open_log(TopicPartition("transactions", 0), CONFIG)
        assert log.aborted_transactions(0, log.log_end_offset) == theirs


@pytest.mark.parametrize("name", NEW)
def test_read_committed_matches_kafkas_console_consumer(name, tmp_path):
    with opened(name, tmp_path) as directory:
        log = directory.open_log(TopicPartition("transactions", 0), CONFIG)
        stable = log.last_stable_offset(log.log_end_offset)
        aborted = log.aborted_transactions(0, stable)
        for isolation, end in (("read_committed", stable), ("read_uncommitted", None)):
            ours = []
            for record, producer, is_control in served(log, end):
                gone = any(
                    a.producer_id == producer and a.first_offset <= record.offset <= a.last_offset
                    for a in aborted
                )
                if not is_control and (isolation == "read_uncommitted" or not gone):
                    ours.append((record.offset, text(record.key), text(record.value)))
            rows = fixtures.rows(name, "consumed", topic="transactions", isolation=isolation)
            assert ours == [(row["offset"], row["key"], row["value"]) for row in rows]
            assert len(ours) > 10


@pytest.mark.parametrize("name", NEW)
def test_headers_are_those_that_kafkas_console_consumer_prints(name, tmp_path):
    with opened(name, tmp_path) as directory:
        log = directory.open_log(TopicPartition("v2-lz4", 0), CONFIG)
        ours = []
        for record, _, _ in served(log):
            headers = ",".join(f"{header.key}:{text(header.value)}" for header in record.headers)
            ours.append((record.offset, record.timestamp_ms, headers or "NO_HEADERS"))
        rows = fixtures.rows(name, "consumed", topic="v2-lz4")
        assert ours == [(row["offset"], row["timestamp"], row["headers"]) for row in rows]


def text(data):
    return "null" if data is None else data.decode()


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_agree_with_the_logs(name, tmp_path):
    with opened(name, tmp_path) as directory:
        marks = read_offsets(directory.path / HIGH_WATERMARKS)
        for topic, partition in partitions(name):
            config = LogConfig(compacts="compacted" in topic or topic.startswith("__"))
            log = directory.open_log(TopicPartition(topic, partition), config)
            assert marks[topic, partition] <= log.log_end_offset
            if name.endswith("clean"):
                assert marks[topic, partition] == log.log_end_offset
            path = log.directory / LEADER_EPOCHS
            if path.exists():
                kept = LeaderEpochs.parse(path, path.read_bytes()).entries()
                # An epoch without a record is forgotten, as Kafka does when it loads a log.
                assert log.epochs.entries() == [e for e in kept if e[1] < log.log_end_offset]


def test_log_of_all_formats_is_read(tmp_path):
    """v0, then v1, then v2: written by Kafka 2.8 while its message.format.version was raised."""
    with opened("2.8.2-killed", tmp_path) as directory:
        log = directory.open_log(TopicPartition("upgraded", 0), CONFIG)
        data = b"".join(
            log.read_bytes(base, 1 << 20, upto_offset=log.log_end_offset)
            for base in log.segment_base_offsets
        )
        magics = [view.magic for view in iter_batches(data, allow_old=True)]
        assert magics == sorted(magics)
        assert set(magics) == {0, 1, 2}
