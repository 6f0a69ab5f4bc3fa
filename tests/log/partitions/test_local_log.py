"""Small rules of a partition's log, each at its bound: flushing, rolling, reading and truncating."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.checks import check_each
from tests.log.helpers import append, batch_bytes, fill, open_log, view_of
from trimaran.log.batches.batch import iter_batches
from trimaran.log.config import LogConfig
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.disk.partition_metadata import (
    FILE_NAME,
    PartitionMetadataDamaged,
    format_partition_metadata,
    read_partition_metadata,
)
from trimaran.log.partitions.fetched_batches import OFFSET_MAX, sound_batches
from trimaran.log.segments.segments import OPEN_SEGMENTS_MAX, Segments
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError

CONFIG = LogConfig()


def test_flush_is_due_after_enough_undurable_records(tmp_path):
    log = open_log(tmp_path / "t-0", replace(CONFIG, flush_messages=3))
    due = []
    for _ in range(4):
        append(log)
        due.append(log.must_flush)
    assert due == [False, False, True, True]
    log.flush()
    assert not log.must_flush


def test_flush_is_due_after_a_segment_roll(tmp_path):
    log = open_log(tmp_path / "t-0", CONFIG)
    append(log, 2)
    log.flush()
    log.roll(0)
    assert not log.must_flush  # the sealed segment is durable
    append(log)
    assert not log.must_flush
    log.roll(0)
    assert log.must_flush


FAR = (1 << 31) - 1


@pytest.mark.parametrize(
    ("last_offset", "bases"),
    [(FAR, (0,)), (FAR + 1, (0, 2)), (FAR + 2, (0, 2)), (FAR + 3, (0, FAR + 3))],
)
def test_segment_ends_before_its_offsets_overflow(tmp_path, last_offset, bases):
    log = open_log(tmp_path / "t-0", CONFIG)
    for base_offset in (0, 1, last_offset):
        log.append_as_follower(memoryview(batch_bytes(1, base_offset=base_offset, leader_epoch=0)))
    assert (log.segment_base_offsets, log.log_end_offset) == (bases, last_offset + 1)


def test_stable_offset_needs_producers_only_if_asked(tmp_path):
    append(open_log(tmp_path / "t-0"), 3, producer_id=7, base_sequence=0, is_transactional=True)
    log = open_log(tmp_path / "t-0")
    assert (log.last_stable_offset(3, must_know=False), log.knows_producers) == (3, False)
    assert (log.last_stable_offset(3), log.knows_producers) == (0, True)
    assert log.last_stable_offset(3, must_know=False) == 0


def test_appends_continue_a_begun_snapshot(tmp_path, monkeypatch):
    monkeypatch.setattr("trimaran.log.producers.manager.AT_ONCE_MAX", 1)
    monkeypatch.setattr("trimaran.log.producers.manager.PIECE", 1)
    log = open_log(tmp_path / "t-0")
    for producer_id in range(2):
        append(log, 1, producer_id=producer_id, base_sequence=0)
    log.roll(0)
    for is_there in (False, True):
        append(log)
        assert (log.directory / f"{2:020}.snapshot").exists() is is_there


@pytest.mark.parametrize("is_replaced", [False, True])
def test_removed_segments_are_not_replaced(tmp_path, monkeypatch, is_replaced):
    log, released, asked = open_log(tmp_path / "t-0"), [], []
    for offset in (0, 3, 5):
        (log.directory / f"{offset:020}.snapshot").write_bytes(b"")
    old = [SimpleNamespace(base_offset=0), SimpleNamespace(base_offset=3)]
    cleaned = SimpleNamespace(size=77, release=lambda: released.append(1))
    monkeypatch.setattr(Segments, "replace", lambda _, *of: asked.append(of) or is_replaced)
    before = log._flushing._names_version
    assert log.replace_segments(old, cleaned) is is_replaced
    assert (released, asked) == ([1], [(old, 77)])
    left = sorted(int(path.stem) for path in log.directory.glob("*.snapshot"))
    assert left == ([0, 5] if is_replaced else [0, 3, 5])
    assert (log._flushing._names_version > before) is is_replaced


def test_all_segments_but_the_active_one_are_sealed(tmp_path):
    log = open_log(tmp_path / "t-0", CONFIG)
    for count in range(4):
        assert len(log.sealed_segments) == count
        assert log.active_segment not in log.sealed_segments
        append(log)
        log.roll(0)


def test_batches_up_to_segment_size_are_accepted(tmp_path):
    size = len(batch_bytes(3))
    log = open_log(tmp_path / "a-0", replace(CONFIG, segment_bytes=size))
    append(log, 3)
    log = open_log(tmp_path / "b-0", replace(CONFIG, segment_bytes=size - 1))
    with pytest.raises(KafkaError) as refused:
        append(log, 3)
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_segment_without_timestamps_is_aged_by_clock(tmp_path):
    """The log's own age does not count, because it may have been opened or rolled long before the first append."""
    log = open_log(tmp_path / "t-0", replace(CONFIG, segment_ms=100))
    for now_ms, segments in ((10_000, 1), (10_100, 1), (10_101, 2), (10_201, 2), (10_202, 3)):
        append(log, timestamp_ms=-1, now_ms=now_ms)
        assert len(log.segment_base_offsets) == segments, now_ms


READS = [
    # offset, upper bound, the returned offsets
    (0, 6, (0, 6)),
    (0, 3, (0, 3)),
    (1, 6, (0, 6)),
    (3, 4, None),
    (3, 6, (3, 6)),
    (6, 6, None),
    (6, 9, None),
    (4, 4, None),
    (5, 4, None),
    (0, 0, None),
    (0, 100, (0, 6)),
]


def test_read_returns_whole_batches_below_bound(tmp_path):
    log = fill(open_log(tmp_path / "t-0", CONFIG), 2, count=3)

    def is_so(row):
        offset, upto, expected = row
        piece = log.read(offset, 10_000, upto_offset=upto, min_one=True)
        views = [] if piece is None else list(iter_batches(memoryview(piece.read())))
        found = (views[0].base_offset, views[-1].next_offset) if views else None
        assert found == expected, row

    check_each(READS, is_so)
    for offset in (-1, 7):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 10, upto_offset=6, min_one=True)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_read_returns_as_many_batches_as_fit(tmp_path):
    log = fill(open_log(tmp_path / "t-0", CONFIG), 3, count=1)
    size = len(batch_bytes(1))
    for max_bytes, min_one, batches in (
        (size - 1, False, 0),
        (size - 1, True, 1),
        (0, True, 1),
        (size, False, 1),
        (2 * size - 1, False, 1),
        (2 * size, False, 2),
        (3 * size, False, 3),
        (9 * size, False, 3),
    ):
        piece = log.read(0, max_bytes, upto_offset=3, min_one=min_one)
        assert (0 if piece is None else piece.size) == batches * size, max_bytes


def test_written_old_segments_count_as_open(tmp_path):
    log = open_log(tmp_path / "t-0", CONFIG)
    for _ in range(OPEN_SEGMENTS_MAX + 4):
        append(log)
        log.roll(0)
    kept = [segment for segment in log.sealed_segments if segment.may_be_written_to]
    assert kept == list(log.sealed_segments)[-OPEN_SEGMENTS_MAX:]


def test_epochs_unchanged_by_cut_are_not_rewritten():
    epochs = LeaderEpochs([(1, 0), (2, 10), (3, 20)])
    for unchanged in (21, 100):
        epochs.truncate_from_end(unchanged)
    epochs.truncate_from_start(0)
    assert (epochs.version, len(epochs.entries())) == (0, 3)
    epochs.truncate_from_end(20)
    assert (epochs.version, epochs.entries()) == (1, [(1, 0), (2, 10)])
    epochs.truncate_from_start(10)
    assert (epochs.version, epochs.entries()) == (2, [(2, 10)])
    epochs.truncate_from_start(15)
    assert (epochs.version, epochs.entries()) == (3, [(2, 15)])
    epochs.clear()
    assert (epochs.version, epochs.entries()) == (4, [])


def test_emptied_log_forgets_its_epochs_and_producers(tmp_path):
    log = open_log(tmp_path / "t-0", CONFIG)
    append(log, 2, epoch=3, producer_id=5, producer_epoch=0, base_sequence=0)
    told = []
    log.before_truncate = told.append
    log.truncate_fully_and_start_at(50)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (50, 50, 0)
    assert log.epochs.entries() == []
    assert list(log.producers.entries()) == []
    append(log, epoch=4)
    assert log.epochs.entries() == [(4, 50)]


def test_producer_with_id_0_is_tracked(tmp_path):
    log = open_log(tmp_path / "t-0", CONFIG)
    append(log, 1)
    append(log, 1, producer_id=0, producer_epoch=0, base_sequence=0)
    assert [producer for producer, _ in log.producers.entries()] == [0]


@pytest.mark.parametrize("offset", [0, 2, 3])
def test_deletion_up_to_log_start_changes_nothing(tmp_path, offset):
    log = fill(open_log(tmp_path / "t-0", CONFIG), 2, count=3)
    log.delete_records_before(3)
    version = log.epochs.version
    log.delete_records_before(offset)
    assert (log.log_start_offset, log.epochs.version) == (3, version)


def fetched(*batches):
    """Returns (base offset, records, epoch) of each."""
    data = b"".join(
        bytes(batch_bytes(count, base_offset=base, leader_epoch=epoch))
        for base, count, epoch in batches
    )
    return memoryview(bytearray(data))


SOUND = [
    # batches, the end and epoch of the log, the leader's epoch, whether it may begin lower; accepted batches, the error
    ([(5, 2, 1), (7, 1, 1)], 5, 1, 1, False, [5, 7], None),
    ([(5, 2, 1), (7, 1, 2)], 5, 1, 2, False, [5, 7], None),
    ([(9, 1, 1)], 5, 1, 1, False, [9], None),  # compaction left a gap
    ([(5, 2, 1), (6, 1, 1)], 5, 1, 1, False, [], KafkaError),
    ([(4, 2, 1)], 5, 1, 1, False, [], KafkaError),
    ([(4, 2, 1)], 5, 1, 1, True, [4], None),
    ([(4, 1, 1)], 5, 1, 1, True, [], KafkaError),  # entirely below the end
    ([(4, 2, 1), (5, 2, 1)], 5, 1, 1, True, [], KafkaError),
    ([(5, 1, 0)], 5, 1, 1, False, [], KafkaError),
    ([(5, 1, 2), (6, 1, 1)], 5, 1, 2, False, [], KafkaError),
    ([(5, 1, 2)], 5, 1, 1, False, [], RemoteProtocolError),
    ([(5, 1, 1), (6, 1, 2)], 5, 1, 1, False, [5], RemoteProtocolError),
    ([(5, 1, -1)], 5, 1, 1, False, [5], None),
    ([(OFFSET_MAX - 1, 1, 1)], 5, 1, 1, False, [OFFSET_MAX - 1], None),
    ([], 5, 1, 1, False, [], None),
]


def test_batches_from_leader_continue_log_or_are_refused():
    def is_so(row):
        batches, end, epoch, leader_epoch, lower, taken, flaw = row
        views, found = sound_batches(
            fetched(*batches), end, epoch=epoch, leader_epoch=leader_epoch, may_begin_lower=lower
        )
        assert [view.base_offset for view in views] == taken, row
        assert (None if found is None else type(found)) is flaw, row

    check_each(SOUND, is_so)


def test_batches_before_a_damaged_one_are_sound():
    data = fetched((5, 1, 1), (6, 1, 1), (7, 1, 1))
    first = view_of(fetched((5, 1, 1))).size
    data[2 * first - 1] ^= 1
    views, flaw = sound_batches(data, 5, epoch=1, leader_epoch=1, may_begin_lower=False)
    assert [view.base_offset for view in views] == [5]
    assert flaw.code is ErrorCode.CORRUPT_MESSAGE
    cut = data[: first + 10]  # an incomplete batch at the end is not reported as damage
    views, flaw = sound_batches(cut, 5, epoch=1, leader_epoch=1, may_begin_lower=False)
    assert ([view.base_offset for view in views], flaw) == ([5], None)


TOPIC_ID = bytes(range(16))
WHOLE = format_partition_metadata(TOPIC_ID)
METADATA = [
    (WHOLE, TOPIC_ID),
    (WHOLE.rpartition(b"crc32c")[0], TOPIC_ID),  # as Kafka writes it
    (WHOLE.rpartition(b"crc32c")[0].rstrip(b"\n"), TOPIC_ID),
    # what is damaged: whether a power cut may have caused it
    (b"", True),
    (WHOLE[:-1], True),
    (WHOLE[:20], True),
    (bytes(len(WHOLE)), True),
    (bytes(len(WHOLE) + 5), True),
    (WHOLE.replace(b"version", b"Version"), False),
    (WHOLE[:-2] + b"\0\n", False),
    (WHOLE + b"x", False),
    (format_partition_metadata(bytes(16)), False),
]


def test_topic_id_is_read_or_damage_reported(tmp_path):
    def is_so(row):
        text, expected = row
        (tmp_path / FILE_NAME).write_bytes(text)
        if isinstance(expected, bytes):
            assert read_partition_metadata(tmp_path, REAL_FILES) == expected
            return
        with pytest.raises(PartitionMetadataDamaged) as damaged:
            read_partition_metadata(tmp_path, REAL_FILES)
        assert damaged.value.may_be_torn is expected, row

    check_each(METADATA, is_so)
    (tmp_path / FILE_NAME).unlink()
    assert read_partition_metadata(tmp_path, REAL_FILES) is None
