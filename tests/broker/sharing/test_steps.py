"""The work on 10,000 records that a member holds, each in a run of its own, is done in steps: the end of its session,
of its locks and of its connection. A fetch from many partitions is done in steps, too.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

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
from trimaran.wire.errors import KafkaError

GAP, ACCEPT, RELEASE, REJECT = 0, 1, 2, 3
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


def one_batch():
    share = Driver(record_locks_max=MANY)
    share.acquire((0, MANY - 1), most=MANY, size=MANY)
    return share


def cut_batch():
    """Returns a partition of which member m holds one batch in 10,000 runs."""
    share = one_batch()
    share.acknowledge(*[(at, at, [RELEASE]) for at in range(0, MANY, 2)])
    share.acquire((0, MANY - 1), most=MANY, size=MANY)
    return share


@pytest.mark.parametrize(
    ("hold", "types"),
    [
        (one_batch, [ACCEPT, RELEASE] * (MANY // 2)),
        (one_batch, [GAP, REJECT] * (MANY // 2)),
        (one_batch, [ACCEPT] * MANY),
        (cut_batch, [ACCEPT]),
        (in_batches, [ACCEPT]),
    ],
)
def test_acknowledgement_of_many_records_takes_steps(hold, types):
    share = hold()
    calls, change = calls_of_each(share.deciding("m", [Acknowledgement(0, MANY - 1, types)]))
    assert len(calls) == MANY // PIECE + 1
    assert max(calls) < CALLS_IN_A_STEP_MAX
    share.finish(change)
    assert {run[2] for run in share.shown()} <= {"AVAILABLE", "ACKNOWLEDGED", "ARCHIVED"}


def split_share(random):
    """Returns a partition with gaps between its batches, and with runs of several states."""
    share = Driver()
    at = 0
    for _ in range(random.randint(1, 4)):
        size = random.randint(1, 6)
        share.acquire((at, at + size - 1), member=random.choice("mmmmn"))
        at += size + random.choice([0, 0, 2])
    for _ in range(random.randint(0, 4)):
        offset = random.randint(0, at)
        with suppress(KafkaError):
            share.acknowledge((offset, offset, [random.choice([ACCEPT, RELEASE])]))
    if random.random() < 0.3:
        share.partition.begin_at(random.randint(0, 5))
    return share, at


def by_record(share):
    """Returns what is known of each record: runs may be cut where nothing differs."""
    return {
        offset: found for first, last, *found in share.shown() for offset in range(first, last + 1)
    }


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_pieces_of_acknowledgement_decide_as_the_whole(monkeypatch, piece):
    accepted = 0
    for seed in range(400):
        found = []
        for size in (piece, MANY):
            monkeypatch.setattr(acknowledging, "PIECE", size)
            random = Random(seed)
            share, end = split_share(random)
            first = random.randint(0, end)
            count = random.randint(1, end + 2)
            types = random.choices([GAP, ACCEPT, RELEASE, REJECT], k=random.choice([1, count]))
            try:
                stored = share.acknowledge((first, first + count - 1, types))
            except KafkaError as error:
                stored = error.code
            found.append((stored, by_record(share), share.partition.start))
        assert found[0] == found[1], seed
        accepted += isinstance(found[0][0], list)
    assert accepted > 50


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


@pytest.mark.parametrize("moves_to", [3, 4, 9])
def test_start_cuts_a_later_piece_of_release(monkeypatch, moves_to):
    """The log start moves between two pieces, into a run that is held: records before it are not free again."""
    monkeypatch.setattr(acknowledging, "PIECE", 1)
    share = Driver()
    share.acquire((0, 1))
    share.acquire((2, 9))
    releasing = share.partition.release("m", share.rules, share.now, lambda: False)
    next(releasing)
    share.partition.begin_at(moves_to)
    assert [tuple(batch[:3]) for batch in share.finish(done(releasing))] == [
        (0, 1, DeliveryState.AVAILABLE),
        (2, moves_to - 1, DeliveryState.ARCHIVED),
        (moves_to, 9, DeliveryState.AVAILABLE),
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
