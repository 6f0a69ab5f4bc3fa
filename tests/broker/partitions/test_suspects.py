"""Damage on a leader's disk: a follower detects it, the leader checks its records, and another in-sync replica takes
over (P17).
"""

from __future__ import annotations

import logging

import pytest

from tests.broker.partitions.replicas import append, brokers, until
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.partitions.isr import ReplicaProgress
from trimaran.quorum.metadata.image import LOST_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

pytestmark = pytest.mark.slow

REPLICAS = (11, 12, 13)
BATCH_BYTES = 69  # size of a batch with one record of one byte
FAR = 2 * BATCH_BYTES + 2  # in the offset of the last batch


def state(leader, epoch, isr):
    image = partition(REPLICAS, leader, isr=isr, leader_epoch=epoch, partition_epoch=epoch)
    return topic("t", image)


def flip(log, position: int) -> None:
    """Flips one bit of the first segment, `position` bytes from its start."""
    with (log.directory / f"{0:020d}.log").open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def errors(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def replicate_to_13(cluster, isr=REPLICAS):
    """Replicates three records from 11 to 13; 12 has none yet."""
    cluster.assign(state(11, 0, isr))
    cluster[12].set_image(state(-1, 0, isr))
    for value in (b"a", b"b", b"c"):
        append(cluster[11], value)
    await until(lambda: cluster.partition(13).log.flushed_offset == 3)


@pytest.mark.parametrize(
    ("position", "what"),
    [
        (65, "wrong CRC"),
        (BATCH_BYTES + 65, "wrong CRC"),
        (16, "magic"),
        # no CRC covers these: the offset, and the leader epoch
        (2, "cannot be there"),
        (FAR, "cannot be there"),
        (BATCH_BYTES + 13, "cannot be there"),
    ],
)
async def test_leader_with_damaged_records_makes_room(tmp_path, caplog, position, what):
    told = []
    async with brokers(tmp_path, *REPLICAS) as cluster:
        await replicate_to_13(cluster)
        cluster[11].directories.on_placed = lambda *placed: told.append(placed)
        flip(cluster[11].leader().log, position)
        cluster[12].set_image(state(11, 0, REPLICAS))
        await until(lambda: told)
        assert told[0] == ((topic_id("t"), 0), LOST_DIRECTORY)
        assert any(what in line and "out of service" in line for line in errors(caplog))
        with pytest.raises(KafkaError) as refused:
            cluster[11].leader()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        # as the controller does
        cluster.assign(state(13, 1, (12, 13)))
        append(cluster[13], b"d")
        await until(lambda: cluster.partition(12).log.flushed_offset == 4)
        sound = position // BATCH_BYTES  # batches in front of the damage
        told_by_12 = f"t-0 is not replicated from broker 11, epoch 0, at offset {sound}: "
        # which it takes for a gap left by compaction, and serves
        assert told_by_12 in caplog.text or position == FAR
        logs = [cluster.partition(index).log for index in (12, 13)]
        whole = [log.read_bytes(0, 1 << 20, upto_offset=4) for log in logs]
        assert whole[0] == whole[1]


async def test_damaged_replica_stays_out_after_clean_restart(tmp_path):
    """A clean start checks only the end of a log; a damaged replica must not follow and rejoin the ISR."""
    harness = open_harness(tmp_path)
    harness.set_image(state(11, 0, REPLICAS))
    append(harness, b"a")
    harness.flush()
    harness.partitions.take_out(harness.partitions.find(TopicPartition("t", 0)), "a bit flipped")
    harness.partitions.close()
    harness.directory.close(broker_epoch=5)
    again = open_harness(tmp_path)
    again.set_image(state(11, 1, REPLICAS))
    with pytest.raises(KafkaError, match="a bit flipped"):
        again.leader()
    (tmp_path / "t-0" / "damaged").unlink()  # an operator overrides it
    again.partitions.close()
    again.directory.close(broker_epoch=5)
    mended = open_harness(tmp_path)
    mended.set_image(state(11, 2, REPLICAS))
    assert mended.leader().log.log_end_offset == 1


async def test_sole_in_sync_replica_continues_with_warning(tmp_path, caplog):
    async with brokers(tmp_path, *REPLICAS) as cluster:
        await replicate_to_13(cluster, isr=(11,))
        flip(cluster[11].leader().log, 65)
        cluster[12].set_image(state(11, 0, (11,)))
        await until(lambda: any("no other replica is in sync" in error for error in errors(caplog)))
        assert not cluster[11].leader().ended


async def test_repeated_requests_for_sound_records_are_harmless(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(state(11, 0, REPLICAS))
    append(harness, b"a")
    held = harness.partitions.find(TopicPartition("t", 0))
    suspects = held.services.suspects
    for _ in range(3):
        harness.leader().records_sent(12, 0, 1 << 20)
    assert list(suspects._waiting) == [("t", 0)]


def test_follower_given_same_records_repeatedly_is_suspect():
    progress = ReplicaProgress()
    assert [progress.records_sent(5) for _ in range(10)] == [n in (2, 4, 8) for n in range(10)]
    assert [progress.records_sent(offset) for offset in (6, 6, 7, 7, 6)] == [False] * 5
