"""Who waits for shards that load, of which partitions, and for how long."""

from __future__ import annotations

import pytest
import trio

from broker.coordination.shard_epoch import ShardState
from tests.broker.coordination.rig import Rig, open_rig


@pytest.fixture
def rig(tmp_path):
    """Nothing runs, so that both shards load for ever; the first is made to serve by hand."""
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


async def test_only_the_shards_that_are_asked_for_are_waited_for(rig, autojump_clock):
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


async def test_a_shard_is_committed_as_far_as_it_knows_while_it_is_led(tmp_path):
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
