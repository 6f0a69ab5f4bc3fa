"""Whether and where a log may be created for a replica without one, and the report about it: each reason, each
limit.
"""

from __future__ import annotations

import errno

import pytest

from tests.broker.storage.directories import OTHER_ID, T0, TOPIC_ID, Disks, id_of
from tests.broker.storage.test_upkeep import FAILS, UNKNOWN, names_in
from tests.checks import check_each
from tests.log.faulty_files import FaultyFiles
from trimaran.broker.storage import directories as directories_module
from trimaran.broker.storage.new_replicas import Standing
from trimaran.log.config import LogConfig
from trimaran.log.partitions.names import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX
from trimaran.quorum.metadata.image import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition


@pytest.fixture
def disks(tmp_path):
    disks = Disks(tmp_path)
    yield disks
    disks.stop(clean=False)


def refusal(directories, assigned=UNASSIGNED_DIRECTORY, standing=Standing.HELD, key=T0):
    with pytest.raises(KafkaError) as error:
        directories.open_log(key, TOPIC_ID, LogConfig(), assigned, standing)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return error.value.message


def no_log_beside(copy):
    return (
        f"no log of t-0 is made, as {copy} may be all that is left of it: bring back the log directory that holds "
        "t-0, or rename this one to t-0, or move it away to begin anew"
    )


@pytest.mark.parametrize("damage", [b"", b"version: 0\ntopic_id: "])
@pytest.mark.parametrize("standing", [Standing.HELD, Standing.LAST, Standing.SPARE])
def test_future_copy_without_readable_id_may_match(disks, damage, standing):
    disks.write("b", 10)
    copy = disks.rename("b", FUTURE_SUFFIX)
    (copy / "partition.metadata").write_bytes(damage)
    directories = disks.start()
    assert refusal(directories, id_of("a"), standing) == no_log_beside(copy)
    assert directories.online == directories.all


def test_failing_disk_of_future_copy_is_reported(disks):
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
def test_each_reason_against_new_log_is_explained(
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
def test_single_committed_record_makes_log_missing(disks, offset, is_refused):
    disks.start().open_log(T0, TOPIC_ID, LogConfig(), id_of("a"), Standing.NEW)
    disks.stop(high_watermarks={T0: offset})
    (disks.path / "a" / "t-0").rename(disks.path / "elsewhere")
    directories = disks.start()
    if not is_refused:
        assert directories.open_log(T0, TOPIC_ID, LogConfig(), id_of("a")).log_end_offset == 0
        return
    a = disks.path / "a"
    assert refusal(directories, id_of("a")) == (
        f"{a / 't-0'} is missing, and records up to offset {offset} were committed: put it back; to begin again "
        f"without them, while the broker is down take its line out of {a}/replication-offset-checkpoint, lower the "
        "count above the lines, and remove the blanks at the end"
    )


def test_all_directories_offline_refuses_a_new_log(disks):
    directories = disks.start()
    for directory in directories.all:
        directory.health.fail("gone")
    assert refusal(directories, standing=Standing.NEW) == "all log directories are offline"


# -- removal


async def test_log_opened_during_namesakes_check_awaits_deletion(disks, monkeypatch):
    """The old log is deleted with its topic, not put aside, and the new one stays when the check has ended."""
    disks.write("a", 3)
    directories = disks.start()
    opened = []

    async def checked(_check, *_arguments):
        directories.delete_log(T0, TOPIC_ID)
        assert names_in(disks, "a") == ["t-0"]
        opened.append(directories.open_log(T0, OTHER_ID, LogConfig(), id_of("a"), Standing.NEW))

    monkeypatch.setattr(directories_module, "run_blocking", checked)
    await directories.check_log(T0, TOPIC_ID, LogConfig())
    assert [log.log_end_offset for log in opened] == [0]
    assert names_in(disks, "a") == [DELETE_SUFFIX, "t-0"]
    assert directories.all[0].topic_id(T0) == OTHER_ID


def test_undeletable_name_is_no_longer_a_replica(disks, caplog):
    disks.write("a", 3)
    files = FaultyFiles()
    directories = disks.start(files=files)
    files.fail_at("rename", sticky=True)
    directories.delete_log(T0, TOPIC_ID)
    assert directories.holding(T0) is None
    assert names_in(disks, "a") == ["t-0"]
    assert "t-0 is not deleted" in caplog.text


def test_namesake_of_unrenamed_deleted_replica_begins_empty(disks):
    """One path's error keeps its directory in service; the old replica is put aside when its name is needed."""
    disks.write("a", 3)
    files = FaultyFiles()
    directories = disks.start(files=files)
    files.fail_at("rename", error=errno.EACCES)
    directories.delete_log(T0, TOPIC_ID)
    assert names_in(disks, "a") == ["t-0"]
    log = directories.open_log(T0, OTHER_ID, LogConfig(), id_of("a"), Standing.NEW)
    assert log.log_end_offset == 0
    assert names_in(disks, "a") == [STRAY_SUFFIX, "t-0"]
    assert directories.all[0].topic_id(T0) == OTHER_ID


def test_deletion_affects_only_its_own_replica(disks, caplog):
    disks.write("a", 3)
    directories = disks.start()
    a, b, _ = directories.all
    b.futures.open(T0, TOPIC_ID, LogConfig()).close(clean=False)
    for index in (0, 1):
        directories.preferred["t", index] = b
    directories.delete_log(T0, OTHER_ID)
    assert T0 in a
    assert list(b.futures) == [T0]
    assert directories.preferred == {("t", 1): b}
    directories.delete_log(T0, TOPIC_ID)
    assert names_in(disks, "a") == names_in(disks, "b") == [DELETE_SUFFIX]
    assert not caplog.records


@pytest.mark.parametrize("how", ["deleted", "stray"])
async def test_removed_replica_forgets_its_failure(disks, caplog, how):
    """The next replica of this name is judged by itself, and is claimed where it is."""
    disks.write("a", 1)
    directories = disks.start()
    directories.refused(T0, TOPIC_ID, FAILS)
    claimed = []
    directories.on_placed = lambda *replica: claimed.append(replica)
    directories.claim(T0, TOPIC_ID, UNKNOWN, may_begin_anew=True)
    assert claimed == []
    if how == "deleted":
        directories.delete_log(T0, TOPIC_ID)
    else:
        await directories.drop_strays(())
    directories.claim(T0, TOPIC_ID, UNKNOWN, may_begin_anew=how == "deleted")
    expected = [] if how == "stray" else [((TOPIC_ID, 0), UNASSIGNED_DIRECTORY)]
    assert claimed == expected
    before = len(caplog.records)
    directories.refused(T0, TOPIC_ID, FAILS)
    assert len(caplog.records) == before + 1


@pytest.mark.parametrize(
    ("standing", "told"), [(Standing.HELD, [LOST_DIRECTORY]), (Standing.LAST, [LOST_DIRECTORY])]
)
def test_failed_replica_is_reported_with_its_directory(disks, standing, told, caplog):
    disks.write("a", 1)
    directories = disks.start()
    log = directories.open_log(T0, TOPIC_ID, LogConfig())
    placed = []
    directories.on_placed = lambda *replica: placed.append(replica)
    directories.take_out(T0, TOPIC_ID, "it is damaged")
    assert placed == [((TOPIC_ID, 0), item) for item in told]
    assert log.is_closed
    assert refusal(directories, standing=standing).endswith("it is damaged")
    [record] = caplog.records
    assert "it is damaged" in record.getMessage()
    assert str(disks.path / "a" / "t-0") in record.getMessage()


# -- claims, placement


def placed_by(directories, assigned, standing=Standing.HELD, *, may_begin_anew=False):
    placed = []
    directories.on_placed = lambda *replica: placed.append(replica[1])
    directories.claim(T0, TOPIC_ID, assigned, standing, may_begin_anew=may_begin_anew)
    return placed


def test_replica_assigned_to_local_directory_is_not_claimed(disks):
    disks.write("b", 1)
    directories = disks.start()
    known = (*map(id_of, "abc"), UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
    check_each(known, lambda assigned: check_not_claimed(directories, assigned))
    assert placed_by(directories, UNKNOWN) == [id_of("b")]


def check_not_claimed(directories, assigned):
    assert placed_by(directories, assigned, may_begin_anew=True) == []


def test_preferred_directory_is_used_unless_it_fails(disks):
    directories = disks.start()
    _, b, c = directories.all
    for index in (0, 1):
        directories.preferred["t", index] = c
    assert directories.where(TopicPartition("t", 0), id_of("b")) is c
    directories.open_log(TopicPartition("t", 0), TOPIC_ID, LogConfig(), id_of("b"), Standing.NEW)
    assert directories.holding(TopicPartition("t", 0)) is c
    c.health.fail("gone")
    directories.open_log(TopicPartition("t", 1), TOPIC_ID, LogConfig(), id_of("b"), Standing.NEW)
    assert directories.holding(TopicPartition("t", 1)) is b
    assert directories.preferred == {}


# -- knowledge about a replica


def test_watermark_alone_counts_as_knowledge(disks):
    """The log of a replica with a watermark may be missing."""
    directories = disks.start()
    for directory in directories.all:
        directories.open_log(
            TopicPartition("u", 0), OTHER_ID, LogConfig(), id_of("a"), Standing.NEW
        )
        directory.high_watermark = lambda key: 3 * (key == T0)
        assert [
            directories.knows_nothing_of(T0),
            directories.knows_nothing_of(TopicPartition("t", 1)),
        ] == [
            False,
            True,
        ]
        del directory.high_watermark


def test_replica_has_watermark_of_its_directory(disks):
    disks.write("b", 3)
    disks.start().open_log(T0, TOPIC_ID, LogConfig())
    disks.stop(high_watermarks={T0: 7, ("t", 1): 5})
    directories = disks.start()
    assert directories.high_watermark(T0) == 7
    assert directories.high_watermark(TopicPartition("t", 1)) == 0


def test_preference_of_missing_replica_is_reported(disks):
    disks.write("b", 1)
    directories = disks.start()
    _, b, c = directories.all
    placed = []
    directories.on_placed = lambda *replica: placed.append(replica)
    at = (TOPIC_ID, id_of("a"), Standing.HELD, c)
    assert directories.prefer(TopicPartition("t", 1), *at) is True
    assert (directories.preferred, placed) == ({("t", 1): c}, [((TOPIC_ID, 1), id_of("c"))])
    b.health.fail("gone")
    assert directories.prefer(T0, *at) is False
    assert (directories.preferred, len(placed)) == ({("t", 1): c}, 1)
