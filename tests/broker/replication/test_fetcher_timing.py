"""When a fetcher sends requests: changes while a fetch waits at the leader, new partitions, pauses. The test controls
the clock and the leader.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.broker.replication.stub_leader import answered, data, record
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.events import REPLICA_UNUSABLE
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.replication.fetch_client import BACKOFF_SECONDS, FetchSettings
from trimaran.broker.replication.fetcher import NEW_PARTITION_BATCH_SECONDS, Fetcher
from trimaran.node.quotas.replication_throttle import ReplicationThrottle
from trimaran.node.runtime import pacing
from trimaran.wire.client.errors import ConnectionLost
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.text.events import event_of
from trimaran.wire.transport.metrics.rate import Windows

LEADER = 11
SOON, LONG_AGO = 0.02, 10.0


class HeldLeader:
    """A leader that answers when the test permits it; like a leader with a session it releases a fetch when the next
    one arrives.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[float, list[int]]] = []
        self.on_release = answered()
        self.releases = True
        self._send, self._receive = trio.open_memory_channel(0)
        self._waiting = 0

    @asynccontextmanager
    async def connect(self, leader_id, *, copy_records):
        assert (leader_id, copy_records) == (LEADER, False)
        yield self

    async def call(self, request, **deadline):
        assert deadline == {"timeout": 0.5 + 30}, "the long poll, and for the answer"
        named = [partition.partition for asked in request.topics for partition in asked.partitions]
        self.asked.append((round(trio.current_time(), 6), sorted(named)))
        if self._waiting and self.releases:
            await self._send.send(self.on_release)
        self._waiting += 1
        try:
            return await self._receive.receive()
        finally:
            self._waiting -= 1

    async def answer(self, *partitions) -> None:
        await self._send.send(answered(*partitions))

    def asked_since(self, began):
        """Returns the seconds since `began` and the named partitions of each later request."""
        return [(round(at - began, 6), named) for at, named in self.asked if at >= began]


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path, 12)
    elected = partition((11, 12), LEADER, leader_epoch=1)
    harness.set_image(topic("t", *[partition((11, 12), LEADER)] * 4, elected))
    return harness


ELECTED = 4


@asynccontextmanager
async def fetching(harness, leader, *, rest=LONG_AGO, throttle=None):
    """Runs a fetcher whose long poll for partition 0 has waited for `rest` seconds; yields a function that adds
    partitions.
    """
    settings = FetchSettings(12, lambda: 112, 500, 1, 1 << 20, 10 << 20, throttle=throttle)
    fetcher = Fetcher(LEADER, leader, settings)

    def add(index):
        fetcher.add(harness.partitions.find(TopicPartition("t", index)))

    add(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetcher.run)
        await leader.answer()
        await trio.sleep(rest)
        yield add
        nursery.cancel_scope.cancel()


async def test_new_partition_interrupts_the_long_poll(harness, autojump_clock):
    leader = HeldLeader()
    async with fetching(harness, leader) as add:
        began = trio.current_time()
        add(1)
        await trio.sleep(SOON)
        assert leader.asked_since(began) == [(0.0, [1])]
        assert leader.asked[:2] == [(0.0, [0]), (0.0, [])]


async def test_first_fetch_and_answer_cause_no_delay(harness, autojump_clock):
    """Only requests sent while a fetch waits at the leader are delayed."""
    leader = HeldLeader()
    async with fetching(harness, leader, rest=SOON) as add:
        add(1)
        await trio.sleep(LONG_AGO)
        await leader.answer()
        await leader.answer()
        await trio.sleep(SOON)
        began = trio.current_time()
        add(2)
        await trio.sleep(LONG_AGO)
        assert (SOON, [1]) in leader.asked
        assert leader.asked_since(began) == [(0.0, [2])]


async def test_unopenable_log_is_reported_without_delaying_others(
    harness, autojump_clock, monkeypatch, caplog
):
    broken = harness.partitions.find(TopicPartition("t", 1))

    def must_check(held):
        if held is broken:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return False

    monkeypatch.setattr(Partition, "must_check", property(must_check))
    leader = HeldLeader()
    async with fetching(harness, leader) as add:
        began = trio.current_time()
        add(2)
        add(1)
        await trio.sleep(1)
        assert leader.asked_since(began) == [(0.0, [2])]
    assert [event_of(record) for record in caplog.records].count(REPLICA_UNUSABLE) == 1


async def test_received_bytes_count_for_the_throttle(harness, autojump_clock):
    throttle = ReplicationThrottle(Windows())
    throttle.set_replicas("t", [0])
    leader, one = HeldLeader(), record(0, epoch=0)
    async with fetching(harness, leader, throttle=throttle):
        await leader.answer(data(0, records=one))
        await trio.testing.wait_all_tasks_blocked()
        assert throttle.rate(trio.current_time()) == len(one)


async def test_successive_new_partitions_are_fetched_together(harness, autojump_clock):
    leader = HeldLeader()
    async with fetching(harness, leader) as add:
        began = trio.current_time()
        for index in (1, 2, 3):
            add(index)
            await trio.sleep(SOON)
        await trio.sleep(1)
        assert leader.asked_since(began) == [(0.0, [1]), (0.1, [2, 3])]


async def test_new_partition_needs_no_wait_without_fetch(harness, autojump_clock):
    leader = HeldLeader()
    async with fetching(harness, leader) as add:
        began = trio.current_time()
        add(1)
        await trio.sleep(SOON)
        add(2)
        await trio.sleep(SOON)
        await leader.answer()
        await trio.sleep(1)
        assert leader.asked_since(began) == [(0.0, [1]), (2 * SOON, [2])]


async def test_no_more_than_two_fetches_are_under_way(harness, autojump_clock):
    """This holds however many partitions are due: a leader may not release the first fetch when the second arrives."""
    leader = HeldLeader()
    leader.releases = False
    async with fetching(harness, leader) as add:
        began = trio.current_time()
        add(1)
        await trio.sleep(1)
        add(ELECTED)
        await trio.sleep(1)
        assert leader.asked_since(began) == [(0.0, [1])]
        await leader.answer()
        await trio.sleep(SOON)
        assert leader.asked_since(began) == [(0.0, [1]), (2.0, [ELECTED])]


async def test_loop_yields_while_many_logs_open(harness, autojump_clock, monkeypatch):
    opened = []
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)

    async def others():
        opened.append(
            len([partition for partition in harness.partitions if partition._follower is not None])
        )
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(pacing, "yield_to_loop", others)
    leader = HeldLeader()
    async with fetching(harness, leader) as add:
        opened.clear()
        for index in (1, 2, 3, ELECTED):
            add(index)
        await trio.sleep(1)
        assert opened == [1, 2, 3, 4, 5, 5], "before each, before the end, and for the response"


async def test_leader_is_asked_only_for_its_partitions(harness, autojump_clock):
    """Metadata may have changed between the request and the opening of the log."""
    states = [partition((11, 12), LEADER), partition((13, 12), 13), partition((12, 11), 12)]
    harness.set_image(topic("t", *states, partition((11, 12), LEADER)))
    leader = HeldLeader()
    async with fetching(harness, leader) as add:
        began = trio.current_time()
        for index in (1, 2, 3):
            add(index)
        await trio.sleep(1)
        assert leader.asked_since(began) == [(0.0, [3])]


async def test_elected_partition_takes_new_ones_along(harness, autojump_clock):
    leader = HeldLeader()
    async with fetching(harness, leader) as add:
        began = trio.current_time()
        for index in (1, 2, ELECTED):
            add(index)
            await trio.sleep(SOON)
        await trio.sleep(1)
        assert leader.asked_since(began) == [(0.0, [1]), (2 * SOON, [2, ELECTED])]


async def test_due_partition_does_not_wait_for_new_ones(harness, autojump_clock):
    leader, soon = HeldLeader(), BACKOFF_SECONDS / 4
    async with fetching(harness, leader) as add:
        leader.on_release = answered(data(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        began = trio.current_time()
        add(1)
        await trio.sleep(soon)
        leader.on_release = answered()
        add(ELECTED)
        await trio.sleep(soon)
        add(2)
        await trio.sleep(1)
        assert leader.asked_since(began) == [
            (0.0, [1]),
            (soon, [ELECTED]),
            (BACKOFF_SECONDS, [0]),
            (pytest.approx(soon + NEW_PARTITION_BATCH_SECONDS), [2]),
        ]


class LostConnections:
    """Connections of which the first fail; one lasts for a while; then all fail again."""

    def __init__(self, failing: int, lasting: float) -> None:
        self._failing, self._lasting = failing, lasting
        self.tried_at: list[float] = []

    @asynccontextmanager
    async def connect(self, _leader_id, *, copy_records):
        self.tried_at.append(trio.current_time())
        if len(self.tried_at) == self._failing + 1:
            await trio.sleep(self._lasting)
        raise ConnectionLost("gone")
        yield copy_records


@pytest.mark.parametrize(("lasting", "pause"), [(0.5, 0.16), (1.5, BACKOFF_SECONDS)])
async def test_lasting_connection_resets_the_pauses(autojump_clock, lasting, pause):
    """The connection must last longer than the longest pause: otherwise a connection that is lost again and again would
    count.
    """
    connector = LostConnections(3, lasting)
    settings = FetchSettings(12, lambda: 112, 500, 1, 1 << 20, 10 << 20, backoff_seconds_max=1.0)
    with trio.move_on_after(5):
        await Fetcher(LEADER, connector, settings).run()
    before, after = connector.tried_at[3:5]
    assert after - before - lasting == pytest.approx(pause)
