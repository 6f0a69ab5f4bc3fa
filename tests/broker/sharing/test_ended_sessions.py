"""Sessions that end while a fetch of theirs is in progress: it acquires no more, and no share partition stays open."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from tests.broker.calls import connection, finished
from tests.broker.sharing.rig import refusals, sharing_rig, shown, transact
from tests.broker.sharing.test_share_partitions import settle
from trimaran.broker.fetching import aborted
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.features import SHARE_VERSION
from trimaran.wire.errors import ErrorCode, KafkaError

PARTITIONS = 2


async def end_elsewhere(rig):
    """Lets the member send the final epoch on another connection."""
    await finished(rig.acknowledge(-1, {}, on=connection()))


async def close_connection(rig):
    rig.connection.mark_closed()


async def disable_share_groups(rig):
    rig.set_image(None)
    delta = MetadataDelta(rig.harness.metadata.image)
    delta.features.changed[SHARE_VERSION] = None
    rig.sharing.publish(delta, rig.harness.metadata.image, None)


async def finish_in_steps(fetch):
    """Finishes a fetch that does not wait, a step at a time beside other tasks."""
    while True:
        await trio.lowlevel.checkpoint()
        try:
            assert next(fetch) is None
        except StopIteration as stop:
            return stop.value


async def begin_sessions(rig, *members):
    """Loads the share partitions in the first request of each session, which acquires nothing."""
    rig.states.open = trio.Event()
    for member in members:
        on = rig.connection if member == "m" else connection()
        await rig.fetched(0, *range(PARTITIONS), member_id=member, on=on)
    rig.states.open.set()
    await settle()


def produce(rig):
    for index in range(PARTITIONS):
        transact(rig, 1 + index, 2, is_commit=False, index=index)  # 0-1, marker 2
        rig.produce(2, index=index)  # 3-4


async def is_ended_after(rig, steps, end):
    """Ends the session of m after this number of steps of a fetch; returns False if there are fewer."""
    fetch = rig.fetch(1)
    try:
        for _ in range(steps):
            next(fetch)
    except StopIteration:
        return False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end, rig)
        with suppress(KafkaError):  # the fetch has not looked up the session yet
            await finish_in_steps(fetch)
    await settle()
    return True


@pytest.mark.parametrize("end", [end_elsewhere, close_connection])
async def test_session_may_end_at_each_step(tmp_path, monkeypatch, end):
    """After the session has ended, another member gets all its records."""
    monkeypatch.setattr(aborted, "UNITS_AT_ONCE", 0)  # so that a partition is read in several steps
    steps = 0
    while True:
        async with sharing_rig(tmp_path / str(steps), partitions=PARTITIONS) as rig:
            rig.configure(share_isolation_level="read_committed")
            produce(rig)
            await begin_sessions(rig, "m", "n")
            if not await is_ended_after(rig, steps, end):
                break
            assert (len(rig.sessions), len(rig.sharing)) == (1, PARTITIONS)
            found = await rig.fetched(1, member_id="n")
            offsets = {
                index: [part[:2] for part in parts] for index, (_, parts, _) in shown(found).items()
            }
            assert offsets == {index: [(2, 4)] for index in range(PARTITIONS)}
        steps += 1
    assert steps > 3 * PARTITIONS


@pytest.mark.parametrize("end", [end_elsewhere, close_connection, disable_share_groups])
async def test_ended_session_opens_no_share_partition(tmp_path, end):
    async with sharing_rig(tmp_path, partitions=PARTITIONS) as rig:
        produce(rig)
        await begin_sessions(rig, "m")
        await rig.fetched(1)
        fetch = rig.fetch(2, acks={0: [(0, 4, [1])]})
        next(fetch)  # examines the named partitions
        await end(rig)
        await settle()
        response = await finished(fetch)
        assert shown(response) == {0: (0, [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        assert (len(rig.sessions), len(rig.sharing)) == (0, 0)


@pytest.mark.parametrize("epoch", [2, -1])
@pytest.mark.parametrize("end", [end_elsewhere, close_connection])
async def test_acknowledgement_of_an_ended_session_changes_nothing(tmp_path, end, epoch):
    async with sharing_rig(tmp_path, partitions=PARTITIONS) as rig:
        produce(rig)
        await begin_sessions(rig, "m", "n")
        await rig.fetched(1)
        acknowledging = rig.acknowledge(epoch, {0: [(0, 4, [1])]})
        next(acknowledging)  # examines the named partitions
        await end(rig)
        await settle()
        response = await finished(acknowledging)
        assert refusals(response) == {0: ErrorCode.INVALID_RECORD_STATE}
        assert rig.states.written_batches == [(0, 4, 0, 1)] * PARTITIONS
        assert (len(rig.sessions), len(rig.sharing)) == (1, PARTITIONS)


async def test_first_fetch_of_a_closed_connection_opens_nothing(tmp_path):
    async with sharing_rig(tmp_path, partitions=PARTITIONS) as rig:
        rig.connection.mark_closed()
        assert shown(await rig.fetched(0, *range(PARTITIONS))) == {}
        assert (len(rig.sessions), len(rig.sharing)) == (0, 0)


async def test_replaced_session_acquires_nothing(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await rig.fetched(0, 0)
        await settle()
        waiting = rig.start_fetch(1, max_wait_ms=60_000)
        await rig.fetched(0, 0, on=connection())
        rig.produce(3)
        assert shown(await waiting.finish()) == {}
        assert shown(await rig.fetched(1)) == {0: (0, [(0, 2, 1)], 0)}
