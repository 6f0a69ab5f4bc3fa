"""WriteShareGroupState: versions, order, and invalid batches."""

from __future__ import annotations

import pytest

from tests.broker.calls import Paused, call, started, through_wire
from tests.broker.share_state.driver import TOPIC_ID
from tests.broker.share_state.requests import (
    HANDLER_OF,
    ask,
    change,
    codes,
    delete,
    initialize,
    read,
    summary,
    write,
)
from tests.broker.share_state.rig import open_rig
from trimaran.wire.errors import ErrorCode
from trimaran.wire.transport.scheduling.effects import Blocking

E = ErrorCode


async def test_version_0_lacks_the_count_of_completions(tmp_path):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        await ask(rig, write(change(0, start_offset=101, count=4)), 0)
        (topic,) = (await ask(rig, summary(0))).results
        assert topic.partitions[0].delivery_complete_count == -1
        await ask(rig, write(change(0, start_offset=102, count=4)), 1)
        (topic,) = (await ask(rig, summary(0), 0)).results
        assert topic.partitions[0].start_offset == 102


@pytest.mark.parametrize("batch", [(101, 100, 0, 1), (100, 101, 5, 1), (100, 101, -1, 1)])
async def test_invalid_batch_is_refused(tmp_path, batch):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        found = await ask(rig, write(change(0, (100, 100, 2, 1), batch)))
        assert codes(found) == {(TOPIC_ID, 0): E.INVALID_REQUEST}
        (topic,) = (await ask(rig, read(0))).results
        assert topic.partitions[0].state_batches == []


async def test_writes_of_one_partition_are_applied_in_order(tmp_path):
    """Only the result of the last write is returned."""
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        first, second, refused = (
            change(0, (100, 100, 0, 1)),
            change(0, (100, 100, 2, 1)),
            change(0, leader_epoch=-1),
        )
        assert codes(await ask(rig, write(first, second))) == {(TOPIC_ID, 0): E.NONE}
        assert codes(await ask(rig, write(first, refused))) == {(TOPIC_ID, 0): E.INVALID_REQUEST}
        (topic,) = (await ask(rig, read(0))).results
        assert [batch.delivery_state for batch in topic.partitions[0].state_batches] == [2]


def large(count):
    """Returns a write of one share partition that takes many steps."""
    return write(change(0, *((100 + 2 * n, 100 + 2 * n, 0, 1) for n in range(count))))


def begun(rig, request):
    """Returns the handler of a request, not started yet."""
    version = 1 if request.KEY == write().KEY else 0
    request = through_wire(request, version)
    return HANDLER_OF[type(request)](request, rig, call(request, version))


def steps_of(handler):
    """Runs a handler to its end, or to the commit that it waits for; yields at each of its pauses."""
    for effect in handler:
        if effect is not None:
            return
        yield


async def test_other_writes_do_not_restart_large_write(tmp_path):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        rig.leader.holding = True
        alone = sum(1 for _ in steps_of(begun(rig, large(5_000))))
        waiting, steps = [], 0
        for _ in steps_of(begun(rig, large(5_000))):
            steps += 1
            small = started(begun(rig, write(change(0, (100, 100, 2, 2)))))
            assert isinstance(small, Paused)
            assert isinstance(small.effect, Blocking)
            waiting.append(small)
        assert steps <= 2 * alone  # the second write is combined with the batches of the first
        assert steps == len(waiting) > 10
        rig.leader.holding = False
        rig.leader.commit()
        for small in waiting:
            assert codes(through_wire(await small.finish(), 1)) == {(TOPIC_ID, 0): E.NONE}
        assert len(rig.shares.turns) == 0


@pytest.mark.parametrize("make", [initialize, read, summary, delete])
async def test_requests_wait_for_a_write_in_steps(tmp_path, make):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0, 1))
        writing = begun(rig, large(2_000))
        next(writing)
        waiting = started(begun(rig, make(1, 0)))
        assert isinstance(waiting.effect, Blocking)
        assert codes(await ask(rig, read(1))) == {
            (TOPIC_ID, 1): E.INVALID_REQUEST if make is delete else E.NONE
        }
        for _ in steps_of(writing):
            pass
        assert codes(through_wire(await waiting.finish(), 0)) == {
            (TOPIC_ID, 1): E.NONE,
            (TOPIC_ID, 0): E.NONE,
        }
        assert len(rig.shares.turns) == 0


async def test_ended_request_lets_the_next_one_begin(tmp_path):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        writing, waiting = begun(rig, large(2_000)), begun(rig, read(0))
        next(writing)
        assert isinstance(next(waiting), Blocking)
        waiting.close()
        writing.close()
        assert codes(await ask(rig, read(0))) == {(TOPIC_ID, 0): E.NONE}
        assert len(rig.shares.turns) == 0
