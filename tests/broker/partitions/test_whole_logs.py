"""P19: a replica that has lost committed records does not lead, and its followers do not truncate because of it."""

from __future__ import annotations

import logging

import pytest

from tests.broker.partitions.replicas import append, brokers, until
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.partitions.follower import PartitionFollower
from trimaran.broker.partitions.suspects import LOOK_BYTES_MAX
from trimaran.log.disk.checkpoints import WRITTEN_LOGS
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.metadata.image import LOST_DIRECTORY, TopicImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

REPLICAS = (11, 12, 13)
LOST = ((topic_id("t"), 0), LOST_DIRECTORY)


def state(leader, epoch, isr=REPLICAS, replicas=REPLICAS, **changes) -> TopicImage:
    changes = {"leader_epoch": epoch, "partition_epoch": epoch, **changes}
    return topic("t", partition(replicas, leader, isr=isr, **changes))


ALONE = {"replicas": (11,), "isr": (11,)}


def restarted(path, *, clean=True, loses=True, **settings):
    """Returns a broker that led three records and lost them from its disk in a restart, and its reports about it."""
    harness = open_harness(path, **settings)
    harness.set_image(state(11, 0, **ALONE))
    append(harness, b"a", b"b", b"c")
    harness.flush()
    harness.directory.save_checkpoints(at_once(harness.partitions.watermarks()))
    harness.partitions.close()
    harness.directory.close(broker_epoch=5 if clean else None)
    if loses:
        for file in (path / "t-0").glob("0*"):
            file.unlink()
        (path / "recovery-point-offset-checkpoint").unlink()
    again = open_harness(path, **settings)
    told = []
    again.directories.on_placed = lambda *placed: told.append(placed)
    return again, told


def leads(harness, epoch=1, **changes) -> int:
    harness.set_image(state(11, epoch, **{**ALONE, **changes}))
    return harness.leader().log.log_end_offset


def refused(harness, epoch=1, **changes) -> str:
    with pytest.raises(KafkaError) as error:
        leads(harness, epoch, **changes)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return error.value.message


def test_log_shorter_than_saved_watermark_does_not_lead(tmp_path, caplog):
    harness, told = restarted(tmp_path)
    assert "ends at offset 0 here, but records up to offset 3 were committed" in refused(harness)
    assert refused(harness, epoch=2) == refused(harness, epoch=3), "until a human has looked"
    assert set(told) == {LOST}
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1, "once"


def test_operator_may_accept_the_loss(tmp_path):
    harness, _ = restarted(tmp_path)
    refused(harness)
    harness.directory.save_checkpoints(at_once(harness.partitions.watermarks()))
    harness.partitions.close()
    harness.directory.close(broker_epoch=5)
    (tmp_path / "t-0" / "damaged").unlink()
    assert leads(open_harness(tmp_path), epoch=2) == 0


def test_unclean_election_accepts_the_loss(tmp_path):
    harness, _ = restarted(tmp_path)
    assert leads(harness, leader_recovery_state=1) == 0
    assert leads(harness, epoch=2) == 0, "nothing else is known any more"


def crashed(harness, path):
    """Returns the next process, after this one died without writing another checkpoint."""
    harness.flush()
    harness.partitions.close()
    harness.directory.close(broker_epoch=None)
    return open_harness(path)


def test_unclean_election_survives_a_crash(tmp_path):
    harness, _ = restarted(tmp_path)
    leads(harness, leader_recovery_state=1)
    append(harness, b"d")
    assert leads(crashed(harness, tmp_path), epoch=2) == 1


@pytest.mark.parametrize("cut", [PartitionFollower.truncate_to, PartitionFollower.start_at])
def test_crash_does_not_undo_followers_truncation(tmp_path, cut):
    harness, _ = restarted(tmp_path, loses=False)
    harness.set_image(state(12, 1, isr=(11, 12)))
    follower = harness.partitions.find(TopicPartition("t", 0)).open_follower()
    cut(follower, 1)
    end = follower.log.log_end_offset
    assert end < 3
    assert leads(crashed(harness, tmp_path), epoch=2, replicas=REPLICAS) == end


async def test_truncation_in_thread_lowers_the_watermark(tmp_path):
    harness, _ = restarted(tmp_path, loses=False)
    harness.set_image(state(12, 1, isr=(11, 12)))
    harness.partitions.find(TopicPartition("t", 0)).open_follower()
    await harness.directories.lower_recovery_points({("t", 0): 1})
    assert "t 0 1\t" in (tmp_path / "replication-offset-checkpoint").read_text()


@pytest.mark.parametrize("clean", [True, False])
def test_complete_log_leads(tmp_path, clean):
    harness, told = restarted(tmp_path, clean=clean, loses=False)
    assert leads(harness) == 3
    assert LOST not in told


def test_crash_excuses_no_lost_committed_records(tmp_path):
    harness, told = restarted(tmp_path, clean=False)
    assert (tmp_path / WRITTEN_LOGS).exists()
    assert "records up to offset 3 were committed" in refused(harness)
    assert LOST in told


def test_crash_may_lose_unflushed_records(tmp_path):
    """`trimaran.log.fsync=none` behaves as Kafka; but a clean shutdown flushes all logs."""
    settings = {"trimaran_log_fsync": "none"}
    harness, _ = restarted(tmp_path / "crash", clean=False, **settings)
    assert leads(harness) == 0
    harness, _ = restarted(tmp_path / "clean", **settings)
    refused(harness)


def test_flush_mode_does_not_excuse_lost_records(tmp_path):
    """A broker that lost records in a crash may be configured to flush at the next start."""
    harness, _ = restarted(tmp_path, clean=False, trimaran_log_fsync="none")
    harness.partitions.close()
    harness.directory.close(broker_epoch=None)
    assert leads(open_harness(tmp_path)) == 0


def test_clean_shutdown_of_kafka_has_flushed_all_logs(tmp_path):
    """Kafka does not note which logs are written."""
    harness, _ = restarted(tmp_path)
    harness.partitions.close()
    harness.directory.close(broker_epoch=5)
    (tmp_path / WRITTEN_LOGS).unlink()
    assert "records up to offset 3 were committed" in refused(open_harness(tmp_path))


def test_incomplete_log_is_released_though_disk_fails(tmp_path, monkeypatch):
    harness, _ = restarted(tmp_path)

    def fails(*_):
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    monkeypatch.setattr(harness.directories, "take_out", fails)
    assert refused(harness) == "the disk is full"
    assert harness.partitions.find(TopicPartition("t", 0)).open_log is None


def test_crash_of_kafka_may_lose_unflushed_records(tmp_path):
    harness = open_harness(tmp_path)
    harness.directory.close(broker_epoch=None)
    (tmp_path / "x").mkdir()
    harness, _ = restarted(tmp_path / "x", clean=False, loses=False)
    harness.partitions.close()
    harness.directory.close(broker_epoch=None)
    for name in (WRITTEN_LOGS, "recovery-point-offset-checkpoint"):
        (tmp_path / "x" / name).unlink()
    for file in (tmp_path / "x" / "t-0").glob("0*"):
        file.unlink()
    assert leads(open_harness(tmp_path / "x")) == 0


def test_returning_isr_member_has_all_committed_records(tmp_path):
    """The member followed another history meanwhile, after an unclean election that it has not seen."""
    harness, _ = restarted(tmp_path)
    harness.set_image(state(12, 1, isr=(12,)))
    held = harness.partitions.find(TopicPartition("t", 0))
    assert held.open_follower().position().offset == 0
    assert held.known_end == 3
    harness.set_image(state(12, 1, isr=(12, 11), partition_epoch=2))
    assert leads(harness, epoch=3, replicas=REPLICAS) == 0


def test_incomplete_isr_member_does_not_lead(tmp_path):
    harness, _ = restarted(tmp_path)
    harness.set_image(state(12, 1, isr=(11, 12)))
    harness.partitions.find(TopicPartition("t", 0)).open_follower()
    assert "up to offset 3 were committed" in refused(harness, epoch=2, replicas=REPLICAS)


@pytest.mark.parametrize("cut", [PartitionFollower.truncate_to, PartitionFollower.start_at])
def test_truncated_follower_forgets_removed_records(tmp_path, cut):
    harness, _ = restarted(tmp_path, loses=False)
    harness.set_image(state(12, 1, isr=(11, 12)))
    follower = harness.partitions.find(TopicPartition("t", 0)).open_follower()
    cut(follower, 1)
    assert leads(harness, epoch=2, replicas=REPLICAS) == follower.log.log_end_offset


def test_shorter_log_never_replaces_longer_in_epoch(harness):
    """This holds whatever made the files disappear."""
    harness.set_image(state(11, 0))
    append(harness, b"a")
    held = harness.partitions.find(TopicPartition("t", 0))
    harness.partitions.reopen([held], lambda: harness.directory.delete_log(TopicPartition("t", 0)))
    with pytest.raises(KafkaError, match="ends at offset 0 here"):
        harness.leader()


async def test_longer_follower_of_epoch_keeps_its_records(tmp_path, caplog):
    """The leader lost records that it had replicated in its own epoch."""
    told = []
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(state(11, 4, (11, 12), (11, 12)))
        append(cluster[11], b"a")
        append(cluster[11], b"b")
        await until(lambda: cluster.partition(12).log.flushed_offset == 2)
        cluster[11].directories.on_placed = lambda *placed: told.append(placed)
        cluster[11].leader().log.truncate_to(1)
        cluster.partition(11).watchers.notify_all()
        await until(lambda: LOST in told)
        assert cluster.partition(12).log.log_end_offset == 2
        assert "t-0 ends at offset 1 here, but records up to offset 2 were committed" in caplog.text
        with pytest.raises(KafkaError):
            cluster[11].leader()


@pytest.mark.parametrize(("last_epoch", "isr"), [(3, (11, 12)), (4, (11,))])
def test_only_in_sync_replicas_know_committed_offset(harness, last_epoch, isr):
    harness.set_image(state(11, 4, isr, (11, 12)))
    append(harness, b"a")
    harness.leader().check_not_outrun(12, 9, last_epoch)
    harness.leader().check_not_outrun(12, 1, 4)
    append(harness, b"b")


@pytest.mark.parametrize(("given", "start", "first"), [(0, 0, 0), (2, 1, 2), (1, 2, 2)])
def test_outrun_leader_checks_what_it_sent(harness, given, start, first):
    """The leader's records may be damaged: then another replica leads."""
    harness.set_image(state(11, 4, (11, 12), (11, 12)))
    append(harness, b"a", b"b", b"c")
    leader = harness.leader()
    leader.records_sent(12, given, 9)
    leader.log.delete_records_before(start)
    with pytest.raises(
        KafkaError, match="ends at offset 3 here, but records up to offset 7"
    ) as error:
        leader.check_not_outrun(12, 7, 4)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    key = TopicPartition("t", 0)
    assert harness.partitions.suspects._waiting == {key: (key, first, LOOK_BYTES_MAX)}


def test_nothing_is_appended_if_anything_is_missing(harness):
    harness.set_image(state(11, 4, (11, 12), (11, 12)))
    append(harness, b"a")
    with pytest.raises(KafkaError) as error:
        harness.leader().check_not_outrun(12, 2, 4)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as error:
        append(harness, b"b")
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
