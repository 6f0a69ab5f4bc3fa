"""The rules of one Fetch, one test each: how much it returns, up to which offset, and when it responds."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.batches import append
from tests.broker.calls import Paused
from tests.broker.fetching.fetch_requests import (
    BROKERS,
    ask,
    ask_one,
    fill,
    request,
    sizes,
    start,
    wanted,
)
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition() for _ in range(3)]), brokers=BROKERS)
    return harness


def looks_of(monkeypatch):
    """Returns the partitions that leaders examine from now on for followers."""
    looks = []
    real = PartitionLeader.record_fetch

    def record_fetch(self, *what):
        looks.append(self.replica.index)
        real(self, *what)

    monkeypatch.setattr(PartitionLeader, "record_fetch", record_fetch)
    return looks


# -- how much


async def test_records_of_partition_are_limited_to_request(harness):
    size = fill(harness, 0, values=(b"a", b"b", b"c"))
    for count in (1, 2, 3):
        assert (await ask_one(harness, wanted(max_bytes=count * size))).records.size == count * size
    assert (await ask_one(harness, wanted(max_bytes=3 * size - 1))).records.size == 2 * size


async def test_records_of_answer_are_limited_to_request(harness):
    size = fill(harness, 0, 1, 2, values=(b"a", b"b"))
    partitions = [wanted(index) for index in range(3)]
    for allowed, given in (
        (6 * size, [2, 2, 2]),
        (5 * size, [2, 2, 1]),
        (3 * size, [2, 1, 0]),
        (2 * size, [2, 0, 0]),
        (2 * size + 1, [2, 0, 0]),
    ):
        found = sizes(await ask(harness, request(*partitions, max_bytes=allowed)))
        assert list(found.values()) == [count * size for count in given]


async def test_only_first_records_may_exceed_the_limit(harness):
    """KIP-74: otherwise no reader could receive a batch that is larger than its limits."""
    fill(harness, 0, 1, values=(b"x" * 500,))
    found = sizes(await ask(harness, request(wanted(0, max_bytes=1), wanted(1, max_bytes=1))))
    assert found[0] > 500
    assert found[1] == 0
    found = sizes(await ask(harness, request(wanted(0, 1), wanted(1, max_bytes=1))))
    assert found[1] > 500, "the first has none"


@pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"max_bytes": -1}])
async def test_fetch_of_zero_bytes_gets_first_records(harness, limits):
    """KIP-74, for limits of the response and of a partition."""
    fill(harness, 0)
    assert (await ask_one(harness, wanted(), **limits)).records.size > 0
    assert (await ask_one(harness, wanted(**limits))).records.size > 0


async def test_errors_and_divergences_take_no_room(harness):
    fill(harness, 1)
    for other in (wanted(9), wanted(0, 5, last_fetched_epoch=0)):
        found = sizes(await ask(harness, request(other, wanted(1), max_bytes=1)))
        assert found[1] > 0


async def test_partition_with_unknown_watermark_takes_no_room(harness):
    for epoch in (0, 1):
        moved = partition((11, 12, 13), leader_epoch=epoch)
        harness.set_image(topic("t", moved, partition()), brokers=BROKERS)
        fill(harness, 0, 1)
    answer = await ask(harness, request(wanted(0), wanted(1), max_bytes=1))
    first, second = answer.responses[0].partitions
    assert first.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert second.records.size > 0


async def test_old_clients_learn_too_large_message_at_once(harness):
    """Before KIP-74 a client retried with a larger limit."""
    fill(harness, 0, values=(b"x" * 500,))
    message = request(wanted(max_bytes=50), max_wait_ms=60_000)
    with trio.fail_after(5):
        answer = await ask(harness, message, 2)
    [data] = answer.responses[0].partitions
    assert data.error_code == 0
    assert 0 < len(bytes(data.records)) <= 50


async def test_unreached_partition_comes_first_next_time(harness):
    """Otherwise a busy partition would starve the others in its session."""
    fill(harness, 0, 1, 2)
    partitions = [wanted(index) for index in range(3)]
    first = await ask(harness, request(*partitions, epoch=0, max_bytes=1))
    given = [[index for index, size in sizes(first).items() if size]]
    for epoch in range(1, 6):
        answer = await ask(harness, request(session_id=first.session_id, epoch=epoch, max_bytes=1))
        given.append([index for index, size in sizes(answer).items() if size])
    assert given == [[0], [1], [2], [0], [1], [2]]


# -- when a fetch responds


async def test_answer_waits_for_min_bytes(harness):
    size = fill(harness, 0)
    assert not isinstance(start(harness, request(wanted(), max_wait_ms=9, min_bytes=size)), Paused)
    assert isinstance(start(harness, request(wanted(), max_wait_ms=9, min_bytes=size + 1)), Paused)


async def test_min_bytes_counts_all_partitions_together(harness):
    size = fill(harness, 0, 1)
    both = request(wanted(0), wanted(1), max_wait_ms=60_000, min_bytes=2 * size)
    assert not isinstance(start(harness, both), Paused)


async def test_records_examined_twice_are_counted_once(harness, autojump_clock):
    size = fill(harness, 0)
    deferred = start(harness, request(wanted(), max_wait_ms=10_000, min_bytes=3 * size))
    answers = []

    async def wait():
        answers.append(await deferred.finish())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        fill(harness, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == [], "two batches are no three"
        fill(harness, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert sizes(answers[0]) == {0: 3 * size}


async def test_error_is_returned_at_once(harness):
    """An error ends the wait however few records the other partitions have."""
    for message in (
        request(wanted(0), wanted(9), max_wait_ms=60_000),
        request(wanted(9), wanted(0), max_wait_ms=60_000),
        request(wanted(0), wanted(1, 77), max_wait_ms=60_000),
    ):
        assert not isinstance(start(harness, message), Paused)


async def test_watermark_alone_does_not_wake_follower(harness, autojump_clock):
    """The follower learns of it in its next response: with new records, or at the end of its wait."""
    harness.set_image(topic("t", partition((11, 12, 13))), brokers=BROKERS)
    fill(harness, 0)
    first = await ask(harness, request(wanted(0, 1), follower=12, epoch=0))
    deferred = start(
        harness, request(follower=12, session_id=first.session_id, epoch=1, max_wait_ms=500)
    )
    assert isinstance(deferred, Paused)
    began, answers = trio.current_time(), []

    async def wait():
        answers.append(await deferred.finish())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await ask(harness, request(wanted(0, 1), follower=13))
        assert harness.leader().high_watermark.offset == 1
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
    assert trio.current_time() - began == pytest.approx(0.5)
    [data] = answers[0].responses[0].partitions
    assert (data.high_watermark, data.records) == (1, b"")


async def test_watermark_before_the_wait_causes_no_examination(
    harness, autojump_clock, monkeypatch
):
    harness.set_image(topic("t", partition((11, 12, 13))), brokers=BROKERS)
    fill(harness, 0)
    first = await ask(harness, request(wanted(0, 1), follower=12, epoch=0))
    follows = {"follower": 12, "session_id": first.session_id, "epoch": 1}
    deferred = start(harness, request(**follows, max_wait_ms=500))
    await ask(harness, request(wanted(0, 1), follower=13))
    assert harness.leader().high_watermark.offset == 1
    looks = looks_of(monkeypatch)
    with trio.move_on_after(0.4):
        await deferred.finish()
    assert looks == []


async def test_records_that_come_before_the_wait_end_it(harness, autojump_clock):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    fill(harness, 0)
    first = await ask(harness, request(wanted(0, 1), follower=12, epoch=0))
    follows = {"follower": 12, "session_id": first.session_id, "epoch": 1}
    deferred = start(harness, request(**follows, max_wait_ms=60_000))
    size = fill(harness, 0)
    began = trio.current_time()
    assert sizes(await deferred.finish()) == {0: size}
    assert trio.current_time() == began


# -- up to which offset


@pytest.mark.parametrize(
    ("offset", "code"),
    [
        (0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, 0),
        (2, 0),
        (3, 0),
        (4, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_offsets_between_log_start_and_end_are_valid(harness, offset, code):
    fill(harness, 0, values=(b"a", b"b", b"c"))
    harness.leader().delete_records_before(1)
    assert (await ask_one(harness, wanted(0, offset))).error_code == code


async def test_consumer_between_watermark_and_end_waits(harness):
    """The consumer has read from the leader before, so its offset is valid."""
    fill(harness, 0)
    append(harness, b"b")
    data = await ask_one(harness, wanted(0, 2))
    assert (data.error_code, data.high_watermark, data.records) == (0, 1, b"")


async def test_known_committed_records_are_readable_early(harness):
    """P7: a new leader does not know yet whether the later ones were committed."""
    harness.set_image(topic("t", partition((11, 12, 13))), brokers=BROKERS)
    fill(harness, 0, values=(b"a", b"b"))
    for follower in (12, 13):
        await ask(harness, request(wanted(0, 1), follower=follower))
    harness.set_image(topic("t", partition((11, 12, 13), leader_epoch=1)), brokers=BROKERS)
    assert (await ask_one(harness, wanted(0, 0))).records.size > 0
    assert (await ask_one(harness, wanted(0, 1))).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    data = await ask_one(harness, wanted(0, 2), follower=12)
    assert (data.error_code, data.high_watermark) == (0, 1), "followers wait as always"


async def test_follower_below_log_start_proves_nothing(harness):
    harness.set_image(topic("t", partition((11, 12), isr=(11,))), brokers=BROKERS)
    fill(harness, 0, values=(b"a", b"b"))
    harness.leader().delete_records_before(1)
    data = await ask_one(harness, wanted(0, 0), follower=12)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert harness.leader().followers[12].end_offset == -1


async def test_idle_partition_of_session_costs_nothing(harness, monkeypatch):
    harness.set_image(topic("t", *[partition((11, 12))] * 3), brokers=BROKERS)
    fill(harness, 0, 1, 2)
    looks = looks_of(monkeypatch)
    positions = [wanted(index, 1) for index in range(3)]
    first = await ask(harness, request(*positions, follower=12, epoch=0))
    await ask(harness, request(follower=12, session_id=first.session_id, epoch=1))
    looks.clear()
    await ask(harness, request(follower=12, session_id=first.session_id, epoch=2))
    assert looks == []
    append(harness, b"b", index=1)
    await ask(harness, request(follower=12, session_id=first.session_id, epoch=3))
    assert looks == [1]


@pytest.mark.parametrize(
    ("code", "noted"),
    [(ErrorCode.KAFKA_STORAGE_ERROR, True), (ErrorCode.OFFSET_OUT_OF_RANGE, False)],
)
async def test_unreadable_records_are_examined(harness, monkeypatch, code, noted):
    """P17: this replica may have to give way to another."""
    fill(harness, 0)
    held = harness.partitions.find(TopicPartition("t", 0))
    suspected = []
    held.services.suspects.add = lambda *what: suspected.append(what)

    def read(self, *_, **__):
        raise KafkaError(code)

    monkeypatch.setattr(PartitionLog, "read", read)
    data = (await ask(harness, request(wanted(max_bytes=777), epoch=0))).responses[0].partitions[0]
    assert data.error_code == code
    assert suspected == ([(("t", 0), 0, 777)] if noted else [])
    assert (await ask_one(harness, wanted(0), epoch=-1)).error_code == code


async def test_followers_read_beyond_the_watermark_broker_0_too(harness):
    harness.set_image(topic("t", partition((11, 0))), brokers=BROKERS)
    fill(harness, 0)
    assert sizes(await ask(harness, request(wanted()))) == {0: 0}
    data = await ask_one(harness, wanted(), follower=0)
    assert (data.records.size > 0, data.high_watermark) == (True, 0)
    await ask(harness, request(wanted(0, 1), follower=0))
    assert harness.leader().high_watermark.offset == 1


async def test_fetch_updates_progress_of_follower(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    fill(harness, 0, values=(b"a", b"b"))
    data = await ask_one(harness, wanted(0, 1, log_start_offset=1), follower=12)
    assert data.high_watermark == 1, "told with the same answer"
    progress = harness.leader().followers[12]
    assert (progress.end_offset, progress.log_start_offset, progress.broker_epoch) == (1, 1, 112)


async def test_follower_repeating_its_offset_is_noted(harness):
    """P17; repeated offsets of consumers do not count."""
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    fill(harness, 0)
    leader, suspected = harness.leader(), []
    leader.replica.services.suspects.add = lambda *what: suspected.append(what)
    for _ in range(3):
        await ask(harness, request(wanted(0, 1), follower=12))
    assert suspected == [], "it was given nothing"
    for _ in range(3):
        await ask(harness, request(wanted()))
    assert suspected == []
    for _ in range(3):
        await ask(harness, request(wanted(max_bytes=777), follower=12))
    assert suspected == [(("t", 0), 0, 777)]
