"""The directory, among several, that has or will have a replica, and the reports about it to the controller."""

from __future__ import annotations

import pytest
import trio

from tests.broker.storage.directories import OTHER_ID, T0, TOPIC_ID, Disks, id_of
from trimaran.broker.storage.new_replicas import Standing
from trimaran.log.config import LogConfig
from trimaran.log.partitions.names import FUTURE_SUFFIX
from trimaran.quorum.metadata.image import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

UNKNOWN = b"z" * 16


@pytest.fixture
def disks(tmp_path):
    disks = Disks(tmp_path)
    yield disks
    disks.stop(clean=False)


def fail(directories, name):
    directories.at(str(directories.all[0].path.with_name(name))).health.fail("the disk is gone")


def name_of(directory):
    return None if directory is None else directory.path.name


def test_online_twin_is_the_replica(disks):
    for name in "ab":
        disks.write(name, 1)
    directories = disks.start()
    fail(directories, "a")
    assert name_of(directories.holding(T0)) == "b"
    fail(directories, "b")
    assert name_of(directories.holding(T0)) == "a", "the first, as it was"


def test_knowledge_of_replica_excludes_its_neighbours(disks):
    disks.write("b", 1)
    directories = disks.start()
    assert not directories.knows_nothing_of(T0)
    assert directories.knows_nothing_of(TopicPartition("t", 1))
    assert directories.knows_nothing_of(TopicPartition("u", 0))


def test_copy_commit_or_failed_disk_counts_as_knowledge(disks):
    disks.write("b", 1)
    disks.rename("b", FUTURE_SUFFIX)
    assert not disks.start().knows_nothing_of(T0)
    disks.stop(high_watermarks={("u", 0): 3, ("u", 1): 0})
    directories = disks.start("ab")
    assert not directories.knows_nothing_of(TopicPartition("u", 1)), "directory c was not read"
    directories = disks.start()
    fail(directories, "c")
    assert not directories.knows_nothing_of(TopicPartition("u", 1))


@pytest.mark.parametrize(
    ("failed", "assigned", "expected"),
    [
        ("", id_of("b"), "b"),
        ("", UNKNOWN, "a"),
        ("", UNASSIGNED_DIRECTORY, "a"),
        ("c", id_of("b"), "b"),
        ("c", id_of("c"), None),
        ("c", UNKNOWN, None),
        ("a", UNASSIGNED_DIRECTORY, "b"),
        ("abc", id_of("b"), None),
    ],
)
def test_replica_goes_to_assigned_directory_if_known(disks, failed, assigned, expected):
    directories = disks.start()
    for name in failed:
        fail(directories, name)
    assert name_of(directories.where(T0, assigned)) == expected


def placed_by(directories, ask):
    placed = []
    directories.on_placed = lambda *replica: placed.append(replica)
    ask()
    return placed


@pytest.mark.parametrize(
    ("assigned", "is_told"),
    [
        (id_of("a"), False),
        (UNASSIGNED_DIRECTORY, True),
        (MIGRATING_DIRECTORY, True),
        (UNKNOWN, True),
    ],
)
def test_opened_logs_directory_is_reported_if_unknown(disks, assigned, is_told):
    disks.write("a", 1)
    directories = disks.start()
    placed = placed_by(
        directories, lambda: directories.open_log(T0, TOPIC_ID, LogConfig(), assigned)
    )
    assert placed == [((TOPIC_ID, 0), id_of("a"))] * is_told


def claimed(directories, assigned, topic_id=TOPIC_ID, *, may_begin_anew=False):
    return placed_by(
        directories,
        lambda: directories.claim(
            T0, topic_id, assigned, Standing.SPARE, may_begin_anew=may_begin_anew
        ),
    )


def test_replica_is_claimed_if_controller_lacks_directory(disks):
    disks.write("b", 1)
    directories = disks.start()
    assert claimed(directories, UNKNOWN) == [((TOPIC_ID, 0), id_of("b"))]
    assert claimed(directories, id_of("b")) == []
    assert claimed(directories, UNKNOWN, OTHER_ID) == []
    fail(directories, "b")
    assert claimed(directories, UNKNOWN) == []


def test_missing_replica_restarts_only_if_nowhere_else(disks):
    directories = disks.start()
    begun = [((TOPIC_ID, 0), UNASSIGNED_DIRECTORY)]
    assert claimed(directories, UNKNOWN) == []
    assert claimed(directories, UNKNOWN, may_begin_anew=True) == begun
    fail(directories, "c")
    assert claimed(directories, UNKNOWN, may_begin_anew=True) == []
    assert claimed(disks.start("ab"), UNKNOWN, may_begin_anew=True) == []


def test_replica_with_a_copy_does_not_restart(disks):
    disks.write("b", 1)
    disks.rename("b", FUTURE_SUFFIX)
    assert claimed(disks.start(), UNKNOWN, may_begin_anew=True) == []


def claimed_last(directories, assigned):
    return placed_by(
        directories,
        lambda: directories.claim(T0, TOPIC_ID, assigned, Standing.LAST, may_begin_anew=False),
    )


def not_opened(directories, assigned, standing):
    def ask():
        with pytest.raises(KafkaError, match="could not be read when the broker started"):
            directories.open_log(T0, TOPIC_ID, LogConfig(), assigned, standing)

    return placed_by(directories, ask)


@pytest.mark.parametrize("assigned", [UNASSIGNED_DIRECTORY, id_of("a")])
def test_missing_replica_is_lost_if_others_electable(disks, assigned, caplog):
    """The replica may have no log yet. A start with all directories could not distinguish that from a missing log."""
    directories = disks.start("ab")
    assert not_opened(directories, assigned, Standing.LAST) == []
    assert "could not be read when the broker started" in caplog.text
    assert not_opened(directories, assigned, Standing.HELD) == [((TOPIC_ID, 0), LOST_DIRECTORY)]
    assert claimed_last(directories, id_of("a")) == [], "the controller has not heard of it yet"
    back = [((TOPIC_ID, 0), assigned)]
    assert claimed_last(directories, LOST_DIRECTORY) == back, "the others have left meanwhile"
    assert claimed_last(directories, LOST_DIRECTORY) == []


def test_damaged_replica_is_lost_even_as_last(disks):
    (disks.write("a", 1) / "partition.metadata").write_bytes(b"")
    directories = disks.start()

    def ask():
        with pytest.raises(KafkaError):
            directories.open_log(T0, TOPIC_ID, LogConfig(), id_of("a"), Standing.LAST)

    assert placed_by(directories, ask) == [((TOPIC_ID, 0), LOST_DIRECTORY)]
    assert claimed_last(directories, LOST_DIRECTORY) == []


def test_replica_out_of_service_is_not_claimed(disks):
    disks.write("b", 1)
    directories = disks.start()
    directories.open_log(T0, TOPIC_ID, LogConfig())
    directories.take_out(T0, TOPIC_ID, "it is damaged")
    assert claimed(directories, UNKNOWN) == []
    others = placed_by(
        directories,
        lambda: directories.claim(TopicPartition("t", 1), TOPIC_ID, UNKNOWN, may_begin_anew=True),
    )
    assert others == [((TOPIC_ID, 1), UNASSIGNED_DIRECTORY)]


@pytest.mark.parametrize(
    ("cordoned", "expected"), [("", "b"), ("b", "c"), ("bc", "a"), ("abc", "b")]
)
def test_new_log_goes_to_emptiest_uncordoned_directory(disks, cordoned, expected):
    directories = disks.start()
    for index, name in enumerate("aac"):
        directories.open_log(TopicPartition("u", index), OTHER_ID, LogConfig(), id_of(name))
    directories.cordoned = lambda: [disks.path / name for name in cordoned]
    directories.open_log(T0, TOPIC_ID, LogConfig(), UNASSIGNED_DIRECTORY, Standing.NEW)
    assert name_of(directories.holding(T0)) == expected


async def test_high_watermarks_are_written_where_their_replicas_are(disks):
    directories = disks.start()
    for index, name in enumerate("ab"):
        directories.open_log(TopicPartition("u", index), OTHER_ID, LogConfig(), id_of(name))
    await directories.save_checkpoints({("u", 0): 5, ("u", 1): 7})
    again = disks.start()
    a, b, _ = again.all
    assert (a.high_watermark(TopicPartition("u", 0)), a.high_watermark(TopicPartition("u", 1))) == (
        5,
        0,
    )
    assert (b.high_watermark(TopicPartition("u", 0)), b.high_watermark(TopicPartition("u", 1))) == (
        0,
        7,
    )


def test_replica_of_lost_directory_is_located(disks):
    disks.write("c", 1)
    assert claimed(disks.start(), LOST_DIRECTORY) == [((TOPIC_ID, 0), id_of("c"))]


def test_broker_needs_metadata_log_and_one_directory(disks):
    directories = disks.start()
    assert directories.offline is None
    fail(directories, "b")
    fail(directories, "c")
    assert directories.offline is None
    assert (directories.online_ids(), directories.offline_ids()) == (
        [id_of("a")],
        [id_of("b"), id_of("c")],
    )
    fail(directories, "a")
    path = disks.path / "a"
    assert directories.offline == f"{path}: {directories.all[0].offline}"
    directories.metadata = directories.all[1]
    directories.all[1].health.offline = None
    assert directories.offline is None
    directories.all[1].health.fail("gone too")
    directories.metadata = Sound()
    told = directories.offline
    assert [f"{disks.path / name}: " in told for name in "abc"] == [True] * 3
    assert told.count("; ") == 2


class Sound:
    """An intact directory that holds only the metadata log."""

    offline = None
    directory_id = id_of("m")

    def close(self, **_options):
        pass


def test_previous_epoch_needs_agreement_of_all_directories(disks):
    directories = disks.start()
    for epochs, expected in (
        ((7, 7, 7), 7),
        ((7, 7, 8), -1),
        ((7, 7, None), -1),
        ((None, None, None), -1),
    ):
        for directory, epoch in zip(directories.all, epochs, strict=True):
            directory.previous_broker_epoch = epoch
        assert directories.previous_broker_epoch == expected, epochs
    directories.failed_at_start[disks.path / "d"] = "gone"
    for directory in directories.all:
        directory.previous_broker_epoch = 7
    assert directories.previous_broker_epoch == -1


def test_cordoned_directories_are_reported_by_id(disks):
    directories = disks.start()
    assert directories.cordoned_ids() == []
    directories.cordoned = lambda: [disks.path / "c", disks.path / "elsewhere"]
    assert directories.cordoned_ids() == [id_of("c")]


@pytest.mark.parametrize(
    ("names", "assigned", "is_told"),
    [
        ("a", MIGRATING_DIRECTORY, False),
        ("a", UNASSIGNED_DIRECTORY, True),
        ("ab", MIGRATING_DIRECTORY, True),
        ("ab", id_of("a"), False),
        ("a", id_of("a"), False),
        ("a", UNKNOWN, True),
    ],
)
def test_single_directory_broker_reports_no_migrated_replicas(disks, names, assigned, is_told):
    disks.write("a", 1)
    directories = disks.start(names)
    placed = placed_by(
        directories, lambda: directories.open_log(T0, TOPIC_ID, LogConfig(), assigned)
    )
    assert placed == [((TOPIC_ID, 0), id_of("a"))] * is_told


class Checking:
    """Checks of `t-0` in directory `a`; `meanwhile` runs during them, and `error` is their result."""

    def __init__(self, disks, monkeypatch):
        disks.write("a", 1)
        self.directories = disks.start()
        self.checked, self.meanwhile, self.error = [], lambda: None, None
        monkeypatch.setattr("trimaran.broker.storage.directories.run_blocking", self.run)

    async def run(self, _check, key, _config):
        self.checked.append(key)
        self.meanwhile()
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error

    async def check(self, topic_id=TOPIC_ID):
        """Returns the reports to the controller, and the error code."""
        placed, code = [], None
        self.directories.on_placed = lambda *replica: placed.append(replica[1])
        try:
            await self.directories.check_log(T0, topic_id, LogConfig())
        except KafkaError as error:
            code = error.code
        return placed, code


@pytest.fixture
def checking(disks, monkeypatch):
    return Checking(disks, monkeypatch)


def damaged():
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it is damaged")


async def test_existing_log_of_topic_is_checked(checking):
    assert await checking.check() == ([], None)
    assert checking.checked == [T0]
    assert await checking.check(OTHER_ID) == ([], None)
    await checking.directories.check_log(TopicPartition("t", 1), TOPIC_ID, LogConfig())
    assert checking.checked == [T0], "what another topic left is none of its business"
    checking.error = damaged()
    assert await checking.check() == ([LOST_DIRECTORY], ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_replica_deleted_during_check_keeps_its_name(checking, is_damaged):
    """The check's result makes no other replica a leader."""
    directories, seen = checking.directories, []

    def delete():
        directories.delete_log(T0, TOPIC_ID)
        seen.append(T0 in directories.all[0])

    checking.meanwhile = delete
    checking.error = damaged() if is_damaged else None
    placed, code = await checking.check()
    assert (placed, code) == ([], ErrorCode.KAFKA_STORAGE_ERROR if is_damaged else None)
    assert seen == [True]
    assert directories.holding(T0) is None


async def test_checks_of_one_name_come_one_after_another(checking, monkeypatch):
    """The current one may be of a deleted topic with this name."""
    under_way = []

    async def held(_check, *_arguments):
        under_way.append(True)
        assert len(under_way) == 1
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        under_way.pop()

    monkeypatch.setattr("trimaran.broker.storage.directories.run_blocking", held)
    async with trio.open_nursery() as both:
        for _ in range(3):
            both.start_soon(checking.check)
    assert not checking.directories._checks


def test_refused_log_is_reported_unless_directory_offline(disks, caplog):
    disks.write("b", 1)
    directories = disks.start()

    def refused(assigned=UNASSIGNED_DIRECTORY, key=T0):
        return placed_by(
            directories, lambda: directories.refused(key, TOPIC_ID, damaged(), assigned)
        )

    lost = [((TOPIC_ID, 0), LOST_DIRECTORY)]
    assert refused() == lost
    assert refused() == lost
    assert len(caplog.records) == 1, "its reason is told once"
    assert refused(UNKNOWN, TopicPartition("t", 1)) == [], (
        "the controller knows that it is not there"
    )
    assert refused(id_of("a"), TopicPartition("t", 1)) == [((TOPIC_ID, 1), LOST_DIRECTORY)]
    fail(directories, "b")
    assert refused() == []


async def test_only_unwanted_replicas_are_moved_aside(disks):
    disks.write("b", 1)
    directories = disks.start()
    a, b, _ = directories.all
    for index in (1, 2):
        directories.open_log(TopicPartition("u", index), OTHER_ID, LogConfig(), id_of("a"))
        a.futures.open(TopicPartition("v", index), OTHER_ID, LogConfig()).close(clean=False)
    await directories.drop_strays({T0, ("u", 2), ("v", 2)})
    assert sorted(a.partitions()) == [("u", 2)]
    assert sorted(b.partitions()) == [T0]
    assert list(a.futures) == [("v", 2)]


async def test_each_of_two_directories_has_its_watermarks(disks):
    directories = disks.start("ab")
    for index, name in enumerate("ab"):
        directories.open_log(
            TopicPartition("u", index), OTHER_ID, LogConfig(), id_of(name), Standing.NEW
        )
    await directories.save_checkpoints({("u", 0): 5, ("u", 1): 7})
    a, b = disks.start("ab").all
    assert (a.high_watermark(TopicPartition("u", 1)), b.high_watermark(TopicPartition("u", 0))) == (
        0,
        0,
    )
