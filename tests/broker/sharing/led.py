"""One share partition on its leader, without requests: a real log, states in memory, and an owner that records its
calls.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio

from tests.broker.batches import append
from tests.broker.sharing.memory_states import MemoryStates
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.sharing.acknowledging import Acknowledgement
from trimaran.broker.sharing.acquiring import BatchBounds, Demand
from trimaran.broker.sharing.counts import ShareCounts
from trimaran.broker.sharing.led_share import LedShare
from trimaran.broker.sharing.rules import AcquireMode, SharingRules
from trimaran.broker.sharing.settings import Sharing
from trimaran.wire.identity import SharePartitionKey

KEY = SharePartitionKey("g", topic_id("t"), 0)
ACCEPT, RELEASE, REJECT = 1, 2, 3


class Owner:
    """The owner of a broker's share partitions; records the arguments of each call."""

    def __init__(self, nursery):
        self.states = MemoryStates()
        self.counts = ShareCounts()
        self.sharing = Sharing(SharingRules(lock_seconds=30.0), "earliest", False)
        self.time, self.timer, self.runs, self.is_full = 0.0, None, 0, False
        self.told = []
        self.delivered = []
        self.deliveries = trio.Event()
        self.deliveries.set()
        self.spawn = nursery.start_soon

    def set_timer(self, share, deadline):
        self.timer = deadline
        self.told.append(("timer", deadline))

    def settings_of(self, group_id):
        assert group_id == "g"
        return self.sharing

    def now(self):
        return self.time

    def now_ms(self):
        return 1_000_000

    def count_runs(self, change):
        self.runs += change
        self.told.append(("runs", self.runs))

    async def deliver(self, share, letters):
        self.delivered.append([(*each.batch[:2], each.cause) for each in letters])
        await self.deliveries.wait()

    def ended(self, share):
        self.told.append(("ended", share.error.code))


class Reader:
    def __init__(self):
        self.woken = 0

    def wake(self):
        self.woken += 1


class Led:
    """A share partition of a log with a hundred records; member m acquires by short calls."""

    def __init__(self, path, nursery):
        self.harness = open_harness(path)
        self.harness.set_image(topic("t", partition()))
        append(self.harness, *[b"x"] * 100)
        self.harness.flush()
        self.owner = Owner(nursery)
        self.states = self.owner.states
        self.share = None

    def begin(self):
        self.share = LedShare(KEY, self.harness.leader(), self.owner)
        return self.share

    def hold(self):
        self.states.open = trio.Event()

    def acquire(self, first, last, member="m", size=500):
        demand = Demand(member, AcquireMode.BATCH_OPTIMIZED, size, 500)
        found = self.share.acquire([BatchBounds(first, last)], first, demand, [])
        return [tuple(part) for part in found]

    def acknowledge(self, *decisions, member="m"):
        return done(self.share.acknowledge(member, [Acknowledgement(*each) for each in decisions]))

    def release(self, member="m"):
        done(self.share.release(member, lambda: False))


async def settle():
    await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def led(path, **rules):
    """Runs a share partition that is loaded."""
    async with trio.open_nursery() as nursery:
        given = Led(path, nursery)
        sharing = given.owner.sharing
        given.owner.sharing = sharing._replace(rules=sharing.rules._replace(**rules))
        given.begin()
        await settle()
        yield given
        nursery.cancel_scope.cancel()
