"""Maintenance of every log directory in turn: the calls to each, and the effect of a failure of one on the rest."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio

from tests.broker.storage.directories import TOPIC_ID, Disks, id_of
from trimaran.broker.process.failed_directories import FailedDirectories
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.names import STRAY_SUFFIX
from trimaran.node.runtime import pacing
from trimaran.wire.errors import ErrorCode, KafkaError

FAILS = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")
UNKNOWN = b"z" * 16


@pytest.fixture
def disks(tmp_path):
    disks = Disks(tmp_path)
    yield disks
    disks.stop(clean=False)


def names_in(disks, name):
    """Returns a directory's entries for `t-0`, by suffix: deleted, put aside, or present."""
    found = (path.name for path in (disks.path / name).iterdir() if path.name.startswith("t-0"))
    return sorted(name if name == "t-0" else name[name.rindex("-") :] for name in found)


class Standin:
    """A log directory that notes its calls in `asked`; `holds` are its replicas."""

    def __init__(self, asked, name, holds=(), *, fails=False):
        self.asked, self.path, self.holds, self.fails = asked, name, holds, fails
        self.directory_id = id_of(name)
        self.health = DirectoryHealth()
        self.offsets = self

    @property
    def offline(self):
        return self.health.offline

    def __contains__(self, key):
        return key in self.holds

    def _note(self, *what):
        self.asked.append((self.path, *what))
        if self.fails:
            raise FAILS

    def close(self, *, broker_epoch, high_watermarks):
        self._note("close", broker_epoch, high_watermarks)

    def save_checkpoints(self, high_watermarks):
        self._note("save", high_watermarks)

    def purge(self, delay_ms):
        self._note("purge", delay_ms, in_thread())

    def collecting(self, high_watermarks):
        yield 1
        return high_watermarks

    def write_checkpoints(self, collected):
        self._note("write", collected, in_thread())
        return True

    def begin_lowering(self, points):
        self.asked.append((self.path, "begin", points))
        return points or None

    def write(self, lowered):
        self._note("lower", lowered, in_thread())
        return lowered == "collected" or len(lowered) != 2

    def collect_lowered(self):
        return "collected"

    def end_lowering(self, points):
        self.asked.append((self.path, "end", points))


def in_thread():
    return not trio.lowlevel.in_trio_task()


MARKS = {("t", 0): 5, ("u", 0): 7, ("unmade", 0): 9}


def three(asked, failing=""):
    """Returns directories `a` with `t-0`, `b` with `u-0`, and `c` without a replica."""
    holds = {"a": [("t", 0)], "b": [("u", 0)], "c": []}
    return [Standin(asked, name, holds[name], fails=name in failing) for name in "abc"]


@pytest.mark.parametrize("delay_ms", [None, 0, 60_000])
async def test_deleted_files_are_purged_in_threads(delay_ms):
    asked = []
    directories = LogDirectories(three(asked))
    directories.all[1].health.fail("gone")
    await directories.purge(delay_ms)
    assert asked == [("a", "purge", delay_ms, True), ("c", "purge", delay_ms, True)]


async def test_failing_removal_is_an_error():
    asked = []
    directories = LogDirectories(three(asked, failing="b"))
    with pytest.raises(KafkaError) as error:
        await directories.purge()
    assert error.value is FAILS
    assert asked == [("a", "purge", None, True), ("b", "purge", None, True)]


async def test_failing_checkpoint_is_an_error():
    asked = []
    directories = LogDirectories(three(asked, failing="b"))
    with pytest.raises(KafkaError) as error:
        await directories.save_checkpoints(MARKS)
    assert error.value is FAILS
    assert asked == [
        ("a", "write", {("t", 0): 5}, True),
        ("b", "write", {("u", 0): 7}, True),
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_single_directory_keeps_watermarks_of_unopened_replicas(count):
    def marks_of(directory):
        held = {key: offset for key, offset in MARKS.items() if key in directory}
        return MARKS if count == 1 else held

    asked = []
    directories = LogDirectories(three(asked)[:count])
    await directories.save_checkpoints(MARKS)
    directories.close(broker_epoch=3, high_watermarks=MARKS)
    assert asked == [
        *[(directory.path, "write", marks_of(directory), True) for directory in directories.all],
        *[(directory.path, "close", 3, marks_of(directory)) for directory in directories.all],
    ]


async def test_loop_yields_while_offsets_are_collected(monkeypatch):
    turns, asked = [], []

    async def turn():
        turns.append(True)

    monkeypatch.setattr(pacing, "yield_to_loop", turn)
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)
    directories = LogDirectories(three(asked)[:1])
    await directories.save_checkpoints(MARKS)
    assert len(turns) == 2, "before the step and before the end"
    assert asked == [("a", "write", MARKS, True)]


async def test_recovery_points_are_lowered_again_after_changes():
    asked = []
    directories = LogDirectories(three(asked))
    directories.all[0].holds = [("t", 0), ("t", 1)]
    await directories.lower_recovery_points({("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    both = {("t", 0): 1, ("t", 1): 2}
    assert asked == [
        ("a", "begin", both),
        ("a", "lower", both, True),
        ("a", "lower", "collected", True),
        ("a", "end", both),
        ("b", "begin", {("u", 0): 3}),
        ("b", "lower", {("u", 0): 3}, True),
        ("b", "end", {("u", 0): 3}),
        ("c", "begin", {}),
    ]


async def test_failure_to_lower_delays_no_other_directory():
    asked = []
    directories = LogDirectories(three(asked, failing="a"))
    await directories.lower_recovery_points({("t", 0): 1, ("u", 0): 3})
    assert [(name, what) for name, what, *_ in asked] == [
        ("a", "begin"),
        ("a", "lower"),
        ("b", "begin"),
        ("b", "lower"),
        ("b", "end"),
        ("c", "begin"),
    ]


@pytest.mark.parametrize("epoch", [7, None])
@pytest.mark.parametrize("but", [None, "b", "m"])
def test_all_directories_close_despite_one_failure(epoch, but, caplog):
    asked = []
    metadata = Standin(asked, "m")
    directories = LogDirectories(three(asked, failing="a"), metadata=metadata)
    shared = next(
        (directory for directory in [*directories.all, metadata] if directory.path == but), None
    )
    directories.close(broker_epoch=epoch, high_watermarks=MARKS, but=shared)
    held = {"a": {("t", 0): 5}, "b": {("u", 0): 7}, "c": {}, "m": {}}
    expected = [(name, "close", epoch, marks) for name, marks in held.items() if name != but]
    if shared is not None and epoch is not None:
        expected.insert("abcm".index(but), (but, "save", held[but]))
    assert asked == expected
    assert len(caplog.records) == 1
    assert "the disk is gone" in caplog.text


def test_metadata_log_is_first_directorys_by_default():
    first, *_ = listed = three([])
    apart = Standin([], "m")
    directories = LogDirectories(listed)
    assert (directories.metadata, directories.failed_at_start) == (first, {})
    failed = {"/d": "gone"}
    directories = LogDirectories(listed, metadata=apart, failed_at_start=failed)
    assert (directories.metadata, directories.failed_at_start) == (apart, failed)
    assert directories.all == listed


async def test_failing_metadata_directory_is_reported():
    apart = Standin([], "m")
    directories = LogDirectories(three([]), metadata=apart)
    apart.health.fail("gone")
    with trio.fail_after(60):
        assert await FailedDirectories(directories).wait() == [apart]
    assert directories.offline == "m: gone"


# -- strays


async def test_loop_yields_while_wanted_names_are_checked(disks, monkeypatch):
    directories = disks.start("a")
    turns = []

    async def turn():
        turns.append(True)

    monkeypatch.setattr(pacing, "yield_to_loop", turn)
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)
    names = {("t", index) for index in range(5)}
    monkeypatch.setattr(LogDirectory, "partitions", lambda _directory: names)
    await directories.drop_strays(names)
    assert len(turns) == 5 + 1


async def test_strays_are_moved_aside_in_turns(disks, monkeypatch):
    directories = disks.start("a")
    [a] = directories.all
    for index in range(50):
        (a.path / f"t-{index}").mkdir()
        a._names.add(("t", index))
    monkeypatch.setattr(LogDirectory, "topic_id", lambda _directory, *_key: TOPIC_ID)
    put_aside, turns = [], []
    monkeypatch.setattr(
        LogDirectory,
        "put_aside",
        lambda directory, *key: (put_aside.append(key), directory._names.discard(key)),
    )

    async def turn():
        turns.append(len(put_aside))
        if len(put_aside) == 4:
            a._names.clear()

    monkeypatch.setattr(pacing, "yield_to_loop", turn)
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)
    await directories.drop_strays(())
    assert (turns[:5], len(put_aside)) == ([0, 1, 2, 3, 4], 4)


async def test_unmovable_stray_stays_alone(disks, caplog):
    for name in "ab":
        disks.write(name, 1)
    (disks.path / "a" / "t-0" / "partition.metadata").write_bytes(b"")
    directories = disks.start()
    await directories.drop_strays(())
    assert (names_in(disks, "a"), names_in(disks, "b")) == (["t-0"], [STRAY_SUFFIX])
    assert "t-0, which is not assigned, stays" in caplog.text


def test_epoch_after_unclean_end_is_unknown():
    def epochs(*of_each):
        directories = LogDirectories(
            [
                SimpleNamespace(
                    directory_id=b"", previous_broker_epoch=item, health=DirectoryHealth()
                )
                for item in of_each
            ]
        )
        return directories.previous_broker_epoch

    assert [epochs(4), epochs(4, 4), epochs(None), epochs(4, None)] == [4, 4, -1, -1]
