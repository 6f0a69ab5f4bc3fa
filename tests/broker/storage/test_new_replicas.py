"""P20: the log of an older replica is not created while the replica may exist elsewhere on this broker."""

from __future__ import annotations

import errno
import os

import pytest

from tests.broker.storage.directories import OTHER_ID, T0, TOPIC_ID, Disks, id_of
from tests.log.faulty_files import FaultyFiles
from trimaran.broker.storage.new_replicas import Standing
from trimaran.log.config import LogConfig
from trimaran.log.directories.aside_replicas import UNCUT_CHARS
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.disk.partition_metadata import make_partition_directory
from trimaran.log.partitions.names import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX, aside_name
from trimaran.quorum.metadata.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

OLD = [Standing.HELD, Standing.SPARE]


@pytest.fixture
def disks(tmp_path):
    disks = Disks(tmp_path)
    yield disks
    disks.stop(clean=False)


def refused(directories, assigned=UNASSIGNED_DIRECTORY, standing=Standing.HELD) -> str:
    """Returns the reason why no log is created; the controller then elects another leader."""
    placed = []
    directories.on_placed = lambda *replica: placed.append(replica)
    for _ in range(3):
        with pytest.raises(KafkaError) as error:
            directories.open_log(T0, TOPIC_ID, LogConfig(), assigned, standing)
        assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not any(T0 in directory for directory in directories.all)
    assert not directories.is_untouched(T0, TOPIC_ID, assigned, standing)
    assert {replica[1] for replica in placed} <= {LOST_DIRECTORY}
    return error.value.message


def made_in(directories, assigned=UNASSIGNED_DIRECTORY, standing=Standing.HELD) -> str:
    assert directories.is_untouched(T0, TOPIC_ID, assigned, standing)
    log = directories.open_log(T0, TOPIC_ID, LogConfig(), assigned, standing)
    assert log.log_end_offset == 0
    return directories.holding(T0).path.name


@pytest.mark.parametrize(
    ("suffix", "standing"),
    [
        (FUTURE_SUFFIX, Standing.HELD),
        (DELETE_SUFFIX, Standing.HELD),
        (STRAY_SUFFIX, Standing.HELD),
        (FUTURE_SUFFIX, Standing.SPARE),
    ],
)
def test_copy_of_same_topic_prevents_new_log(disks, caplog, suffix, standing):
    disks.write("b", 10)
    copy = disks.rename("b", suffix)
    directories = disks.start()
    assert str(copy) in refused(directories, id_of("a"), standing)
    assert caplog.text.count("is out of service on this broker") == 1, "once for all requests"
    assert not directories.prefer(T0, TOPIC_ID, id_of("a"), standing, directories.all[0])


@pytest.mark.parametrize("suffix", [FUTURE_SUFFIX, DELETE_SUFFIX, STRAY_SUFFIX])
def test_copy_of_another_topic_does_not_matter(disks, suffix):
    disks.write("b", 10, OTHER_ID)
    disks.rename("b", suffix)
    assert made_in(disks.start(), id_of("a")) == "a"


def test_copy_without_records_does_not_matter(disks):
    """The copy may have been begun just now, for a replica to which nothing was written."""
    disks.write("b", 0)
    disks.rename("b", FUTURE_SUFFIX)
    assert made_in(disks.start(), id_of("a")) == "a"


@pytest.mark.parametrize("suffix", [DELETE_SUFFIX, STRAY_SUFFIX])
@pytest.mark.parametrize("is_ordered", [True, False])
def test_copy_of_another_topic_is_read_once(disks, suffix, is_ordered):
    """Each fetch of a follower checks whether an empty replica is new."""
    disks.write("b", 10, OTHER_ID)
    copy = disks.rename("b", suffix)
    if is_ordered:
        (copy / "partition.metadata").unlink()
    files = FaultyFiles()
    directories = disks.start(files=files)
    made = []
    for _ in range(3):
        assert directories.is_untouched(T0, TOPIC_ID, id_of("a"), Standing.HELD)
        made.append(files.calls.copy())
    assert made[0] == made[1] == made[2]


def test_file_named_like_copy_does_not_matter(disks):
    (disks.path / "b" / f"t-0.{'0' * 32}{STRAY_SUFFIX}").touch()
    assert made_in(disks.start(), id_of("a")) == "a"


@pytest.mark.parametrize(("error", "is_offline"), [(errno.EACCES, False), (errno.EIO, True)])
@pytest.mark.parametrize("asked", ["is_untouched", "prefer", "open_log"])
def test_unreadable_copy_affects_only_this_replica(disks, error, is_offline, asked):
    """A fetch names many replicas, and an error of one would fail them all."""
    disks.write("b", 10)
    disks.rename("b", STRAY_SUFFIX)
    files = FaultyFiles()
    directories = disks.start(files=files)
    files.fail_at("list_directory", error=error, sticky=True)
    match asked:
        case "is_untouched":
            assert not directories.is_untouched(T0, TOPIC_ID, id_of("a"), Standing.HELD)
        case "prefer":
            b = directories.all[1]
            assert not directories.prefer(T0, TOPIC_ID, id_of("a"), Standing.HELD, b)
        case "open_log":
            with pytest.raises(KafkaError, match=os.strerror(error)) as raised:
                directories.open_log(T0, TOPIC_ID, LogConfig(), id_of("a"))
            assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [directory.offline is not None for directory in directories.all] == [
        False,
        is_offline,
        False,
    ]


def test_copy_moved_away_does_not_matter(disks):
    disks.write("b", 10)
    copy = disks.rename("b", STRAY_SUFFIX)
    directories = disks.start()
    refused(directories, id_of("a"))
    copy.rename(disks.path / "elsewhere")
    assert made_in(directories, id_of("a")) == "a"


@pytest.mark.parametrize("damage", [b"", b"version: 0\ntopic_id: "])
def test_copy_without_readable_id_prevents_new_log(disks, damage):
    disks.write("b", 10)
    copy = disks.rename("b", DELETE_SUFFIX)
    (copy / "partition.metadata").write_bytes(damage)
    assert str(copy) in refused(disks.start(), id_of("a"))


def test_deleted_copy_does_not_count(disks):
    """The replica was reassigned away and back, with a crash after each step."""
    disks.write("a", 10)
    directories = disks.start()
    directories.delete_log(T0, TOPIC_ID)
    assert made_in(disks.start(), id_of("a")) == "a"


@pytest.mark.parametrize("assigned", [id_of("a"), UNASSIGNED_DIRECTORY])
def test_replica_possibly_in_unread_directory_is_refused(disks, assigned):
    assert f"{disks.path / 'c'}, which could not be read" in refused(disks.start("ab"), assigned)


@pytest.mark.parametrize("assigned", [id_of("c"), LOST_DIRECTORY])
@pytest.mark.parametrize("standing", OLD)
def test_replica_of_absent_directory_is_not_created(disks, caplog, assigned, standing):
    assert "offline" in refused(disks.start("ab"), assigned, standing)
    assert not caplog.text, "the controller knows it"


@pytest.mark.parametrize("assigned", [id_of("b"), UNASSIGNED_DIRECTORY])
def test_dispensable_replica_is_created_as_assigned(disks, assigned):
    """Other replicas have the records, so it fetches them. A power cut may restore a directory that was marked for
    deletion.
    """
    disks.write("b", 10)
    disks.rename("b", DELETE_SUFFIX)
    made = made_in(disks.start("ab"), assigned, Standing.SPARE)
    assert made == ("b" if assigned == id_of("b") else "a")


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("assigned", [id_of("b"), id_of("c"), UNASSIGNED_DIRECTORY])
def test_new_replica_is_created_despite_offline_directories(disks, names, assigned):
    disks.write("b", 10)
    disks.rename("b", DELETE_SUFFIX)
    directories = disks.start(names)
    directories.all[-1].health.fail("the disk is gone")
    expected = names[-2] if assigned == id_of(names[-2]) else "a"
    assert made_in(directories, assigned, Standing.NEW) == expected


def test_running_directorys_failure_is_known_by_names(disks):
    disks.write("b", 10)
    directories = disks.start()
    directories.all[1].health.fail("the disk is gone")
    with pytest.raises(KafkaError):
        directories.open_log(T0, TOPIC_ID, LogConfig(), id_of("a"))
    assert made_of(directories, TopicPartition("u", 0)) == "a"


def made_of(directories, key) -> str:
    directories.open_log(key, TOPIC_ID, LogConfig(), id_of("a"))
    return directories.holding(key).path.name


@pytest.mark.parametrize("clean", [True, False])
def test_missing_log_with_committed_records_is_not_created(disks, clean):
    """After a crash the checkpoint may belong to a topic that was deleted and recreated."""
    disks.write("a", 10)
    directories = disks.start()
    directories.open_log(T0, TOPIC_ID, LogConfig(), id_of("a"))
    disks.stop(high_watermarks={T0: 30})
    (disks.path / "a" / "t-0").rename(disks.path / "elsewhere")
    if not clean:
        (disks.path / "a" / ".kafka_cleanshutdown").unlink()
        assert made_in(disks.start(), id_of("a")) == "a"
        return
    assert "records up to offset 30 were committed" in refused(disks.start(), id_of("a"))


def test_watermark_of_deleted_partition_does_not_matter(disks):
    """A crash before the next checkpoint leaves it; and the next process may shut down cleanly before the log
    is used.
    """
    disks.write("a", 10)
    directories = disks.start()
    directories.open_log(T0, TOPIC_ID, LogConfig(), id_of("a"))
    disks.stop(high_watermarks={T0: 30})
    disks.start().delete_log(T0, TOPIC_ID)
    disks.start()
    disks.stop()
    assert made_in(disks.start(), id_of("a")) == "a"


def test_foreign_topics_name_is_moved_aside_everywhere(disks):
    disks.write("a", 10, OTHER_ID)
    disks.write("b", 10)
    disks.write("c", 20, OTHER_ID)
    directories = disks.start()
    log = directories.open_log(T0, TOPIC_ID, LogConfig(), id_of("a"))
    assert log.log_end_offset == 30
    assert [T0 in directory for directory in directories.all] == [False, True, False]


STATE = PartitionImage(replicas=(11, 12), directories=(), isr=(12,), leader=12)


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, Standing.SPARE),
        ({"isr": (11, 12)}, Standing.HELD),
        ({"elr": (11,)}, Standing.HELD),
        ({"leader": 11}, Standing.HELD),
        ({"leader": -1}, Standing.HELD),
        ({"leader": -1, "isr": (11,)}, Standing.LAST),
        ({"leader": -1, "isr": (), "elr": (11,)}, Standing.LAST),
        ({"leader": 11, "isr": (11,)}, Standing.LAST),
        ({"leader": 11, "isr": (11,), "elr": (12,)}, Standing.HELD),
    ],
)
def test_standing_follows_from_metadata(changes, standing):
    assert Standing.of(STATE._replace(**changes), 11) is standing


def test_deleted_replica_in_failed_directory_is_ignored(disks):
    disks.write("a", 10)
    directories = disks.start()
    directories.all[0].health.fail("the disk is gone")
    directories.delete_log(T0, TOPIC_ID)
    assert directories.holding(T0) is None
    log = directories.open_log(T0, OTHER_ID, LogConfig(), UNASSIGNED_DIRECTORY, Standing.NEW)
    assert directories.holding(T0).path.name == "b"
    log.flush()
    directories = disks.start()
    assert directories.open_log(T0, OTHER_ID, LogConfig()).log_end_offset == 0
    assert [T0 in directory for directory in directories.all] == [False, True, False]


@pytest.mark.parametrize("length", [1, UNCUT_CHARS, UNCUT_CHARS + 1, 249])
@pytest.mark.parametrize("partition", [0, 2**31 - 1])
@pytest.mark.parametrize("suffix", [DELETE_SUFFIX, STRAY_SUFFIX])
def test_copy_with_long_topic_name_is_found(disks, length, partition, suffix):
    key = TopicPartition("t" * length, partition)
    copy = disks.path / "b" / aside_name(key, suffix)
    make_partition_directory(copy, TOPIC_ID, REAL_FILES)
    directories = disks.start()
    assert not directories.knows_nothing_of(key)
    assert not directories.is_untouched(key, TOPIC_ID, id_of("a"), Standing.HELD)
    assert directories.knows_nothing_of(TopicPartition("u", 0))


@pytest.mark.parametrize("standing", OLD)
def test_unreadable_future_copy_takes_no_directory_offline(disks, standing):
    disks.write("b", 10)
    copy = disks.rename("b", FUTURE_SUFFIX)
    files = FaultyFiles()
    directories = disks.start(files=files)
    files.fail_at("list_directory", error=errno.EACCES, sticky=True)
    assert str(copy) in refused(directories, id_of("a"), standing)
    assert [directory.offline for directory in directories.all] == [None, None, None]
