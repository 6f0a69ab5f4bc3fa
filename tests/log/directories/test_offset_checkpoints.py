"""The offsets of a log directory: the exact content of each file after each change, and the files that are written."""

from __future__ import annotations

import pytest

from tests.log.helpers import batch_bytes, view_of
from tests.log.recorded_files import RecordedFiles
from trimaran.log.batches.records import Record
from trimaran.log.directories.offset_checkpoints import (
    OFFSET_MAX,
    OffsetCheckpoints,
    noted_start,
)
from trimaran.log.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    WRITTEN_LOGS,
    format_checkpoint,
    format_offsets,
    read_offsets,
)
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.old_formats.message_sets import build_message_set
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
SAVED = {
    RECOVERY_POINTS: {T0: 40, T1: 41, U0: 42},
    LOG_START_OFFSETS: {T0: 10, T1: 11},
    HIGH_WATERMARKS: {T0: 30, T1: 31, U0: 32},
    CLEANER_OFFSETS: {T0: 20, T1: 21},
    WRITTEN_LOGS: {T0: 39},
}
LIVE = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)


@pytest.fixture
def path(tmp_path):
    for name, offsets in SAVED.items():
        (tmp_path / name).write_bytes(format_offsets(offsets))
    return tmp_path


@pytest.fixture
def files():
    return RecordedFiles()


@pytest.fixture
def offsets(path, files):
    return OffsetCheckpoints(path, files, DirectoryHealth(), {T0, T1, U0})


def contents(path):
    return {name: read_offsets(path / name) for name in SAVED}


def written(files):
    """Returns the files that were replaced since the last call, in order."""
    lines = [line for line in files.taken() if line.startswith(("make ", "open "))]
    return [line.split()[1].removesuffix(".tmp") for line in lines if ".tmp" in line]


def live(offsets):
    return {
        RECOVERY_POINTS: offsets.recovery_points,
        LOG_START_OFFSETS: offsets.log_starts,
        HIGH_WATERMARKS: offsets.high_watermarks,
        CLEANER_OFFSETS: offsets.cleaner_offsets,
        WRITTEN_LOGS: offsets.written_logs,
    }


def without(key, names=LIVE):
    return {
        name: {k: v for k, v in known.items() if k != key or name not in names}
        for name, known in SAVED.items()
    }


def test_offsets_of_each_file_are_read(offsets, files):
    assert live(offsets) == SAVED
    assert offsets.damaged == set()
    assert written(files) == []


@pytest.mark.parametrize(
    ("damaged", "expected"),
    [
        (set(), 20),
        ({RECOVERY_POINTS}, OFFSET_MAX),
        ({CLEANER_OFFSETS}, OFFSET_MAX),
        ({RECOVERY_POINTS, CLEANER_OFFSETS}, OFFSET_MAX),
        ({LOG_START_OFFSETS, HIGH_WATERMARKS, WRITTEN_LOGS}, 20),
    ],
)
def test_damage_makes_gaps_count_as_compacted(path, files, damaged, expected):
    for name in damaged:
        (path / name).write_bytes(b"0\n1\n")
    found = OffsetCheckpoints(path, files, DirectoryHealth(), {T0})
    assert found.damaged == damaged
    assert found.cleaned_to(T0) == expected
    assert found.cleaned_to(U0) == (expected if expected == OFFSET_MAX else 0)
    assert OFFSET_MAX == 2**63 - 1


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("has_partitions", [False, True])
def test_file_may_be_empty_only_without_partitions(path, files, name, has_partitions):
    """The file of the cleaner is an exception, since Kafka fills it later."""
    (path / name).write_bytes(b"")
    partitions = {T0} if has_partitions else ()
    found = OffsetCheckpoints(path, files, DirectoryHealth(), partitions)
    is_damaged = has_partitions and name != CLEANER_OFFSETS
    assert found.damaged == ({name} if is_damaged else set())


# -- deleted partitions


def test_deleted_partition_leaves_files_at_next_checkpoint(offsets, path, files):
    offsets.forget(T0)
    assert live(offsets) == without(T0)
    assert contents(path) == SAVED
    collected = offsets.collect({}, [T1])
    assert collected.forgotten == {T0}
    assert offsets.write(collected)
    assert contents(path) == {**without(T0), WRITTEN_LOGS: {T1: 41}}
    again = offsets.collect({})
    assert (again.forgotten, CLEANER_OFFSETS in again.files) == (frozenset(), False)


def test_checkpoint_without_watermarks_forgets_nothing(offsets):
    """The file of watermarks may still have the partition."""
    offsets.forget(T0)
    assert offsets.write(offsets.collect())
    assert offsets.collect().forgotten == {T0}


def test_partition_deleted_during_checkpoint_stays_forgotten(offsets):
    offsets.forget(T0)
    collected = offsets.collect({})
    offsets.forget(T1)
    assert offsets.write(collected)
    assert offsets.collect().forgotten == {T1}


def test_partition_with_zero_offsets_needs_no_forgetting(path, files):
    for name in LIVE:
        (path / name).write_bytes(format_offsets({T0: 0}))
    found = OffsetCheckpoints(path, files, DirectoryHealth(), {T0})
    found.forget(T0)
    found.begin(T0)
    assert written(files) == []


@pytest.mark.parametrize("name", LIVE)
def test_namesake_begins_without_old_offsets(path, files, name):
    """This holds for each of the files; entries of other names cost no write."""
    for other in LIVE:
        (path / other).write_bytes(format_offsets({T1: 3, **({T0: 1} if other == name else {})}))
    found = OffsetCheckpoints(path, files, DirectoryHealth(), {T1})
    found.begin(U0)
    assert written(files) == []
    found.begin(T0)
    assert written(files) == list(LIVE)
    assert contents(path) == {**{name: {T1: 3} for name in LIVE}, WRITTEN_LOGS: {T0: 39}}
    found.begin(T0)
    assert (written(files), found.collect().forgotten) == ([], frozenset())


def test_checkpoint_older_than_namesake_is_not_written(offsets, path, files):
    collected = offsets.collect({T0: 50}, [T0])
    offsets.begin(T0)
    before = contents(path)
    written(files)
    assert not offsets.write(collected)
    assert contents(path) == {**before, WRITTEN_LOGS: {T0: 40}}
    assert written(files) == [WRITTEN_LOGS]


# -- watermarks of other partitions


def test_watermarks_without_a_directory_are_dropped(path, files):
    found = OffsetCheckpoints(path, files, DirectoryHealth(), {T0})
    found.miss_nothing()
    assert live(found) == {**SAVED, HIGH_WATERMARKS: {T0: 30}}


def test_expected_partition_loses_watermark_of_namesake(path, files):
    found = OffsetCheckpoints(path, files, DirectoryHealth(), {T0})
    for key in (T0, T1, TopicPartition("new", 0)):
        found.expect(key)
    assert live(found) == {**SAVED, HIGH_WATERMARKS: {T0: 30, U0: 32}}


# -- checkpoints


def test_checkpoint_has_offsets_from_its_collection(offsets, path, files):
    offsets.recovery_points[T0] = 50
    offsets.log_starts |= {T0: 12, U0: 0}
    collected = offsets.collect({T0: 49}, [T0, U0, TopicPartition("new", 0)])
    offsets.recovery_points[T0] = 60
    offsets.log_starts[T0] = 13
    offsets.high_watermarks[T0] = 59
    assert offsets.write(collected)
    assert written(files) == [WRITTEN_LOGS, RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS]
    assert contents(path) == {
        RECOVERY_POINTS: {T0: 50, T1: 41, U0: 42},
        LOG_START_OFFSETS: {T0: 12, T1: 11},
        HIGH_WATERMARKS: {T0: 49, T1: 31, U0: 32},
        CLEANER_OFFSETS: SAVED[CLEANER_OFFSETS],
        WRITTEN_LOGS: {T0: 50, U0: 42, TopicPartition("new", 0): 0},
    }


def test_only_changed_files_are_written(offsets, files):
    assert offsets.write(offsets.collect({}))
    written(files)
    offsets.log_starts[T0] = 12
    assert offsets.write(offsets.collect({}))
    assert written(files) == [LOG_START_OFFSETS]
    assert offsets.write(offsets.collect({}))
    assert written(files) == []


def test_cleaned_offsets_are_written_alone(offsets, path, files):
    assert offsets.write(offsets.collect_cleaned({T0: 25, U0: 5}))
    assert written(files) == [CLEANER_OFFSETS]
    assert contents(path) == {**SAVED, CLEANER_OFFSETS: {T0: 25, T1: 21, U0: 5}}


def test_failed_write_takes_the_directory_offline(path):
    class Failing(RecordedFiles):
        def fsync_directory(self, path):
            raise OSError(5, "the disk is gone")

    health = DirectoryHealth()
    found = OffsetCheckpoints(path, Failing(), health, {T0})
    with pytest.raises(KafkaError) as caught:
        found.write(found.collect_cleaned({T0: 25}))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert health.offline == f"writing {CLEANER_OFFSETS}: [Errno 5] the disk is gone"


@pytest.mark.parametrize(("offset", "expected"), [(0, []), (1, [LOG_START_OFFSETS])])
def test_start_of_moved_replica_is_noted_above_zero(offsets, path, files, offset, expected):
    collected = offsets.collect()
    offsets.note_log_start(U0, offset)
    assert offsets.log_starts == {**SAVED[LOG_START_OFFSETS], U0: offset}
    assert written(files) == expected
    assert contents(path)[LOG_START_OFFSETS].get(U0, 0) == offset
    assert offsets.write(collected) is (offset == 0), "an older checkpoint would drop it"


# -- truncation


def lowered(to):
    """Returns the files with an offset of the first partition above `to`; the offset is lowered to it."""
    order = (LOG_START_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS, CLEANER_OFFSETS)
    return {name for name in order if SAVED[name][T0] > to}


@pytest.mark.parametrize("to", [0, 9, 10, 11, 19, 20, 21, 29, 30, 31, 39, 40, 41])
def test_truncation_lowers_offsets_above_it(offsets, path, files, to):
    collected = offsets.collect()
    offsets.lower_recovery_point(T0, to)
    expected = {
        name: {
            key: min(offset, to) if key == T0 and name in LIVE else offset
            for key, offset in known.items()
        }
        for name, known in SAVED.items()
    }
    assert live(offsets) == expected
    assert sorted(written(files)) == sorted(lowered(to))
    if to == 0:
        del expected[LOG_START_OFFSETS][T0]
    assert contents(path) == expected
    assert offsets.write(collected) is (not lowered(to))


@pytest.mark.parametrize("name", ["lower_recovery_point", "begin_lowering"])
def test_truncation_and_move_make_checkpoints_stale(offsets, name):
    collected = offsets.collect()
    if name == "begin_lowering":
        offsets.begin_lowering({T0: 35})
    else:
        offsets.lower_recovery_point(T0, 35)
    offsets.note_log_start(U0, 4)
    assert not offsets.write(collected)


def test_unknown_log_lowers_no_checkpoint(offsets, files):
    offsets.lower_recovery_point(TopicPartition("v", 0), 0)
    assert (live(offsets), written(files)) == (SAVED, [])


def test_several_logs_are_lowered_in_one_write(offsets, path, files):
    old = offsets.collect_cleaned({})
    collected = offsets.begin_lowering({T0: 35, T1: 25, U0: 42})
    assert set(collected.files) == {RECOVERY_POINTS, HIGH_WATERMARKS}
    assert not offsets.write(old)
    assert offsets.write(collected)
    assert sorted(written(files)) == sorted([RECOVERY_POINTS, HIGH_WATERMARKS])
    assert contents(path) == {
        **SAVED,
        RECOVERY_POINTS: {T0: 35, T1: 25, U0: 42},
        HIGH_WATERMARKS: {T0: 30, T1: 25, U0: 32},
    }
    offsets.end_lowering([T0, T1, U0])
    offsets.lower_recovery_point(T0, 35)
    assert written(files) == [], "they are durable"
    assert offsets.begin_lowering({T0: 35}) is None
    assert list(offsets.begin_lowering({T0: 0}).files) == sorted(LIVE)


def test_unfinished_lowering_is_written_with_the_next(offsets, path, files):
    offsets.begin_lowering({T0: 35})
    offsets.lower_recovery_point(T0, 35)
    assert written(files) == [RECOVERY_POINTS]
    assert contents(path)[RECOVERY_POINTS][T0] == 35
    offsets.lower_recovery_point(T0, 35)
    assert written(files) == []


def test_checkpoint_outrun_by_truncation_is_lowered_again(offsets, path):
    first = offsets.begin_lowering({T0: 35})
    offsets.lower_recovery_point(T1, 25)
    assert not offsets.write(first)
    again = offsets.collect_lowered()
    assert set(again.files) == {RECOVERY_POINTS}
    assert offsets.write(again)
    assert contents(path)[RECOVERY_POINTS] == {T0: 35, T1: 25, U0: 42}
    both = offsets.begin_lowering({T0: 25})
    assert set(both.files) == {RECOVERY_POINTS, HIGH_WATERMARKS}


# -- log starts that the checkpoint lacks


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        (None, 0),
        (b"damaged", 0),
        (format_checkpoint([]), 0),
        (format_checkpoint(["3 0"]), 0),
        (format_checkpoint(["3 1"]), 1),
        (format_checkpoint(["3 7", "4 9"]), 7),
    ],
)
def test_damaged_starts_are_those_of_epochs(tmp_path, files, epochs, expected):
    (tmp_path / LOG_START_OFFSETS).write_bytes(b"damaged")
    for key in (T0, T1):
        (tmp_path / str(key)).mkdir()
    if epochs is not None:
        (tmp_path / "t-0" / LEADER_EPOCHS).write_bytes(epochs)
    found = OffsetCheckpoints(tmp_path, files, DirectoryHealth(), {T0, T1, U0})
    assert found.log_starts == ({T0: expected} if expected else {})
    assert read_offsets(tmp_path / LOG_START_OFFSETS) == found.log_starts


@pytest.mark.parametrize(
    ("is_old", "epoch", "expected"), [(False, 3, 7), (False, 0, 7), (True, 0, 0)]
)
def test_records_without_epoch_may_precede_the_epochs(tmp_path, files, is_old, epoch, expected):
    """The records have an old format, and were written by an old Kafka."""
    records = [Record(7, 1, None, b"v", ())]
    stored = build_message_set(records, magic=1) if is_old else batch_bytes(1)
    if not is_old:
        view_of(stored).stamp(7, epoch)
    (tmp_path / f"{7:020}.log").write_bytes(stored)
    (tmp_path / LEADER_EPOCHS).write_bytes(format_checkpoint([f"{epoch} 7"]))
    assert noted_start(tmp_path, files) == expected
    assert "open 7.log to read" in files.taken()
