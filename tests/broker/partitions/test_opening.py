"""Which logs are opened before a request is handled, and when that takes turns."""

from __future__ import annotations

import threading

import pytest
import trio
from immutables import Map

from tests.broker.batches import append
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.partitions import opening
from trimaran.broker.partitions.opening import (
    OPENED_PER_TURN,
    open_leaders,
    opened_first,
    takes_one_turn,
    unopened,
    unopened_of_many,
)
from trimaran.log.directories.directory import LogDirectory
from trimaran.node.runtime import turns as runtime_turns
from trimaran.quorum.metadata.image import TopicImage
from trimaran.wire.identity import TopicPartition
from trimaran.wire.transport.requests.calls import DeferredResponse


def names(found):
    return [one.name for one in found]


def close_unclean(harness):
    harness.partitions.close()
    harness.directory.close(broker_epoch=None)


def test_unopened_local_leaders_are_found(harness):
    harness.set_image(
        topic("t", partition(), partition(), partition((11, 12), 12), partition((12,)))
    )
    harness.leader(index=1)
    keys = [("t", index) for index in range(5)] + [("u", 0), (topic_id("t"), 0), (b"?" * 16, 0)]
    assert names(unopened(harness.partitions, keys)) == ["t-0", "t-0"]


def test_a_follower_need_not_have_unused_partitions_opened(harness):
    """Its fetch is answered as in sync with nothing."""
    harness.set_image(topic("t", partition((11, 12)), partition((11, 12), isr=(11,))))
    keys = [("t", 0), ("t", 1)]
    assert names(unopened(harness.partitions, keys)) == ["t-0", "t-1"]
    assert names(unopened(harness.partitions, keys, follower_id=12)) == ["t-1"]
    assert names(unopened(harness.partitions, keys, follower_id=13)) == ["t-0", "t-1"]


def test_writing_needs_the_producer_state(tmp_path):
    """The first append reads what the log knows of them."""
    before = open_harness(tmp_path)
    before.set_image(topic("t", partition()))
    append(before, b"a")
    before.partitions.close()
    before.directory.close(broker_epoch=5)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    leader = harness.leader()
    assert not leader.log.knows_producers
    assert unopened(harness.partitions, [("t", 0)]) == []
    assert names(unopened(harness.partitions, [("t", 0)], for_writing=True)) == ["t-0"]
    assert leader.log.producers is not None
    assert leader.log.knows_producers
    assert unopened(harness.partitions, [("t", 0)], for_writing=True) == []


def test_only_few_logs_open_within_a_turn(harness):
    harness.set_image(topic("t", *[partition()] * (OPENED_PER_TURN + 1)))
    found = unopened(harness.partitions, [("t", n) for n in range(OPENED_PER_TURN + 1)])
    assert takes_one_turn([])
    assert takes_one_turn(found[:-1])
    assert not takes_one_turn(found)


def test_unclean_log_is_never_checked_on_loop(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    append(harness, b"a")
    close_unclean(harness)
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition(), partition()))
    first, second = again.partitions
    assert (first.must_check, second.must_check) == (True, False)
    assert not takes_one_turn([second, first])
    again.leader()
    assert not first.must_check, "it is open"


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_partition_deleted_during_check_releases_waiters(
    tmp_path, monkeypatch, is_made_again
):
    """Its directory goes when the check is done; a topic of its name that comes meanwhile begins empty (P14)."""
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
        nursery.start_soon(open_leaders, list(harness.partitions))
        await trio.to_thread.run_sync(begun.wait)
        harness.set_image()
        if is_made_again:
            harness.set_image(TopicImage("t", b"2" * 16, Map({0: partition()})))
            nursery.start_soon(open_leaders, list(harness.partitions))
            await trio.testing.wait_all_tasks_blocked()
        goes_on.set()
    assert waited[:1] == [False], "the loop waited for the thread"
    directory = harness.directories.all[0]
    assert (("t", 0) in directory) is is_made_again
    if is_made_again:
        assert harness.leader().log.log_end_offset == 0
        assert directory.topic_id(TopicPartition("t", 0)) == b"2" * 16


async def test_unopenable_partition_does_not_delay_others(tmp_path):
    """Requests for it get the reason."""
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    append(harness, b"a")
    gone, other = list(harness.partitions)
    found = [gone, other]
    harness.partitions.take_out(gone, "a bit flipped")
    await open_leaders(found)
    assert gone.leader_or_none is None
    assert other.leader_or_none is not None


@pytest.fixture
def turns(monkeypatch):
    """The callback that lets others run, with three items a turn."""
    turns = []

    async def others():
        for look in turns:
            look()
        await trio.lowlevel.checkpoint()

    for module in (opening, runtime_turns):
        monkeypatch.setattr(module, "yield_to_loop", others)
    monkeypatch.setattr(opening, "OPENED_PER_TURN", 3)
    monkeypatch.setattr(opening, "KEYS_PER_TURN", 3)
    return turns


async def test_loop_yields_while_many_logs_are_opened(harness, turns):
    harness.set_image(topic("t", *[partition() for _ in range(7)]))
    keys = [("t", index) for index in range(7)]
    looked_for, opened = [], []
    turns.append(lambda: looked_for.append(None))
    found = await unopened_of_many(harness.partitions, keys)
    assert names(found) == [f"t-{index}" for index in range(7)]
    assert len(looked_for) == 2, "behind each whole piece"
    turns[:] = [lambda: opened.append(sum(one.leader_or_none is not None for one in found))]
    await open_leaders(found)
    assert opened == [3, 6]


async def test_the_answer_is_made_when_all_are_open(harness):
    count = OPENED_PER_TURN + 1
    harness.set_image(topic("t", *[partition()] * count))
    keys = [("t", index) for index in range(count)]

    def answer():
        return len([one for one in harness.partitions if one.leader_or_none is not None])

    assert opened_first(harness.partitions, keys[:1], answer) == 0, "at once: it opens its own"
    parked = opened_first(harness.partitions, keys, answer)
    assert isinstance(parked, DeferredResponse)
    assert await parked.finish() == count

    async def later():
        return "later"

    assert opened_first(harness.partitions, keys, lambda: DeferredResponse(later)).finish is later
    harness.partitions.reopen(list(harness.partitions))
    parked = opened_first(harness.partitions, keys, lambda: DeferredResponse(later))
    assert await parked.finish() == "later"
