"""Requests that wait for shards to load: by partition, and with a timeout."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing

from tests.broker.coordination.counters import Count, CounterShard, Forgotten
from tests.broker.coordination.rig import Rig, code_of, open_rig
from tests.broker.coordination.test_epochs import failures_expected, until_failed
from trimaran.broker.coordination import effects
from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.errors import ErrorCode
from trimaran.wire.transport.scheduling.slice_end import slice_end


@pytest.fixture
def rig(tmp_path):
    """Returns a rig that runs nothing: both shards keep loading until the test makes the first one serve."""
    rig = Rig(tmp_path)
    for index in (0, 1):
        rig.lead(index=index)
    yield rig
    for leader in rig.leaders.values():
        leader.log.close()


async def seconds_of(rig, partitions):
    began = trio.current_time()
    await rig.runtime.wait_loaded(partitions, 5.0)
    return trio.current_time() - began


async def test_only_requested_shards_are_waited_for(rig, autojump_clock):
    assert rig.runtime.is_loading
    rig.epoch(0)._state.set(ShardState.ACTIVE)
    for partitions, seconds in (({0}, 0), ({1}, 5), ({0, 1}, 5), (None, 5), ({7}, 0), ((), 0)):
        assert await seconds_of(rig, partitions) == seconds, partitions
    assert rig.runtime.is_loading
    rig.epoch(1)._state.set(ShardState.CLOSED)
    assert await seconds_of(rig, None) == 0
    assert not rig.runtime.is_loading
    rig.resign(1)
    rig.lead(1, index=1)
    assert rig.runtime.is_loading
    assert len(rig.runtime.epochs) == 2


async def test_shard_is_committed_to_known_watermark_while_led(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        epoch = rig.epoch()
        assert epoch.is_committed
        leader.holding = True
        rig.add("a")
        rig.add("a")
        assert not epoch.is_committed
        leader.high_watermark.advance(1)
        assert not epoch.is_committed
        leader.commit()
        assert epoch.is_committed
        rig.resign()
        assert not epoch.is_committed


async def test_failed_shard_is_loading_only_during_reload(
    tmp_path, caplog, autojump_clock, held_load
):
    made = []

    def make_shard():
        made.append(trio.current_time())
        if len(made) == 1:
            raise OSError("the disk is elsewhere")
        return CounterShard()

    async with open_rig(tmp_path) as rig:
        rig.runtime.spec = replace(rig.runtime.spec, make_shard=make_shard)
        with failures_expected(caplog):
            rig.lead()
            assert rig.runtime.is_loading
            failed = await until_failed(rig)
            assert not rig.runtime.is_loading
            assert code_of(failed.active) is ErrorCode.NOT_COORDINATOR
            current = rig.runtime._current[0]
            await current.wait_not(failed)
        assert rig.epoch() is not failed
        assert rig.runtime.is_loading
        assert code_of(rig.epoch().active) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        held_load.set()
        await rig.loaded()
        assert not rig.runtime.is_loading
        assert len(made) == 2


async def test_partitions_led_before_start_are_all_loaded(tmp_path):
    rig = Rig(tmp_path)
    leaders = [rig.lead(index=index) for index in range(3)]
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.runtime.run)
        await rig.runtime.wait_loaded(None, 10)
        assert [rig.epoch(index).state for index in range(3)] == [ShardState.ACTIVE] * 3
        assert [rig.epoch(index)._leader for index in range(3)] == leaders
        nursery.cancel_scope.cancel()
    for leader in leaders:
        leader.log.close()


async def test_two_hundred_follow_ups_start_per_turn(tmp_path, monkeypatch):
    begun, sizes = [], []
    begin = effects.EffectRunner._begin_follow_ups

    def counted(epoch):
        before = len(epoch._follow_ups)
        begin(epoch)
        sizes.append(before - len(epoch._follow_ups))

    async def follow_up(_epoch, name):
        begun.append(name)

    monkeypatch.setattr(effects.EffectRunner, "_begin_follow_ups", counted)
    async with open_rig(tmp_path, follow_up=follow_up) as rig:
        await rig.serve()
        rig.epoch().step(lambda shard, _at: shard._effects.follow_ups.extend(range(450)))
        while len(begun) < 450:
            await trio.lowlevel.checkpoint()
    assert [size for size in sizes if size] == [200, 200, 50]
    assert sorted(begun) == list(range(450))


async def test_follow_up_of_ending_epoch_is_not_started(tmp_path):
    begun = []

    async def follow_up(_epoch, name):
        begun.append(name)

    async with open_rig(tmp_path, follow_up=follow_up) as rig:
        await rig.serve()
        end = slice_end()
        end.begin_slice()
        rig.epoch().submit(Result([Count("a", 1)], None))
        rig.epoch().step(lambda shard, _at: shard._effects.follow_ups.append("up"))
        rig.resign()
        end.end_slice()
        await trio.testing.wait_all_tasks_blocked()
        assert begun == []


async def test_hopeless_commit_is_not_awaited_at_end(tmp_path):
    """Otherwise it would loop until the epoch is closed."""
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        leader.holding = True
        rig.add("a")
        rig.epoch().step(
            lambda shard, _at: shard._effects.writes.append(Forgotten((Count("a", None),)))
        )
        leader.high_watermark.close()
        with trio.fail_after(5):
            await trio.testing.wait_all_tasks_blocked()
        assert shard.outcomes == []
        assert rig.epoch().state is ShardState.ACTIVE
