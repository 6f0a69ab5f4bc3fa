"""Waiting for flushes: many partitions are looked at in several turns."""

from __future__ import annotations

import trio

from broker.partitions import awaiting
from tests.broker.batches import append
from tests.broker.harness import open_harness, partition, topic

PARTITIONS = 20


async def test_many_partitions_do_not_hold_the_loop(tmp_path, monkeypatch):
    monkeypatch.setattr(awaiting, "LOOKED_AT_PER_TURN", 2)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition()] * PARTITIONS))
    for index in range(PARTITIONS):
        append(harness, b"x", index=index)
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    keys = [("t", index) for index in range(PARTITIONS)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        found = await awaiting.pending_flushes_in_turns(harness.partitions, keys)
        nursery.cancel_scope.cancel()
    assert [one.key for one in found] == keys
    assert turns >= PARTITIONS // 2 - 2, (
        "all but the turn it begins in, and the last if it comes second"
    )


async def test_a_partition_that_is_not_led_here_is_not_waited_for(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition((11, 12), leader=12)))
    assert (
        await awaiting.pending_flushes_in_turns(harness.partitions, [("t", 0), ("elsewhere", 0)])
        == []
    )
