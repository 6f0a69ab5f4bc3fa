"""What is done for every log directory in turn: which one is asked for what, and what becomes of the others when one
fails.
"""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest
import trio

from broker.storage import directories as directories_module
from broker.storage.directories import LogDirectories
from broker.storage.new_replicas import Standing
from log.config import LogConfig
from log.directories.directory import LogDirectory
from log.partitions.names import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX
from node.runtime import turns as turns_module
from quorum.metadata.image import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from tests.broker.storage.directories import OTHER_ID, T0, TOPIC_ID, Disks, id_of
from tests.checks import check_each
from tests.log.faulty_files import FaultyFiles
from wire.errors import ErrorCode, KafkaError

FAILS = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")
UNKNOWN = b"z" * 16


@pytest.fixture
def disks(tmp_path):
    disks = Disks(tmp_path)
    yield disks
    disks.stop(clean=False)


def told_of(directories):
    """How often whoever waits for failed disks was told to look."""
    told = []
    directories.storage_failed = lambda: told.append("look")
    return told


class Standin:
    """A log directory that notes what it is asked for, in `asked`; `holds` are its replicas."""

    def __init__(self, asked, name, holds=(), *, fails=False):
        self.asked, self.path, self.holds, self.fails = asked, name, holds, fails
        self.directory_id = id_of(name)
        self.offline = None
        self.offsets = self
        self.logs = 1

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
        for _ in range(self.logs):
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
    """Directories `a` with `t-0`, `b` with `u-0`, and `c` without a replica."""
    holds = {"a": [("t", 0)], "b": [("u", 0)], "c": []}
    return [Standin(asked, name, holds[name], fails=name in failing) for name in "abc"]


@pytest.mark.parametrize("delay_ms", [None, 0, 60_000])
async def test_deleted_files_are_removed_in_a_thread_in_each_directory_that_is_online(delay_ms):
    asked = []
    directories = LogDirectories(three(asked))
    directories.all[1].offline = "gone"
    await directories.purge(delay_ms)
    assert asked == [("a", "purge", delay_ms, True), ("c", "purge", delay_ms, True)]


async def test_a_disk_that_removes_nothing_is_an_error_and_is_looked_for():
    asked = []
    directories = LogDirectories(three(asked, failing="b"))
    told = told_of(directories)
    with pytest.raises(KafkaError) as error:
        await directories.purge()
    assert (error.value, told) == (FAILS, ["look"])
    assert asked == [("a", "purge", None, True), ("b", "purge", None, True)]


async def test_a_disk_that_takes_no_checkpoint_is_an_error_and_is_looked_for():
    asked = []
    directories = LogDirectories(three(asked, failing="b"))
    told = told_of(directories)
    with pytest.raises(KafkaError) as error:
        await directories.save_checkpoints(MARKS)
    assert (error.value, told) == (FAILS, ["look"])
    assert asked == [
        ("a", "write", {("t", 0): 5}, True),
        ("b", "write", {("u", 0): 7}, True),
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_the_only_directory_has_the_watermarks_of_replicas_without_a_log_too(count):
    def marks_of(directory):
        held = {key: offset for key, offset in MARKS.items() if key in directory}
        return MARKS if count == 1 else held

    asked = []
    directories = LogDirectories(three(asked)[:count])
    await directories.save_checkpoints(MARKS)
    directories.close(broker_epoch=3, high_watermarks=MARKS)
    assert asked == [
        *[(one.path, "write", marks_of(one), True) for one in directories.all],
        *[(one.path, "close", 3, marks_of(one)) for one in directories.all],
    ]


@pytest.mark.parametrize(("logs", "expected"), [(4_999, 0), (5_000, 1), (10_000, 2)])
async def test_the_offsets_of_five_thousand_logs_are_noted_in_a_turn(monkeypatch, logs, expected):
    turns, asked = [], []

    async def turn():
        turns.append(True)

    monkeypatch.setattr(turns_module, "yield_to_loop", turn)
    directories = LogDirectories(three(asked)[:1])
    directories.all[0].logs = logs
    await directories.save_checkpoints(MARKS)
    assert len(turns) == expected
    assert asked == [("a", "write", MARKS, True)]


async def test_recovery_points_are_lowered_where_their_replicas_are_and_again_where_one_came_between():
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


async def test_a_disk_that_lowers_no_recovery_point_is_looked_for_and_keeps_no_other_back():
    asked = []
    directories = LogDirectories(three(asked, failing="a"))
    told = told_of(directories)
    await directories.lower_recovery_points({("t", 0): 1, ("u", 0): 3})
    assert told == ["look"]
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
def test_every_directory_is_closed_though_one_fails_and_a_shared_one_stays_open(epoch, but, caplog):
    asked = []
    metadata = Standin(asked, "m")
    directories = LogDirectories(three(asked, failing="a"), metadata=metadata)
    shared = next((one for one in [*directories.all, metadata] if one.path == but), None)
    directories.close(broker_epoch=epoch, high_watermarks=MARKS, but=shared)
    held = {"a": {("t", 0): 5}, "b": {("u", 0): 7}, "c": {}, "m": {}}
    expected = [(name, "close", epoch, marks) for name, marks in held.items() if name != but]
    if shared is not None and epoch is not None:
        expected.insert("abcm".index(but), (but, "save", held[but]))
    assert asked == expected
    assert len(caplog.records) == 1
    assert "the disk is gone" in caplog.text


def test_the_metadata_log_is_in_the_first_directory_unless_it_has_one_of_its_own():
    first, *_ = listed = three([])
    apart = Standin([], "m")
    directories = LogDirectories(listed)
    assert (directories.metadata, directories.failed_at_start) == (first, {})
    failed = {"/d": "gone"}
    directories = LogDirectories(listed, metadata=apart, failed_at_start=failed)
    assert (directories.metadata, directories.failed_at_start) == (apart, failed)
    assert directories.all == listed


async def test_a_metadata_directory_of_its_own_is_told_of_when_it_fails():
    apart = Standin([], "m")
    directories = LogDirectories(three([]), metadata=apart)
    apart.offline = "gone"
    with trio.fail_after(1):
        assert await directories.wait_failed() == [apart]
    assert directories.offline == "m: gone"


# -- the standing of replicas that are not new


def refusal(directories, assigned=UNASSIGNED_DIRECTORY, standing=Standing.HELD, key=T0):
    with pytest.raises(KafkaError) as error:
        directories.open_log(*key, TOPIC_ID, LogConfig(), assigned, standing)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return error.value.message


def no_log_beside(copy):
    return (
        f"no log of t-0 is made, as {copy} may be all that is left of it: bring back the log directory that holds "
        "t-0, or rename this one to t-0, or move it away to begin anew"
    )


@pytest.mark.parametrize("damage", [b"", b"version: 0\ntopic_id: "])
@pytest.mark.parametrize("standing", [Standing.HELD, Standing.LAST, Standing.SPARE])
def test_a_copy_on_its_way_that_does_not_tell_its_topic_id_may_be_the_one(disks, damage, standing):
    disks.write("b", 10)
    copy = disks.rename("b", FUTURE_SUFFIX)
    (copy / "partition.metadata").write_bytes(damage)
    directories = disks.start()
    assert refusal(directories, id_of("a"), standing) == no_log_beside(copy)
    assert directories.online == directories.all


def test_a_copy_on_its_way_whose_disk_fails_is_refused_by_that_disks_error(disks):
    disks.write("b", 10)
    disks.rename("b", FUTURE_SUFFIX)
    files = FaultyFiles()
    directories = disks.start(files=files)
    files.fail_at("read_bytes", error=errno.EIO, sticky=True)
    message = refusal(directories, id_of("a"))
    b = directories.all[1]
    assert b.offline is not None
    assert message == b.offline
    assert directories.online == [directories.all[0], directories.all[2]]


OFFLINE = "t-0 is in a log directory that is offline"


@pytest.mark.parametrize("standing", [Standing.HELD, Standing.LAST])
@pytest.mark.parametrize(
    ("held", "readable", "assigned", "reason"),
    [
        (
            "",
            "ab",
            UNASSIGNED_DIRECTORY,
            "t-0 may be in PATH/c, which could not be read when the broker started: mend it, or take it out of "
            "log.dirs, and start the broker again",
        ),
        ("", "ab", id_of("c"), "t-0 may be in a log directory that is offline"),
        ("b", "abc", id_of("a"), OFFLINE),
        ("copy in b", "abc", id_of("a"), OFFLINE),
    ],
)
def test_each_reason_not_to_make_a_log_is_told_in_full(
    disks, held, readable, assigned, reason, standing
):
    if held:
        disks.write("b", 1)
    if held == "copy in b":
        disks.rename("b", FUTURE_SUFFIX)
    directories = disks.start(readable)
    if held:
        directories.all[1].health.fail("gone")
    assert refusal(directories, assigned, standing) == reason.replace("PATH", str(disks.path))


@pytest.mark.parametrize(("offset", "is_refused"), [(0, False), (1, True), (2, True)])
def test_one_committed_record_is_enough_for_a_log_to_be_missed(disks, offset, is_refused):
    disks.start().open_log(*T0, TOPIC_ID, LogConfig(), id_of("a"), Standing.NEW)
    disks.stop(high_watermarks={T0: offset})
    (disks.path / "a" / "t-0").rename(disks.path / "elsewhere")
    directories = disks.start()
    if not is_refused:
        assert directories.open_log(*T0, TOPIC_ID, LogConfig(), id_of("a")).log_end_offset == 0
        return
    a = disks.path / "a"
    assert refusal(directories, id_of("a")) == (
        f"{a / 't-0'} is missing, and records up to offset {offset} were committed: put it back; to begin anew "
        f"without them, while the broker is down take its line out of {a}/replication-offset-checkpoint, lower the "
        "count above the lines, and remove the blanks at the end"
    )


def test_with_every_directory_offline_a_new_log_is_refused_by_that(disks):
    directories = disks.start()
    for one in directories.all:
        one.health.offline = "gone"
    assert refusal(directories, standing=Standing.NEW) == "all log directories are offline"


# -- taking away


def names_in(disks, name):
    """What lies in a directory under the name of `t-0`, by its suffix: deleted, put aside, or there."""
    found = (one.name for one in (disks.path / name).iterdir() if one.name.startswith("t-0"))
    return sorted(one if one == "t-0" else one[one.rindex("-") :] for one in found)


async def test_a_log_that_is_opened_while_its_namesake_is_checked_waits_for_the_deletion(
    disks, monkeypatch
):
    """The old one is deleted as its topic was, not put aside, and the new one stays when the check has ended."""
    disks.write("a", 3)
    directories = disks.start()
    opened = []

    async def checked(_check, *_arguments):
        directories.delete_log(*T0, TOPIC_ID)
        assert names_in(disks, "a") == ["t-0"]
        opened.append(directories.open_log(*T0, OTHER_ID, LogConfig(), id_of("a"), Standing.NEW))

    monkeypatch.setattr(directories_module, "run_blocking", checked)
    await directories.check_log(*T0, TOPIC_ID, LogConfig())
    assert [one.log_end_offset for one in opened] == [0]
    assert names_in(disks, "a") == [DELETE_SUFFIX, "t-0"]
    assert directories.all[0].topic_id(*T0) == OTHER_ID


def test_a_name_that_its_disk_does_not_let_go_of_is_no_replica_any_more(disks, caplog):
    disks.write("a", 3)
    files = FaultyFiles()
    directories = disks.start(files=files)
    told = told_of(directories)
    files.fail_at("rename", sticky=True)
    directories.delete_log(*T0, TOPIC_ID)
    assert directories.holding(*T0) is None
    assert (told, names_in(disks, "a")) == (["look"], ["t-0"])
    assert "t-0 is not deleted" in caplog.text


def test_what_is_deleted_takes_nothing_of_others_and_leaves_nothing_of_its_own(disks, caplog):
    disks.write("a", 3)
    directories = disks.start()
    a, b, _ = directories.all
    b.futures.open(*T0, TOPIC_ID, LogConfig()).close(clean=False)
    for index in (0, 1):
        directories.preferred["t", index] = b
    directories.delete_log(*T0, OTHER_ID)
    assert T0 in a
    assert list(b.futures) == [T0]
    assert directories.preferred == {("t", 1): b}
    directories.delete_log(*T0, TOPIC_ID)
    assert names_in(disks, "a") == names_in(disks, "b") == [DELETE_SUFFIX]
    assert not caplog.records


@pytest.mark.parametrize("how", ["deleted", "stray"])
async def test_why_a_replica_was_out_of_service_is_forgotten_with_it(disks, caplog, how):
    """The next of this name has its own reasons, and is claimed where it is."""
    disks.write("a", 1)
    directories = disks.start()
    directories.refused(*T0, TOPIC_ID, FAILS)
    claimed = []
    directories.on_placed = lambda *replica: claimed.append(replica)
    directories.claim(*T0, TOPIC_ID, UNKNOWN, may_begin_anew=True)
    assert claimed == []
    if how == "deleted":
        directories.delete_log(*T0, TOPIC_ID)
    else:
        await directories.drop_strays(())
    directories.claim(*T0, TOPIC_ID, UNKNOWN, may_begin_anew=how == "deleted")
    expected = [] if how == "stray" else [(*T0, TOPIC_ID, UNASSIGNED_DIRECTORY)]
    assert claimed == expected
    before = len(caplog.records)
    directories.refused(*T0, TOPIC_ID, FAILS)
    assert len(caplog.records) == before + 1


@pytest.mark.parametrize(
    ("standing", "told"), [(Standing.HELD, [LOST_DIRECTORY]), (Standing.LAST, [LOST_DIRECTORY])]
)
def test_a_replica_that_is_taken_out_is_lost_by_its_directory(disks, standing, told, caplog):
    disks.write("a", 1)
    directories = disks.start()
    log = directories.open_log(*T0, TOPIC_ID, LogConfig())
    placed, looked = [], told_of(directories)
    directories.on_placed = lambda *replica: placed.append(replica)
    directories.take_out(*T0, TOPIC_ID, "it is damaged")
    assert placed == [(*T0, TOPIC_ID, one) for one in told]
    assert looked == ["look"]
    assert log.is_closed
    assert refusal(directories, standing=standing).endswith("it is damaged")
    [record] = caplog.records
    assert "it is damaged" in record.getMessage()
    assert str(disks.path / "a" / "t-0") in record.getMessage()


# -- claims, placement


def placed_by(directories, assigned, standing=Standing.HELD, *, may_begin_anew=False):
    placed = []
    directories.on_placed = lambda *replica: placed.append(replica[3])
    directories.claim(*T0, TOPIC_ID, assigned, standing, may_begin_anew=may_begin_anew)
    return placed


def test_a_replica_in_a_directory_of_this_broker_is_not_claimed_though_it_is_in_another(disks):
    disks.write("b", 1)
    directories = disks.start()
    known = (*map(id_of, "abc"), UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
    check_each(known, lambda assigned: check_not_claimed(directories, assigned))
    assert placed_by(directories, UNKNOWN) == [id_of("b")]


def check_not_claimed(directories, assigned):
    assert placed_by(directories, assigned, may_begin_anew=True) == []


def test_a_replica_that_is_preferred_elsewhere_is_made_there_unless_that_disk_fails(disks):
    directories = disks.start()
    _, b, c = directories.all
    for index in (0, 1):
        directories.preferred["t", index] = c
    assert directories.where("t", 0, id_of("b")) is c
    directories.open_log("t", 0, TOPIC_ID, LogConfig(), id_of("b"), Standing.NEW)
    assert directories.holding("t", 0) is c
    c.health.fail("gone")
    directories.open_log("t", 1, TOPIC_ID, LogConfig(), id_of("b"), Standing.NEW)
    assert directories.holding("t", 1) is b
    assert directories.preferred == {}


# -- strays


async def test_names_that_are_wanted_are_looked_at_some_thousands_in_a_turn(disks, monkeypatch):
    directories = disks.start("a")
    turns = []

    async def turn():
        turns.append(True)

    monkeypatch.setattr(directories_module, "yield_to_loop", turn)
    for count, expected in ((2_499, 0), (2_500, 1), (4_999, 1), (5_000, 2)):
        names = {("t", index) for index in range(count)}
        monkeypatch.setattr(LogDirectory, "partitions", lambda _directory, names=names: names)
        turns.clear()
        await directories.drop_strays(names)
        assert len(turns) == expected, count


async def test_strays_are_put_aside_some_dozens_in_a_turn_and_what_goes_meanwhile_is_left(
    disks, monkeypatch
):
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
        a._names.clear()

    monkeypatch.setattr(directories_module, "yield_to_loop", turn)
    told = told_of(directories)
    await directories.drop_strays(())
    assert (turns, len(put_aside), told) == ([41], 41, [])


async def test_a_stray_that_cannot_be_put_aside_stays_alone(disks, caplog):
    for name in "ab":
        disks.write(name, 1)
    (disks.path / "a" / "t-0" / "partition.metadata").write_bytes(b"")
    directories = disks.start()
    told = told_of(directories)
    await directories.drop_strays(())
    assert (names_in(disks, "a"), names_in(disks, "b")) == (["t-0"], [STRAY_SUFFIX])
    assert told == ["look"]
    assert "t-0, which is not assigned, stays" in caplog.text


def test_the_epoch_of_a_directory_that_did_not_end_cleanly_is_unknown():
    def epochs(*of_each):
        directories = LogDirectories(
            [SimpleNamespace(directory_id=b"", previous_broker_epoch=one) for one in of_each]
        )
        return directories.previous_broker_epoch

    assert [epochs(4), epochs(4, 4), epochs(None), epochs(4, None)] == [4, 4, -1, -1]


# -- what is known of a replica


def test_a_watermark_alone_is_something_that_is_known_of_a_replica(disks):
    """Its log may be missing."""
    directories = disks.start()
    for one in directories.all:
        directories.open_log("u", 0, OTHER_ID, LogConfig(), id_of("a"), Standing.NEW)
        one.high_watermark = lambda topic, index: 3 * ((topic, index) == T0)
        assert [directories.knows_nothing_of(*T0), directories.knows_nothing_of("t", 1)] == [
            False,
            True,
        ]
        del one.high_watermark


def test_the_watermark_of_a_replica_is_that_of_its_directory(disks):
    disks.write("b", 3)
    disks.start().open_log(*T0, TOPIC_ID, LogConfig())
    disks.stop(high_watermarks={T0: 7, ("t", 1): 5})
    directories = disks.start()
    assert directories.high_watermark(*T0) == 7
    assert directories.high_watermark("t", 1) == 0


def test_a_replica_is_preferred_where_none_exists_and_the_controller_is_told(disks):
    disks.write("b", 1)
    directories = disks.start()
    _, b, c = directories.all
    placed = []
    directories.on_placed = lambda *replica: placed.append(replica)
    at = (TOPIC_ID, id_of("a"), Standing.HELD, c)
    assert directories.prefer("t", 1, *at) is True
    assert (directories.preferred, placed) == ({("t", 1): c}, [("t", 1, TOPIC_ID, id_of("c"))])
    b.health.fail("gone")
    assert directories.prefer(*T0, *at) is False
    assert (directories.preferred, len(placed)) == ({("t", 1): c}, 1)
