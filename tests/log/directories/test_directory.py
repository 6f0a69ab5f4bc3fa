"""The log directory: lock, identity, clean shutdown, checkpoints, creation and deletion, lazy opening."""

import errno
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from tests.log.faulty_files import FaultyFiles
from tests.log.helpers import SMALL, append, fill, read_all
from trimaran.log.directories import closing
from trimaran.log.directories.clean_shutdown import FILE_NAME as CLEAN_SHUTDOWN
from trimaran.log.directories.clean_shutdown import take_marker
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.directory_lock import DirectoryLocked
from trimaran.log.directories.meta_properties import MetaProperties, MetaPropertiesError
from trimaran.log.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointDamaged,
    read_offsets,
)
from trimaran.log.disk.partition_metadata import read_partition_metadata
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

IDENTITY = MetaProperties("Vk_zJvdfRf6PsrkaTDAJ-A", 11, bytes(range(16)))
TOPIC_ID = bytes(range(100, 116))


@pytest.fixture
def path(tmp_path):
    IDENTITY.save(tmp_path)
    return tmp_path


def test_clean_shutdown_preserves_the_log(path):
    directory = LogDirectory(path)
    assert directory.previous_broker_epoch is None
    log = fill(directory.create_log(TopicPartition("orders", 3), TOPIC_ID, SMALL), 30)
    log.delete_records_before(10)
    batches = read_all(log)
    directory.close(broker_epoch=42, high_watermarks={("orders", 3): 90})
    assert (path / CLEAN_SHUTDOWN).read_bytes() == b'{"version":0,"brokerEpoch":42}'
    assert (path / RECOVERY_POINTS).read_text().rstrip() == "0\n1\norders 3 90"
    assert (path / LOG_START_OFFSETS).read_text().rstrip() == "0\n1\norders 3 10"
    assert (path / HIGH_WATERMARKS).read_text().rstrip() == "0\n1\norders 3 90"

    again = LogDirectory(path)
    assert again.previous_broker_epoch == 42
    assert not (path / CLEAN_SHUTDOWN).exists(), "a crash from now on is a crash"
    assert again.partitions() == {("orders", 3)}
    assert again.topic_id(TopicPartition("orders", 3)) == TOPIC_ID
    assert again.high_watermark(TopicPartition("orders", 3)) == 90
    log = again.open_log(TopicPartition("orders", 3), SMALL)
    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (10, 90, 90)
    assert read_all(log) == batches
    again.close(broker_epoch=None)
    assert not (path / CLEAN_SHUTDOWN).exists()


def test_meta_properties_are_kafkas(path):
    assert MetaProperties.load(path) == IDENTITY
    (path / "meta.properties").write_text(
        "#\n#Sat Nov 21 02:56:03 UTC 2026\nnode.id=1\ndirectory.id=7buGdvd-RxmSR5-Fqp82HA\nversion=1\n"
        "cluster.id=Vk_zJvdfRf6PsrkaTDAJ-A\n"
    )
    loaded = MetaProperties.load(path)
    assert (loaded.node_id, loaded.cluster_id) == (1, "Vk_zJvdfRf6PsrkaTDAJ-A")
    loaded.check(path, cluster_id=loaded.cluster_id, node_id=1)
    with pytest.raises(MetaPropertiesError, match="belongs to node 1, this process is of node 2"):
        loaded.check(path, cluster_id=None, node_id=2)
    with pytest.raises(MetaPropertiesError, match="belongs to cluster"):
        loaded.check(path, cluster_id="other", node_id=1)


@pytest.mark.parametrize("cluster_id", ["MkU3OEVBNTcwNTJENDM2Qg==", "my cluster", "käfer=1"])
def test_cluster_id_may_be_any_text(path, cluster_id):
    identity = replace(IDENTITY, cluster_id=cluster_id)
    identity.save(path)
    assert MetaProperties.load(path) == identity


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version=2\nnode.id=1\ncluster.id=x\n",
        "version=1\nnode.id=1\ncluster.id=x\vdirectory.id=7buGdvd-RxmSR5-Fqp82HA\n",
        "version=1\nnode.id=1\ncluster.id=xJdirectory.id=7buGdvd-RxmSR5-Fqp82HA\n",
        "version=1\nbroker.id=1\ncluster.id=x\n",
        "broker.id=1\n",
        "version=1\nnode.id=x\n",
        "version=1\nnode.id=1\ncluster.id=x\ndirectory.id=short\n",
        "\\u00",
    ],
)
def test_damaged_meta_properties_are_refused_and_named(path, text):
    (path / "meta.properties").write_text(text)
    with pytest.raises(MetaPropertiesError, match=r"meta\.properties"):
        LogDirectory(path)


@pytest.mark.parametrize("text", ["", "\n"])
def test_empty_meta_properties_are_reported(path, text):
    (path / "meta.properties").write_text(text)
    with pytest.raises(MetaPropertiesError, match=r"meta\.properties is damaged: it is empty"):
        LogDirectory(path)


def test_unformatted_directory_is_refused(tmp_path):
    with pytest.raises(MetaPropertiesError, match="not formatted"):
        LogDirectory(tmp_path)


def test_lock_excludes_this_and_other_processes(path):
    directory = LogDirectory(path)
    with pytest.raises(DirectoryLocked):
        LogDirectory(path)
    code = (
        "import sys, pathlib\n"
        "from trimaran.log.directories.directory import LogDirectory\n"
        "from trimaran.log.directories.directory_lock import DirectoryLocked\n"
        "try: LogDirectory(pathlib.Path(sys.argv[1]))\nexcept DirectoryLocked: sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 7
    directory.close(broker_epoch=None)
    LogDirectory(path).close(broker_epoch=None)


def test_lock_is_released_when_opening_fails(path):
    (path / "meta.properties").unlink()
    with pytest.raises(MetaPropertiesError):
        LogDirectory(path)
    IDENTITY.save(path)
    LogDirectory(path).close(broker_epoch=None)


def test_restart_changes_no_partition(path):
    directory = LogDirectory(path)
    for index in range(20):
        append(directory.create_log(TopicPartition("t", index), TOPIC_ID, SMALL))
    directory.close(broker_epoch=1)
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    opened = files.calls["open"]
    assert len(directory.partitions()) == 20
    assert (files.calls["open"], len(directory._logs)) == (opened, 0)
    directory.open_log(TopicPartition("t", 7), SMALL)
    assert len(directory._logs) == 1
    directory.close(broker_epoch=2)
    assert read_offsets(path / RECOVERY_POINTS) == {("t", index): 1 for index in range(20)}


def test_unopened_partition_survives_two_crashes(path):
    directory = LogDirectory(path)
    batches = read_all(fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 10))
    directory.close(broker_epoch=1)
    LogDirectory(path).close(broker_epoch=None)
    directory = LogDirectory(path)
    log = directory.open_log(TopicPartition("t", 0), SMALL)
    assert (log.flushed_offset, read_all(log)) == (30, batches)
    directory.close(broker_epoch=None)


def test_partition_is_created_and_deleted(path):
    directory = LogDirectory(path)
    log = directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL)
    assert directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL) is log
    assert read_partition_metadata(path / "t-0") == TOPIC_ID
    fill(log, 3)
    piece = log.read(0, 10_000, upto_offset=9, min_one=True)
    before = piece.read()
    directory.delete_log(TopicPartition("t", 0))
    assert ("t", 0) not in directory
    assert [name for name in os.listdir(path) if name.endswith("-delete")]
    fresh = directory.create_log(TopicPartition("t", 0), bytes(16), SMALL)
    assert fresh.log_end_offset == 0
    directory.purge(delay_ms=1)
    assert [name for name in os.listdir(path) if name.endswith("-delete")]
    directory.purge()
    assert not [name for name in os.listdir(path) if name.endswith("-delete")]
    assert piece.read() == before
    with pytest.raises(KafkaError) as raised:
        directory.open_log(TopicPartition("t", 9), SMALL)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    directory.close(broker_epoch=None)


def test_running_flush_ignores_deleted_partition_and_namesake(path):
    directory = LogDirectory(path)
    flush = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3).prepare_flush()
    assert flush.epochs is not None, "or the test shows nothing"
    directory.delete_log(TopicPartition("t", 0))
    flush.run()
    directory.create_log(TopicPartition("t", 0), bytes(16), SMALL)
    flush.run()
    assert directory.offline is None
    assert not (path / "t-0" / "leader-epoch-checkpoint").exists()
    directory.close(broker_epoch=None)


def test_deletion_interrupted_by_crash_is_completed(path):
    leftover = path / ("t-0." + "a" * 32 + "-delete")
    leftover.mkdir()
    (leftover / "00000000000000000000.log").write_bytes(b"x")
    directory = LogDirectory(path)
    assert directory.partitions() == set()
    directory.purge()
    assert not leftover.exists()
    directory.close(broker_epoch=None)


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\0", "x" * 250, "ä"])
def test_invalid_directory_names_have_no_partition(path, topic):
    directory = LogDirectory(path)
    with pytest.raises(KafkaError) as raised:
        directory.create_log(TopicPartition(topic, 0), TOPIC_ID, SMALL)
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    directory.close(broker_epoch=None)


def test_any_content_of_deleted_partition_is_removed(path):
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    (path / "t-0" / "snapshots" / "older").mkdir(parents=True)
    (path / "t-0" / "snapshots" / "older" / "note").write_text("whose?")
    (path / "t-0" / "link").symlink_to(path)
    directory.delete_log(TopicPartition("t", 0))
    directory.purge()
    assert directory.offline is None
    assert not list(path.glob("t-0*"))
    assert (path / "meta.properties").exists()


def test_foreign_name_with_delete_suffix_is_kept(path):
    """Kafka refuses to start with it; here it is not changed."""
    (path / "backup-delete").mkdir()
    (path / "backup-delete" / "all.tar").write_text("dear")
    (path / "notes-delete").write_text("dear")
    (path / "orders-3-future").mkdir()
    before = sorted(path.rglob("*"))
    directory = LogDirectory(path)
    directory.purge()
    assert directory.offline is None
    assert not list(directory.futures)
    assert set(before) <= set(path.rglob("*"))


def test_longest_topic_name_can_be_deleted(path):
    directory = LogDirectory(path)
    directory.create_log(TopicPartition("x" * 249, 0), TOPIC_ID, SMALL)
    directory.delete_log(TopicPartition("x" * 249, 0))
    assert any(child.name.endswith("-delete") for child in path.iterdir())
    directory.purge()
    assert not any(child.name.startswith("x") for child in path.iterdir())
    directory.close(broker_epoch=None)


@pytest.mark.parametrize("text", [None, b"", b"version: 0\n", bytes(60)])
def test_directory_without_finished_creation_is_a_stray(path, text):
    """KAFKA-16814: no record was flushed there, because a flush syncs the topic id."""
    directory = LogDirectory(path)
    append(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL))
    directory.close(broker_epoch=None)
    metadata = path / "t-0" / "partition.metadata"
    metadata.unlink() if text is None else metadata.write_bytes(text)
    directory = LogDirectory(path)
    assert directory.topic_id(TopicPartition("t", 0)) is None
    assert not directory.is_of(TopicPartition("t", 0), TOPIC_ID)
    directory.close(broker_epoch=None)


KAFKAS = b"version: 0\ntopic_id: ZGVmZ2hpamtsbW5vcHFyc"  # the last character follows


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"version: 0\n",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        bytes(60),
        KAFKAS,
        KAFKAS.replace(b"pa", b"p!") + b"w",
        KAFKAS.replace(b"pa", b"pA") + b"w",
    ],
)
def test_log_with_damaged_topic_id_matches_no_topic(path, text):
    """The log belongs neither to the topic nor to another one: it is not put aside, and the error names the file and
    the remedy.
    """
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    directory.close(broker_epoch=1)
    metadata = path / "t-0" / "partition.metadata"
    metadata.write_bytes(KAFKAS + b"w\n")
    directory = LogDirectory(path)
    assert directory.is_of(TopicPartition("t", 0), TOPIC_ID)
    assert not directory.is_of(TopicPartition("t", 0), bytes(range(16)))
    directory.close(broker_epoch=1)
    metadata.write_bytes(text)
    directory = LogDirectory(path)
    with pytest.raises(KafkaError, match=r"partition\.metadata is damaged.*Put .* back") as refused:
        directory.is_of(TopicPartition("t", 0), TOPIC_ID)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert directory.offline is None
    directory.close(broker_epoch=1)


def test_log_with_lost_topic_id_matches_no_topic(path):
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    directory.close(broker_epoch=1)
    (path / "t-0" / "partition.metadata").unlink()
    directory = LogDirectory(path)
    assert directory.topic_id(TopicPartition("t", 0)) is None
    with pytest.raises(KafkaError, match=r"partition\.metadata is missing"):
        directory.is_of(TopicPartition("t", 0), TOPIC_ID)
    directory.close(broker_epoch=1)


@pytest.mark.parametrize("error", ["EACCES", "EPERM", "EISDIR", "ELOOP"])
def test_unreadable_small_file_leaves_disk_online(path, error):
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    fill(directory.create_log(TopicPartition("u", 0), TOPIC_ID, SMALL), 3)
    directory.close(broker_epoch=1)
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    files.fail_at("read_bytes", error=getattr(errno, error))
    with pytest.raises(KafkaError, match=r"partition\.metadata cannot be read"):
        directory.is_of(TopicPartition("t", 0), TOPIC_ID)
    assert directory.is_of(TopicPartition("u", 0), TOPIC_ID)
    assert directory.open_log(TopicPartition("u", 0), SMALL).log_end_offset == 9
    files.fail_at("list_directory", error=getattr(errno, error))
    with pytest.raises(KafkaError, match=r"opening .*t-0"):
        directory.open_log(TopicPartition("t", 0), SMALL)
    assert directory.offline is None
    directory.close(broker_epoch=1)


@pytest.mark.parametrize("nth", range(1, 8))
def test_disk_error_under_small_file_takes_directory_offline(path, nth):
    """`nth`: meta.properties, the clean shutdown file, five checkpoints."""
    fill_and_close(path)
    files = FaultyFiles()
    files.fail_at("read_bytes", nth)
    with pytest.raises(KafkaError) as failed:
        LogDirectory(path, files=files)
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    directory = LogDirectory(path, files=files)
    files.fail_at("read_bytes")
    with pytest.raises(KafkaError):
        directory.topic_id(TopicPartition("t", 0))
    assert directory.offline is not None
    directory.close(broker_epoch=1)


def fill_and_close(path):
    directory = LogDirectory(path)
    batches = read_all(fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 20))
    directory.close(broker_epoch=1)
    return batches


def test_clean_marker_that_cannot_be_removed_is_ignored(path):
    """The marker would still be there after the next crash."""
    fill_and_close(path)
    files = FaultyFiles()
    files.fail_at("unlink", error=errno.EPERM)
    directory = LogDirectory(path, files=files)
    assert not directory.clean_shutdown
    directory.close(broker_epoch=None)


def test_log_ending_before_its_start_keeps_its_records(path):
    """A changed digit in the checkpoint would otherwise empty the log."""
    batches = fill_and_close(path)
    starts = (path / LOG_START_OFFSETS).read_bytes()
    (path / LOG_START_OFFSETS).write_bytes(b"0\n1\nt 0 800\n")
    directory = LogDirectory(path)
    with pytest.raises(KafkaError, match=r"starts at 800 by log-start-offset-checkpoint"):
        directory.open_log(TopicPartition("t", 0), SMALL)
    directory.close(broker_epoch=1)
    (path / LOG_START_OFFSETS).write_bytes(starts)
    directory = LogDirectory(path)
    assert read_all(directory.open_log(TopicPartition("t", 0), SMALL)) == batches
    directory.close(broker_epoch=1)


@pytest.mark.parametrize("name", [RECOVERY_POINTS, CLEANER_OFFSETS])
def test_gap_without_cleaner_checkpoint_counts_as_compacted(path, name):
    """Otherwise every batch behind it would be truncated."""
    directory = LogDirectory(path)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 40)
    log.flush()
    bases = log.segment_base_offsets
    directory.save_checkpoints()
    directory.write_checkpoints(directory.offsets.collect_cleaned({("t", 0): bases[2]}))
    directory.close(broker_epoch=None)
    for each_path in (path / "t-0").glob(f"{bases[1]:020d}.*"):
        each_path.unlink()
    (path / RECOVERY_POINTS).write_bytes(b"0\n0\n")
    (path / name).write_bytes(b"\xff")
    directory = LogDirectory(path)
    assert directory.open_log(TopicPartition("t", 0), SMALL).log_end_offset == 120
    directory.close(broker_epoch=None)


def test_empty_checkpoint_file_is_read_as_no_offsets(path):
    (path / RECOVERY_POINTS).write_bytes(b"")
    assert read_offsets(path / RECOVERY_POINTS) == {}


@pytest.mark.parametrize(
    "text",
    [b"0\n", b"0\n2\nt 0 5\n", b"1\n0\n", b"0\n1\nt x 5\n", b"0\n1\nt 0 -5\n", b"\xff\xfe"],
)
def test_damaged_checkpoints_are_reported_and_nothing_is_guessed(path, text, caplog):
    directory = LogDirectory(path)
    batches = read_all(fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 20))
    directory.close(broker_epoch=1)
    for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS):
        (path / name).write_bytes(text)
        with pytest.raises(CheckpointDamaged, match=name):
            read_offsets(path / name)
    (path / CLEAN_SHUTDOWN).unlink()
    directory = LogDirectory(path)
    damaged = [record.getMessage() for record in caplog.records]
    for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS):
        assert [name in line for line in damaged].count(True) == 1
    assert read_all(directory.open_log(TopicPartition("t", 0), SMALL)) == batches
    assert directory.high_watermark(TopicPartition("t", 0)) == 0
    directory.close(broker_epoch=None)


def test_log_is_dirty_from_its_cut_after_restart(path):
    """Appends behind the truncation were never compacted: a tombstone would be removed and the value before it
    reappear.
    """
    directory = LogDirectory(path)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 20)
    log.flush()
    directory.write_checkpoints(directory.offsets.collect_cleaned({("t", 0): 45}))
    log.truncate_to(30)
    assert read_offsets(path / CLEANER_OFFSETS) == {("t", 0): 30}
    directory.close(broker_epoch=1)
    assert LogDirectory(path).offsets.cleaner_offsets == {("t", 0): 30}


def test_truncation_lowers_checkpoint_before_removing_bytes(path):
    """Otherwise a crash after it would look like lost data, and the replica would be refused forever."""
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30)
    log.flush()
    directory.save_checkpoints()
    collected = directory.collect_checkpoints()
    log.truncate_to(30)
    assert read_offsets(path / RECOVERY_POINTS) == {("t", 0): 30}
    writer = threading.Thread(target=directory.write_checkpoints, args=[collected])
    writer.start()
    writer.join()
    assert read_offsets(path / RECOVERY_POINTS) == {("t", 0): 30}, "older than the truncation"
    directory.close(broker_epoch=None)
    directory = LogDirectory(path)
    assert directory.open_log(TopicPartition("t", 0), SMALL).log_end_offset == 30
    directory.close(broker_epoch=None)


def test_lowered_start_is_noted_even_without_synced_records(path):
    """Otherwise the next start would consider the records after it deleted."""
    directory = LogDirectory(path)
    log = directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL)
    log.truncate_fully_and_start_at(100)
    log._flushing.flushed_offset = (
        3  # as after the start of a log whose records were lost in a crash
    )
    directory.save_checkpoints()
    log.truncate_fully_and_start_at(50)
    fill(log, 2).flush()
    directory = killed(directory)
    log = directory.open_log(TopicPartition("t", 0), SMALL)
    assert (log.log_start_offset, log.log_end_offset) == (50, 56)
    directory.close(broker_epoch=None)


def killed(directory):
    """Leaves only the directory's files."""
    directory._lock.release()
    return LogDirectory(directory.path)


def deleted_and_made_again(directory):
    """Returns a log of three durable records that replaces a log of ninety."""
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30)
    log.delete_records_before(60)
    log.flush()
    directory.save_checkpoints({("t", 0): 90})
    collected = directory.collect_checkpoints({("t", 0): 90})
    directory.delete_log(TopicPartition("t", 0))
    fill(directory.create_log(TopicPartition("t", 0), bytes(16), SMALL), 1).flush()
    return collected


def test_namesake_does_not_inherit_checkpoints_of_deleted_partition(path):
    """Otherwise a process killed before the next checkpoint would leave a log that ends below the flushed offset, and
    is refused.
    """
    directory = LogDirectory(path)
    deleted_and_made_again(directory)
    directory = killed(directory)
    log = directory.open_log(TopicPartition("t", 0), SMALL)
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    assert directory.high_watermark(TopicPartition("t", 0)) == 0
    directory.close(broker_epoch=None)


def test_running_checkpoint_does_not_restore_deleted_entries(path):
    directory = LogDirectory(path)
    assert not directory.write_checkpoints(deleted_and_made_again(directory))
    directory = killed(directory)
    assert directory.open_log(TopicPartition("t", 0), SMALL).log_end_offset == 3
    directory.close(broker_epoch=None)


def test_namesake_after_crash_does_not_inherit_checkpoints(path):
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30).flush()
    directory.save_checkpoints()
    directory.delete_log(TopicPartition("t", 0))
    directory = killed(directory)
    fill(directory.create_log(TopicPartition("t", 0), bytes(16), SMALL), 1).flush()
    directory = killed(directory)
    assert directory.open_log(TopicPartition("t", 0), SMALL).log_end_offset == 3
    directory.close(broker_epoch=None)


def test_first_creation_of_partitions_writes_no_checkpoints(path):
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    directory.save_checkpoints({("t", 0): 9})
    directory.delete_log(TopicPartition("t", 0))
    directory.save_checkpoints({})
    syncs = files.calls["fdatasync"]
    for index in range(3):
        directory.create_log(TopicPartition("t", index), TOPIC_ID, SMALL)
    assert files.calls["fdatasync"] == syncs
    directory.close(broker_epoch=None)


def test_first_error_takes_directory_offline_without_clean_marker(path):
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    log = directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL)
    other = directory.create_log(TopicPartition("t", 1), TOPIC_ID, SMALL)
    append(log)
    files.fail_at("pwrite", 1, errno.EIO)
    with pytest.raises(KafkaError):
        append(log)
    assert "t-0" in directory.offline
    for action in (
        lambda: append(other),
        lambda: directory.create_log(TopicPartition("u", 0), TOPIC_ID, SMALL),
        lambda: directory.open_log(TopicPartition("t", 1), SMALL),
        lambda: directory.delete_log(TopicPartition("t", 1)),
        directory.save_checkpoints,
        directory.purge,
    ):
        with pytest.raises(KafkaError) as raised:
            action()
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    directory.close(broker_epoch=5)
    assert not (path / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("call", ["open", "pwrite", "fdatasync", "rename", "fsync_directory"])
def test_checkpoint_is_replaced_atomically(path, call):
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3).flush()
    directory.save_checkpoints()
    before = (path / RECOVERY_POINTS).read_bytes()
    fill(directory.open_log(TopicPartition("t", 0), SMALL), 3).flush()
    files.fail_at(call)
    with pytest.raises(KafkaError):
        directory.save_checkpoints()
    directory.close(broker_epoch=None)
    files.crash(keep_bytes=3)
    assert (path / RECOVERY_POINTS).read_bytes() == before


def test_foreign_entries_in_directory_remain(path):
    (path / "bootstrap.checkpoint").write_bytes(b"x")
    (path / "lost+found").mkdir()
    (path / "__cluster_metadata-0").mkdir()
    (path / "t-0.0123-stray").mkdir()
    directory = LogDirectory(path)
    assert directory.partitions() == set()
    assert ("__cluster_metadata", 0) in directory
    directory.purge()
    directory.close(broker_epoch=1)
    assert (path / "lost+found").exists()


def test_old_meta_properties_are_read_and_get_id(path):
    """Files of ZooKeeper's times (version 0, or without a version), and of Kafka before 3.7."""
    for text in (
        "version=0\nbroker.id=11\ncluster.id=Vk_zJvdfRf6PsrkaTDAJ-A\n",
        "broker.id=11\ncluster.id=Vk_zJvdfRf6PsrkaTDAJ-A\n",
        "version=1\nnode.id=11\ncluster.id=Vk_zJvdfRf6PsrkaTDAJ-A\n",
    ):
        (path / "meta.properties").write_text(text)
        directory = LogDirectory(path)
        meta = directory.meta_properties
        directory.close(broker_epoch=None)
        assert (meta.cluster_id, meta.node_id) == (IDENTITY.cluster_id, 11)
        assert MetaProperties.load(path) == meta
        assert meta.has_directory_id
        kept = dict(line.split("=", 1) for line in text.split())
        saved = (path / "meta.properties").read_text()
        assert all(f"{key}={value}" in saved for key, value in kept.items() if key != "version")


def test_stray_is_kept_for_operator(path):
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    directory.put_aside(TopicPartition("t", 0))
    assert directory.partitions() == set()
    directory.purge()
    [stray] = [name for name in os.listdir(path) if name.endswith("-stray")]
    assert (path / stray / "00000000000000000000.log").stat().st_size
    directory.close(broker_epoch=1)
    LogDirectory(path).close(broker_epoch=1)
    assert (path / stray).exists()


def test_after_crash_only_written_logs_are_checked(path):
    directory = LogDirectory(path)
    for index in range(3):
        fill(directory.create_log(TopicPartition("t", index), TOPIC_ID, SMALL), 3)
    directory.close(broker_epoch=1)
    directory = LogDirectory(path)
    for index in (1, 2):
        directory.open_log(TopicPartition("t", index), SMALL)
    append(directory.open_log(TopicPartition("t", 2), SMALL))
    directory.save_checkpoints()
    directory.close(broker_epoch=None)
    directory = LogDirectory(path)
    assert directory.unsettled() == [("t", 2)]
    assert directory.open_log(TopicPartition("t", 0), SMALL).log_end_offset == 9, (
        "checked when it is opened"
    )
    directory.close(broker_epoch=None)


def killed_with_a_log(path, files):
    """Leaves nine records in the page cache and none on disk, and a dead process."""
    directory = LogDirectory(path, files=files)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    directory.close(broker_epoch=None)


def test_clean_stop_syncs_unopened_logs_after_crash(path):
    """The next process considers all of it flushed, and reports so to its leader (P6)."""
    files = FaultyFiles()
    killed_with_a_log(path, files)
    LogDirectory(path, files=files).close(broker_epoch=7)
    files.crash()
    again = LogDirectory(path)
    assert again.previous_broker_epoch == 7
    assert again.open_log(TopicPartition("t", 0), SMALL).flushed_offset == 9
    again.close(broker_epoch=None)


def test_clean_marker_does_not_reappear_after_power_cut(path):
    """Otherwise the logs of that process would count as flushed (KAFKA-10471)."""
    LogDirectory(path).close(broker_epoch=7)
    files = FaultyFiles()
    files.watch(path)
    assert take_marker(path, files) == 7
    files.crash()
    assert not LogDirectory(path).clean_shutdown


def test_clean_stop_checks_unopened_logs_after_crash(path):
    killed_with_a_log(path, FaultyFiles())
    [segment] = path.glob("t-0/*.log")
    segment.write_bytes(segment.read_bytes()[:-5])
    LogDirectory(path).close(broker_epoch=7)
    again = LogDirectory(path)
    assert again.previous_broker_epoch == 7
    assert again.open_log(TopicPartition("t", 0), SMALL).log_end_offset == 6
    again.close(broker_epoch=None)


def test_stop_with_unchecked_logs_is_not_clean(path, monkeypatch, caplog):
    killed_with_a_log(path, FaultyFiles())
    monkeypatch.setattr(closing, "CHECK_SECONDS_MAX", -1.0)
    LogDirectory(path).close(broker_epoch=7)
    assert not (path / CLEAN_SHUTDOWN).exists()
    assert "1 logs are not checked" in caplog.text
    LogDirectory(path).close(broker_epoch=8)
    assert not (path / CLEAN_SHUTDOWN).exists(), "nor the time after"
    monkeypatch.undo()
    LogDirectory(path).close(broker_epoch=9)
    assert (path / CLEAN_SHUTDOWN).exists()


def test_damaged_log_does_not_prevent_clean_stop(path):
    files = FaultyFiles()
    killed_with_a_log(path, files)
    directory = LogDirectory(path, files=files)
    directory.open_log(TopicPartition("t", 0), SMALL).flush()
    directory.save_checkpoints()
    directory.close(broker_epoch=None)
    [segment] = path.glob("t-0/*.log")
    segment.write_bytes(b"")
    LogDirectory(path).close(broker_epoch=7)
    again = LogDirectory(path)
    assert again.clean_shutdown
    with pytest.raises(KafkaError):
        again.open_log(TopicPartition("t", 0), SMALL)
    again.close(broker_epoch=None)


def test_unchanged_checkpoint_is_not_written(path):
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    log.flush()
    directory.save_checkpoints({("t", 0): 5})
    calls = files.calls.copy()
    directory.save_checkpoints({("t", 0): 5})
    assert files.calls == calls
    directory.save_checkpoints({("t", 0): 6})
    assert files.calls["rename"] == calls["rename"] + 1
    directory.close(broker_epoch=None)


def test_many_logs_close_with_one_sync_durably(path, monkeypatch):
    monkeypatch.setattr("trimaran.log.directories.closing.SYNCS_MAX", 3)
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    logs = [
        fill(directory.create_log(TopicPartition("t", index), TOPIC_ID, SMALL), 30)
        for index in range(5)
    ]
    batches = [read_all(log) for log in logs]
    directory.close(broker_epoch=1)
    assert files.calls["sync_volume"] == 1
    files.crash()
    directory = LogDirectory(path)
    assert directory.clean_shutdown
    again = [directory.open_log(TopicPartition("t", index), SMALL) for index in range(5)]
    assert [read_all(log) for log in again] == batches
    assert {log.flushed_offset for log in again} == {90}
    directory.close(broker_epoch=2)


def test_logs_only_read_close_without_a_write(path):
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30)
    directory.close(broker_epoch=1)
    files = FaultyFiles()
    directory = LogDirectory(path, files=files)
    log = directory.open_log(TopicPartition("t", 0), SMALL)
    read_all(log)
    before = files.calls.copy()
    log.close()
    assert files.calls == before


def test_clean_marker_holds_broker_epoch(path):
    directory = LogDirectory(path)
    directory.broker_epoch = 77
    directory.close(broker_epoch=-1)
    again = LogDirectory(path)
    assert again.previous_broker_epoch == 77
    again.close(broker_epoch=None)


def test_truncation_noted_before_writes_nothing(path):
    directory = LogDirectory(path)
    logs = [
        fill(directory.create_log(TopicPartition("t", index), TOPIC_ID, SMALL), 30)
        for index in (0, 1)
    ]
    for log in logs:
        log.flush()
    directory.save_checkpoints()
    points = {("t", index): log.recovery_point_after(30) for index, log in enumerate(logs)}
    assert points == {("t", 0): 30, ("t", 1): 30}
    offsets = directory.offsets
    assert offsets.write(offsets.begin_lowering(points))
    offsets.end_lowering(points)
    assert read_offsets(path / RECOVERY_POINTS) == points
    before = (path / RECOVERY_POINTS).stat().st_ino
    for log in logs:
        log.truncate_to(30)
    assert (path / RECOVERY_POINTS).stat().st_ino == before
    assert offsets.begin_lowering(points) is None
    directory.close(broker_epoch=None)


def test_cut_is_durable_before_bytes_go_despite_writer(path):
    """A recovery point lowered in memory may not be on disk yet."""
    directory = LogDirectory(path)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30)
    log.flush()
    directory.save_checkpoints()
    lowered = directory.offsets.begin_lowering({("t", 0): 30})
    log.truncate_to(30)
    assert read_offsets(path / RECOVERY_POINTS) == {("t", 0): 30}
    assert not directory.offsets.write(lowered), "older than the truncation"
    assert directory.offsets.write(directory.offsets.collect_lowered())
    directory.close(broker_epoch=None)


@pytest.mark.parametrize(
    ("start", "cut", "point"), [(0, 30, 30), (0, 31, 30), (0, 0, 0), (40, 10, 0), (0, 90, None)]
)
def test_cut_reports_where_it_lowers_flushed_offset(path, start, cut, point):
    directory = LogDirectory(path)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30)
    log.flush()
    log.delete_records_before(start)
    assert log.recovery_point_after(cut) == point
    log.truncate_to(cut)
    assert log.flushed_offset == (
        90 if point is None else log.log_end_offset if point == 0 else point
    )
    directory.close(broker_epoch=None)


def test_cut_below_start_is_noted_without_flushed_records(path):
    """Otherwise the checkpoint of start offsets would be above the log's end."""
    directory = LogDirectory(path)
    log = fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30)
    log.delete_records_before(40)
    assert log.flushed_offset == 0
    assert log.recovery_point_after(10) == 0
    assert log.recovery_point_after(60) is None
    directory.close(broker_epoch=None)
