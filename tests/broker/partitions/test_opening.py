"""Opens the logs that a request names, with a pause after each."""

from __future__ import annotations

import threading

import pytest
import trio
from immutables import Map

from tests.broker.batches import append
from tests.broker.calls import finished
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.partitions import replica
from trimaran.broker.partitions.opening import opened_leader, opening
from trimaran.log.directories.directory import LogDirectory
from trimaran.node.runtime.pacing import run_handling
from trimaran.quorum.metadata.image import TopicImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.transport.scheduling.effects import Blocking


def opened(harness, keys, **fields):
    """Returns the names of the partitions that were opened and then led."""
    before = {held.name for held in harness.partitions if held.leader_or_none is not None}
    assert list(opening(harness.partitions, keys, **fields)) == [None] * len(keys)
    return [
        held.name
        for held in harness.partitions
        if held.leader_or_none is not None and held.name not in before
    ]


def close_unclean(harness):
    harness.partitions.close()
    harness.directory.close(broker_epoch=None)


def test_local_leaders_are_opened_by_name_or_id(harness):
    harness.set_image(
        topic("t", partition(), partition(), partition((11, 12), 12), partition((12,)))
    )
    harness.leader(index=1)
    keys = [("t", index) for index in range(5)] + [("u", 0), (b"?" * 16, 0)]
    assert opened(harness, keys[1:]) == []
    assert opened(harness, [(topic_id("t"), 0), *keys]) == ["t-0"]


@pytest.mark.parametrize(
    ("follower", "expected"), [(-1, ["t-0", "t-1"]), (12, ["t-1"]), (13, ["t-0", "t-1"])]
)
def test_follower_in_sync_needs_no_unused_log(harness, follower, expected):
    """The follower's fetch is answered, because the follower is in sync with an empty log."""
    harness.set_image(topic("t", partition((11, 12)), partition((11, 12), isr=(11,))))
    assert opened(harness, [("t", 0), ("t", 1)], follower_id=follower) == expected


async def test_large_producer_state_is_read_before_writing(tmp_path, monkeypatch):
    before = open_harness(tmp_path)
    before.set_image(topic("t", partition()))
    append(before, b"a")
    before.partitions.close()
    before.directory.close(broker_epoch=5)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    leader = harness.leader()
    size = leader.log.active_segment.size
    for limit, must_check in ((size, False), (size - 1, True), (0, True)):
        monkeypatch.setattr(replica, "READ_AT_ONCE_BYTES", limit)
        assert leader.replica.must_check == must_check
    await finished(opening(harness.partitions, [("t", 0)]))
    assert not leader.log.knows_producers
    await finished(opening(harness.partitions, [("t", 0)], for_writing=True))
    assert leader.log.knows_producers
    assert not leader.replica.must_check


def test_unclean_log_is_never_checked_on_loop(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    append(harness, b"a")
    close_unclean(harness)
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition(), partition()))
    first, second = again.partitions
    assert (first.must_check, second.must_check) == (True, False)
    first_effect = next(opening(again.partitions, [("t", 0)]))
    assert isinstance(first_effect, Blocking)
    again.leader()
    assert not first.must_check, "it is open"


@pytest.mark.parametrize("is_removed", [False, True])
def test_log_that_is_not_led_is_not_checked(tmp_path, is_removed):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    append(harness, b"a")
    close_unclean(harness)
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition((11, 12), leader=11 if is_removed else 12)))
    [held] = again.partitions
    if is_removed:
        held.close()
    assert held.must_check
    with pytest.raises(KafkaError) as refused:
        next(opened_leader(held))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_partition_deleted_during_check_releases_waiters(
    tmp_path, monkeypatch, is_made_again
):
    """The directory is deleted after the check; a new topic with its name that is created meanwhile begins
    empty (P14).
    """
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    append(harness, b"a")
    close_unclean(harness)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    begun, goes_on, waited = threading.Event(), threading.Event(), []
    real = LogDirectory.check_log

    def check_log(*arguments) -> None:
        with arguments[0]._alone(("t", 0)):
            begun.set()
            waited.append(not goes_on.wait(5))
        real(*arguments)

    monkeypatch.setattr(LogDirectory, "check_log", check_log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_handling, opening(harness.partitions, [("t", 0)]))
        await trio.to_thread.run_sync(begun.wait)
        harness.set_image()
        if is_made_again:
            harness.set_image(TopicImage("t", b"2" * 16, Map({0: partition()})))
            nursery.start_soon(run_handling, opening(harness.partitions, [("t", 0)]))
            await trio.testing.wait_all_tasks_blocked()
        goes_on.set()
    assert waited[:1] == [False], "the loop waited for the thread"
    directory = harness.directories.all[0]
    assert (("t", 0) in directory) is is_made_again
    if is_made_again:
        assert harness.leader().log.log_end_offset == 0
        assert directory.topic_id(TopicPartition("t", 0)) == b"2" * 16


async def test_unopenable_partition_does_not_delay_others(tmp_path):
    """Requests for it get the error."""
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    append(harness, b"a")
    gone, other = list(harness.partitions)
    harness.partitions.take_out(gone, "a bit flipped")
    await run_handling(opening(harness.partitions, [("t", 0), ("t", 1)]))
    assert gone.leader_or_none is None
    assert other.leader_or_none is not None
