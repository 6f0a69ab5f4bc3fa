"""When a check of suspect records takes a replica out of service (P17), and when it must not, one rule per test."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.batches import append
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.partitions import suspect_checks
from trimaran.broker.partitions.suspect_checks import check_suspects
from trimaran.broker.partitions.suspects import LOOK_BYTES_MAX, Suspects
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

BATCH_BYTES = 69  # size of a batch with one record of one byte
MANY = 1 << 20


def state(isr=(11, 12), leader=11, epoch=0):
    return topic(
        "t", partition((11, 12), leader, isr=isr, leader_epoch=epoch, partition_epoch=epoch)
    )


@pytest.fixture
def harness(tmp_path):
    """Returns the leader of three batches."""
    harness = open_harness(tmp_path)
    harness.set_image(state())
    for value in (b"a", b"b", b"c"):
        append(harness, value)
    harness.flush()
    return harness


def flip(harness, position):
    """Flips one bit of the first segment."""
    with (harness.leader().log.directory / f"{0:020d}.log").open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


async def is_found_damaged(harness, offset=0, size=MANY):
    """Whether the replica was taken out of service."""
    held = harness.partitions.find(TopicPartition("t", 0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(check_suspects, harness.partitions)
        held.services.suspects.add(TopicPartition("t", 0), offset, size)
        with trio.fail_after(60):
            while held.services.suspects._waiting:
                await trio.lowlevel.checkpoint()
            await looked(held)
        nursery.cancel_scope.cancel()
    return is_out(held)


async def looked(held):
    """Requests another check, which begins when the current one ends."""
    held.services.suspects.add(TopicPartition("t", 0), 1 << 40, 1)
    while held.services.suspects._waiting:
        await trio.lowlevel.checkpoint()
    await trio.testing.wait_all_tasks_blocked()


def is_out(held):
    if not held.leads:
        return False
    try:
        held.open_leader()
    except KafkaError as error:
        return error.code is ErrorCode.KAFKA_STORAGE_ERROR
    return False


def meanwhile(monkeypatch, change):
    """Runs `change` while a thread checks the records."""
    real = suspect_checks.run_blocking

    async def run_blocking(*work):
        change()
        return await real(*work)

    monkeypatch.setattr(suspect_checks, "run_blocking", run_blocking)


async def test_damaged_records_take_the_replica_out_of_service(harness):
    flip(harness, 65)
    assert await is_found_damaged(harness)


@pytest.mark.parametrize(
    "position",
    [
        BATCH_BYTES + 7,  # offset 1 becomes 0, the offset of the previous batch
        2 * BATCH_BYTES + 7,  # offset 2 becomes 3, the end of the log
    ],
)
async def test_impossible_offsets_take_replica_out_of_service(harness, position):
    """No CRC covers the base offsets of batches."""
    flip(harness, position)
    assert await is_found_damaged(harness)


EPOCH_END = 15  # the end of a batch's leader epoch, which no CRC covers


@pytest.mark.parametrize("batch", [1, 2], ids=["between others", "the last"])
async def test_unknown_epoch_takes_replica_out_of_service(harness, batch):
    flip(harness, batch * BATCH_BYTES + EPOCH_END)
    assert await is_found_damaged(harness)


async def test_decreasing_epoch_takes_replica_out_of_service(harness):
    """Epoch 1 becomes epoch 0 again."""
    harness.set_image(state(epoch=1))
    for value in (b"d", b"e"):
        append(harness, value)
    harness.flush()
    assert not await is_found_damaged(harness), "0, 0, 0, 1, 1"
    flip(harness, 4 * BATCH_BYTES + EPOCH_END)
    assert await is_found_damaged(harness), "0, 0, 0, 1, 0"


async def test_damage_is_the_reason_though_records_are_missing(harness, caplog):
    flip(harness, 65)
    harness.partitions.find(TopicPartition("t", 0)).known_end = 9
    assert await is_found_damaged(harness)
    assert "damaged from offset 0 on" in caplog.text


@pytest.mark.parametrize("known_end", [0, 2, 3])
async def test_sound_and_whole_log_stays_in_service(harness, known_end):
    harness.partitions.find(TopicPartition("t", 0)).known_end = known_end
    assert not await is_found_damaged(harness)


async def test_sole_in_sync_replica_continues(harness, caplog):
    flip(harness, 65)
    harness.set_image(state(isr=(11,), epoch=1))
    harness.leader()
    assert not await is_found_damaged(harness)
    assert "no other replica is in sync" in caplog.text


async def test_only_records_given_to_follower_are_examined(harness):
    flip(harness, BATCH_BYTES + 65)
    assert not await is_found_damaged(harness, size=BATCH_BYTES)
    assert not await is_found_damaged(harness, offset=2)
    assert await is_found_damaged(harness, offset=1, size=1)


async def test_read_size_is_bounded_by_answer_size(harness, monkeypatch):
    sizes = []
    real = PartitionLog.read

    def read(self, offset, size, **limits):
        sizes.append(size)
        return real(self, offset, size, **limits)

    monkeypatch.setattr(PartitionLog, "read", read)
    await is_found_damaged(harness, size=1 << 40)
    await is_found_damaged(harness, size=7)
    assert sizes[0] == 16 << 20
    assert 7 in sizes


async def test_missing_records_are_not_damaged(harness):
    """Missing records were deleted, or are not written yet."""
    flip(harness, 65)
    harness.set_image(state(isr=(11,), epoch=1))
    harness.leader().delete_records_before(1)
    harness.set_image(state(epoch=2))
    harness.leader()
    assert not await is_found_damaged(harness, offset=0)
    assert not await is_found_damaged(harness, offset=77)


async def test_epoch_ended_meanwhile_is_not_suspected(harness, monkeypatch, caplog):
    """The log may be a different one by then, or truncated."""
    flip(harness, 65)
    meanwhile(monkeypatch, lambda: harness.set_image(state(epoch=1)))
    assert not await is_found_damaged(harness)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_released_log_is_never_called_damaged(harness, monkeypatch):
    flip(harness, 65)
    held = harness.partitions.find(TopicPartition("t", 0))
    meanwhile(monkeypatch, held.release_log)
    assert not await is_found_damaged(harness)


async def test_former_leader_is_not_examined(harness):
    flip(harness, 65)
    harness.set_image(state(leader=12, epoch=1))
    assert not await is_found_damaged(harness)
    harness.set_image(state(epoch=2))
    assert not await is_found_damaged(harness), "nobody has asked for this epoch yet"


async def test_unreadable_disk_is_reported(harness, monkeypatch):
    def read(self, *_, **__):
        raise OSError("input/output error")

    monkeypatch.setattr(PartitionLog, "read", read)
    log = harness.leader().log
    await is_found_damaged(harness)
    assert "input/output error" in log.health.offline


@pytest.mark.parametrize("isr", [(11, 12), (11,)])
async def test_failed_disk_makes_no_damaged_replica(harness, monkeypatch, caplog, isr):
    """All replicas of its directory leave with it."""
    log = harness.leader().log

    def read(self, *_, **__):
        self.health.fail("input/output error")
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "input/output error")

    monkeypatch.setattr(PartitionLog, "read", read)
    taken = []
    monkeypatch.setattr(harness.partitions, "take_out", lambda *which: taken.append(which))
    harness.set_image(state(isr=isr, epoch=1))
    harness.leader()
    await is_found_damaged(harness)
    assert log.health.offline is not None
    assert (taken, caplog.records) == ([], [])


async def test_each_partition_is_examined_at_latest_suspicion(harness):
    flip(harness, BATCH_BYTES + 65)
    held = harness.partitions.find(TopicPartition("t", 0))
    held.services.suspects.add(TopicPartition("t", 0), 2, MANY)
    assert await is_found_damaged(harness, offset=1)


async def test_lost_index_is_rebuilt_before_records_are_checked(harness):
    """The lost index may be the only fault, which the follower's next fetch shows."""
    flip(harness, 65)
    log = harness.partitions.find(TopicPartition("t", 0)).open_log
    log._lost_indexes.add(log.active_segment)
    assert not await is_found_damaged(harness)
    assert not log.lacks_index
    assert await is_found_damaged(harness)


async def test_removed_partition_is_not_examined(harness):
    harness.partitions.suspects.add(TopicPartition("gone", 0), 0, MANY)
    flip(harness, 65)
    assert await is_found_damaged(harness)
    assert harness.partitions.suspects._waiting == {}


KEYS = st.sampled_from([TopicPartition("t", 0), TopicPartition("t", 1)])
REQUESTS = st.tuples(KEYS, st.integers(0, 3), st.sampled_from([1, 7, LOOK_BYTES_MAX + 1]))


@given(st.lists(REQUESTS, max_size=8))
def test_first_request_at_lowest_offset_is_kept(requests):
    suspects = Suspects()
    for request in requests:
        suspects.add(*request)
    least = {
        key: min((one for one in requests if one[0] == key), key=lambda one: one[1])
        for key, _, _ in requests
    }
    assert suspects._waiting == {
        key: (key, offset, min(size, LOOK_BYTES_MAX)) for key, offset, size in least.values()
    }
