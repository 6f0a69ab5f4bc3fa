"""The work on 10,000 records that a member holds, each in a run of its own, is done in steps: the end of its session,
of its locks and of its connection. A fetch from many partitions is done in steps, too.
"""

from __future__ import annotations

import pytest
import trio

from tests.broker.sharing.driver import LOCK_SECONDS, Driver
from tests.broker.sharing.led import Reader, led, settle
from tests.broker.sharing.rig import sharing_rig
from tests.counted_work import Work
from tests.slow_steps import calls_of, calls_of_each
from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.share_state.states import DeliveryState
from trimaran.broker.sharing import acknowledging
from trimaran.broker.sharing.acknowledging import PIECE, Acknowledgement
from trimaran.broker.sharing.led_share import LedShare
from trimaran.broker.sharing.share_fetch import COUNTED_A_STEP
from trimaran.quorum.metadata.delta import MetadataDelta

ACCEPT, RELEASE = 1, 2
MANY = 10_000
# A run takes up to forty calls; the runs of a batch are joined again in one step.
CALLS_IN_A_STEP_MAX = 40 * PIECE + 4 * MANY


def in_batches():
    """Returns a partition of which member m holds 10,000 records, each in its batch."""
    share = Driver(record_locks_max=MANY)
    for at in range(MANY):
        share.acquire((at, at), most=1, size=1)
    return share


def in_runs():
    """Returns a partition of which member m holds every second record of one batch of 20,000."""
    share = Driver(record_locks_max=2 * MANY)
    share.acquire((0, 2 * MANY - 1), most=2 * MANY, size=2 * MANY)
    share.acknowledge(*[(at, at, [ACCEPT]) for at in range(1, 2 * MANY, 2)])
    return share


HELD = {"batches": in_batches, "runs": in_runs}


def held(share):
    return sum(run.size for _, run in share.partition._flight.runs() if run.member == "m")


@pytest.mark.parametrize("name", HELD)
def test_many_records_are_released_in_steps(name):
    share = HELD[name]()
    calls, change = calls_of_each(
        share.partition.release("m", share.rules, share.now, lambda: False)
    )
    assert len(calls) == share.partition.run_count // PIECE + 1
    assert max(calls) < CALLS_IN_A_STEP_MAX
    calls, _ = calls_of_each(share.partition.finish(change, share.now, is_stored=True))
    assert len(calls) > MANY // PIECE
    assert max(calls) < CALLS_IN_A_STEP_MAX
    assert {run[2] for run in share.shown()} <= {"AVAILABLE", "ACKNOWLEDGED"}


@pytest.mark.parametrize("name", HELD)
def test_many_locks_end_in_steps(name):
    share = HELD[name]()
    share.now += LOCK_SECONDS
    for left in range(MANY - PIECE, -1, -PIECE):
        assert (
            calls_of(lambda: share.partition.end_locks(share.rules, share.now))
            < CALLS_IN_A_STEP_MAX
        )
        assert held(share) == left
    assert share.partition.next_deadline is None


def test_release_ends_when_the_member_returns():
    share = in_batches()
    new = iter((False, True))
    change = done(share.partition.release("m", share.rules, share.now, lambda: next(new)))
    share.finish(change)
    assert held(share) == MANY - 2 * PIECE


BEFORE_START = {
    0: [(0, 1, "AVAILABLE", 1), (2, 3, "AVAILABLE", 1)],
    3: [(0, 1, "ARCHIVED", 1), (2, 2, "ARCHIVED", 1), (3, 3, "AVAILABLE", 1)],
    5: [(0, 1, "ARCHIVED", 1), (2, 3, "ARCHIVED", 1)],
}


@pytest.mark.parametrize("moves_to", BEFORE_START)
def test_others_act_between_pieces_of_a_release(monkeypatch, moves_to):
    """The start of the log moves, locks end, and a record is acquired."""
    monkeypatch.setattr(acknowledging, "PIECE", 2)
    share = Driver()
    share.acquire((0, 1), member="n")
    share.acquire((2, 7))
    share.now += 1
    share.acquire((8, 9))
    share.acknowledge((4, 4, [ACCEPT]))
    releasing = share.partition.release("m", share.rules, share.now, lambda: False)
    next(releasing)
    share.pass_time(LOCK_SECONDS - 1)
    share.partition.begin_at(moves_to)
    share.acquire((10, 10), member="n")
    change = done(releasing)
    assert [tuple(batch[:3]) for batch in share.finish(change)] == [
        (2, 3, DeliveryState.AVAILABLE),
        (8, 9, DeliveryState.AVAILABLE),
    ]
    assert share.shown() == [
        *BEFORE_START[moves_to],
        (4, 4, "ACKNOWLEDGED", 1),
        (5, 7, "AVAILABLE", 1),
        (8, 9, "AVAILABLE", 1),
        (10, 10, "ACQUIRED", 1),
    ]
    assert share.partition.start == moves_to


async def test_closed_acknowledgement_is_undone_in_a_task(tmp_path):
    async with led(tmp_path) as given:
        share, reader = given.share, Reader()
        given.acquire(0, 2 * PIECE)
        share.readers[reader] = None
        wanted = [Acknowledgement(at, at, [1 + at % 2]) for at in range(2 * PIECE)]
        deciding = share.acknowledge("m", wanted)
        next(deciding)
        deciding.close()
        assert {run.state for run in share.core.states()} > {DeliveryState.ACKNOWLEDGED}
        await settle()
        assert {run[2:] for run in share.core.states()} == {(DeliveryState.ACQUIRED, 1)}
        assert (given.states.written, reader.woken, given.owner.timer) == ([], 1, 30.0)
        given.acknowledge((0, 2 * PIECE, [ACCEPT]))


async def test_closed_end_of_a_session_goes_on(tmp_path):
    async with sharing_rig(tmp_path, partitions=3) as rig:
        for index in range(3):
            rig.produce(1, index=index)
        await rig.fetched(0, 0, 1, 2)
        await settle()
        for epoch in (1, 2, 3):
            await rig.fetched(epoch)
        cores = [rig.share(index).core for index in range(3)]
        assert {run.state for core in cores for run in core.states()} == {DeliveryState.ACQUIRED}
        ending = rig.acknowledge(-1, {})
        next(ending)
        ending.close()
        await settle()
        assert {run.state for core in cores for run in core.states()} == {DeliveryState.AVAILABLE}
        assert (len(rig.sharing), len(rig.sharing.sessions)) == (0, 0)


async def test_share_partitions_retire_in_steps(tmp_path, monkeypatch):
    async with sharing_rig(tmp_path, partitions=5) as rig:
        await rig.fetched(0, *range(5))
        await settle()
        before = rig.harness.metadata.image
        rig.set_image(share_version=0)
        delta = MetadataDelta(before)
        delta.features.changed["share.version"] = 0
        retired = Work(monkeypatch, LedShare, "retire")
        try:
            rig.sharing.publish(delta, rig.harness.metadata.image, None)
            await settle()
        finally:
            trio.lowlevel.remove_instrument(retired)
        assert (retired.calls, retired.in_longest_step, len(rig.sharing)) == (5, 1, 0)


async def test_fetch_from_many_partitions_takes_steps(tmp_path):
    many = 3 * COUNTED_A_STEP
    async with sharing_rig(tmp_path, partitions=many) as rig:
        await rig.fetched(0, *range(many))
        await settle()
        rig.produce(1)
        calls, response = calls_of_each(rig.fetch(1))
        assert len(response.responses) == 1
        assert max(calls) < 25 * COUNTED_A_STEP
        forgetting = rig.fetch(2, forgotten=range(1, many))
        calls, _ = calls_of_each(forgetting)
        assert max(calls) < 25 * COUNTED_A_STEP
        assert rig.sharing.sessions.partitions == 1
