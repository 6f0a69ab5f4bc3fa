"""WriteShareGroupState: versions, order, and batches that cannot be."""

from __future__ import annotations

import pytest

from tests.broker.share_state.driver import TOPIC_ID
from tests.broker.share_state.requests import (
    ask,
    change,
    codes,
    initialize,
    read,
    summary,
    write,
)
from tests.broker.share_state.rig import open_rig
from trimaran.wire.errors import ErrorCode

E = ErrorCode


async def test_version_0_has_no_complete_count(tmp_path):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        await ask(rig, write(change(0, start_offset=101, count=4)), 0)
        (topic,) = (await ask(rig, summary(0))).results
        assert topic.partitions[0].delivery_complete_count == -1
        await ask(rig, write(change(0, start_offset=102, count=4)), 1)
        (topic,) = (await ask(rig, summary(0), 0)).results
        assert topic.partitions[0].start_offset == 102


@pytest.mark.parametrize("batch", [(101, 100, 0, 1), (100, 101, 5, 1), (100, 101, -1, 1)])
async def test_a_batch_that_cannot_be_is_refused(tmp_path, batch):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        found = await ask(rig, write(change(0, (100, 100, 2, 1), batch)))
        assert codes(found) == {(TOPIC_ID, 0): E.INVALID_REQUEST}
        (topic,) = (await ask(rig, read(0))).results
        assert topic.partitions[0].state_batches == []


async def test_writes_of_one_partition_are_applied_in_order(tmp_path):
    """One result is returned, that of the last."""
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
