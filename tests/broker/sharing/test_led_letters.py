"""The letters of one share partition on its leader: when they are sent, which are sent together, and which are dropped
at the end.
"""

from __future__ import annotations

import trio

from tests.broker.sharing.led import ACCEPT, REJECT, RELEASE, Led, led, settle
from trimaran.broker.share_state.states import DeliveryState, ShareState, ShareSummary, StateBatch
from trimaran.broker.sharing.acknowledging import Cause
from trimaran.broker.sharing.rules import SharingRules
from trimaran.broker.sharing.settings import Sharing
from trimaran.wire.errors import ErrorCode, KafkaError


async def test_simultaneous_letters_are_sent_together(tmp_path):
    async with led(tmp_path, dead_letters=True, deliveries_max=1) as given:
        owner = given.owner
        given.acquire(0, 9)
        owner.deliveries = trio.Event()
        given.acknowledge((0, 1, [REJECT]))
        await settle()
        given.acknowledge((2, 3, [RELEASE]), (4, 5, [ACCEPT]))
        given.acknowledge((6, 7, [REJECT]))
        await settle()
        first = [(0, 1, Cause.REJECTED)]
        assert owner.delivered == [first]
        owner.deliveries.set()
        await settle()
        rest = [(2, 3, Cause.DELIVERED_TOO_OFTEN), (6, 7, Cause.REJECTED)]
        assert owner.delivered == [first, rest]
        assert given.share.core.states()[-1] == StateBatch(8, 9, DeliveryState.ACQUIRED, 1)
        assert (given.share.core.start, owner.runs) == (8, given.share.core.run_count)


async def test_letters_of_failed_writes_are_not_sent(tmp_path):
    async with led(tmp_path, dead_letters=True) as given:
        given.acquire(0, 9)
        given.states.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
        given.acknowledge((0, 9, [REJECT]))
        await settle()
        assert given.owner.delivered == []
        given.states.failure = None
        given.acknowledge((0, 9, [REJECT]))
        await settle()
        assert given.owner.delivered == [[(0, 9, Cause.REJECTED)]]


async def test_letters_of_ended_locks_survive_failed_writes(tmp_path):
    async with led(tmp_path, dead_letters=True, deliveries_max=1) as given:
        given.acquire(0, 9)
        given.states.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
        given.owner.time += 1_000.0
        given.share.end_locks()
        await settle()
        given.states.failure = None
        await settle()
        assert given.owner.delivered == [[(0, 9, Cause.DELIVERED_TOO_OFTEN)]]
        assert (given.share.core.start, given.share.core.size) == (10, 0)


async def test_end_drops_unsent_letters(tmp_path):
    async with led(tmp_path, dead_letters=True) as given:
        given.acquire(0, 9)
        given.owner.deliveries = trio.Event()
        given.acknowledge((0, 4, [REJECT]))
        await settle()
        given.acknowledge((5, 9, [REJECT]))
        await settle()
        given.share.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        given.owner.deliveries.set()
        await settle()
        assert len(given.owner.delivered) == 1
        assert len(given.states.written) == 2


async def test_archived_records_no_longer_count(tmp_path):
    async with led(tmp_path, dead_letters=True) as given:
        given.acquire(0, 9)
        given.acquire(10, 19)
        given.owner.deliveries = trio.Event()
        given.acknowledge((0, 9, [REJECT]))
        await settle()
        assert given.owner.runs == 2
        given.hold()
        given.owner.deliveries.set()
        await settle()
        assert (given.owner.runs, given.share.core.start, len(given.states.written)) == (1, 10, 1)


async def test_letters_delivered_at_the_end_are_not_archived(tmp_path):
    async with led(tmp_path, dead_letters=True) as given:
        share = given.share
        given.acquire(0, 9)
        given.owner.deliveries = trio.Event()
        given.acknowledge((0, 9, [REJECT]))
        await settle()
        given.owner.deliveries.set()  # the task that delivers runs after the end
        share.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        await settle()
        assert share.core.states() == [StateBatch(0, 9, DeliveryState.ARCHIVING, 1)]
        assert given.states.written == [[(0, 9, 3, 1)]]


async def test_stored_letters_are_sent_after_the_load(tmp_path):
    async with trio.open_nursery() as nursery:
        given = Led(tmp_path, nursery)
        given.owner.sharing = Sharing(SharingRules(deliveries_max=3), "earliest", False)

        async def read(key, leader_epoch):
            state = DeliveryState.ARCHIVING
            batches = (StateBatch(2, 4, state, 2), StateBatch(5, 5, state, 3))
            given.states.summaries[key] = summary = ShareSummary(0, leader_epoch, 2, None)
            given.states.records[key] = {}
            return ShareState(summary, batches)

        given.states.read = read
        share = given.begin()
        await settle()
        letters = [(2, 4, Cause.REJECTED), (5, 5, Cause.DELIVERED_TOO_OFTEN)]
        assert given.owner.delivered == [letters]
        assert (share.core.start, share.core.size) == (6, 0)
        assert given.states.written == [[(2, 4, 4, 2), (5, 5, 4, 3)]]
