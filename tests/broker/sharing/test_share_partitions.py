"""All share partitions of a broker: timers, the end of sessions, and what is forgotten."""

from __future__ import annotations

import trio

from tests.broker.handlers.test_share_fetch import first_fetch
from tests.broker.sharing.rig import sharing_rig
from trimaran.broker.share_state.states import DeliveryState
from trimaran.wire.errors import ErrorCode, KafkaError

ACQUIRED, AVAILABLE = DeliveryState.ACQUIRED, DeliveryState.AVAILABLE


async def settle():
    await trio.testing.wait_all_tasks_blocked()


async def held_everywhere(rig, **changes):
    """Lets a member acquire the records of all partitions."""
    for index in range(rig.image_partitions):
        rig.produce(2, index=index)
    await rig.fetched(0, *range(rig.image_partitions), **changes)
    await settle()
    await rig.fetched(1, **changes)
    return rig.sharing.sessions.resume("g", changes.get("member_id", "m"), -1, (), ())


def states(rig):
    return [
        run.state for index in range(rig.image_partitions) for run in rig.share(index).core.states()
    ]


async def test_lock_ends_by_its_timer(tmp_path, autojump_clock):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(3)
        await first_fetch(rig)
        await trio.sleep(29)
        assert rig.states.written == []
        rig.harness.now += 30
        await trio.sleep(1.5)
        assert rig.states.written == [[(0, 2, AVAILABLE, 1)]]


async def test_earlier_lock_moves_the_timer(tmp_path, autojump_clock):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        await held_everywhere(rig)
        first, second = rig.share(0), rig.share(1)
        rig.sharing.set_timer(second, rig.harness.now + 10)
        ended = []
        first.end_locks, second.end_locks = (lambda: ended.append(0)), (lambda: ended.append(1))
        rig.harness.now += 10
        await trio.sleep(10.5)
        assert ended == [1]
        rig.sharing.set_timer(first, None)
        rig.harness.now += 30
        await trio.sleep(60)
        assert ended == [1]


async def test_closed_connection_is_counted(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        await held_everywhere(rig)
        assert rig.counts.evictions == 0
        rig.connection.mark_closed()
        assert (rig.counts.evictions, len(rig.sessions)) == (1, 0)
        await settle()
        assert rig.states.written_batches == [(0, 1, AVAILABLE, 1)] * 2


async def test_new_session_keeps_what_is_left(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        session = await held_everywhere(rig)
        ending = rig.sharing.end_session(session)
        next(ending)
        rig.sessions.begin("g", "m", list(session.partitions), acknowledges=False)
        assert list(ending) == []
        await settle()
        assert states(rig) == [ACQUIRED] * 2
        assert len(rig.sharing) == 2


async def test_session_of_another_member_keeps_partitions(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        session = await held_everywhere(rig)
        ending = rig.sharing.end_session(session)
        next(ending)
        rig.sessions.begin("g", "n", [], acknowledges=False)
        for _ in ending:
            pass
        await settle()
        assert states(rig) == [AVAILABLE] * 2
        assert [share.is_retiring for share in rig.sharing] == [False] * 2
        assert list(rig.sharing.end_session(session)) == []


async def test_returning_group_keeps_its_remaining_partitions(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        session = await held_everywhere(rig)
        ending = rig.sharing.end_session(session)
        for _ in range(3):  # two releases, and the end of the first share partition
            next(ending)
        rig.sessions.begin("g", "n", [], acknowledges=False)
        assert list(ending) == []
        assert [share.is_retiring for share in rig.sharing] == [True, False]


async def test_ended_group_is_forgotten(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        session = await held_everywhere(rig)
        assert [group_id for group_id, _ in rig.counts.groups()] == ["g"]
        rig.share(0).end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert (len(rig.sharing), rig.share(0)) == (1, None)
        assert [group_id for group_id, _ in rig.counts.groups()] == ["g"]
        session.partitions = dict.fromkeys(sorted(session.partitions))
        list(rig.sharing.end_session(session))
        await settle()
        assert rig.states.written_batches == [(0, 1, AVAILABLE, 1)]
        assert (rig.sharing._groups, list(rig.counts.groups())) == ({}, [])
