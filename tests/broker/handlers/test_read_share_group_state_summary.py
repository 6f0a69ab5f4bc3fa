"""ReadShareGroupStateSummary: the position of a share group, also without a state."""

from __future__ import annotations

import pytest

from tests.broker.share_state.requests import (
    ask,
    change,
    initialize,
    read,
    summary,
    write,
)
from tests.broker.share_state.rig import open_rig
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages import read_share_group_state_summary as summing

E = ErrorCode


@pytest.mark.parametrize(("version", "count"), [(0, -1), (1, 4)])
async def test_a_position_is_read_without_fencing(tmp_path, version, count):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        await ask(rig, read(0, leader_epoch=5))
        await ask(rig, write(change(0, start_offset=101, count=4)))
        (topic,) = (await ask(rig, summary(0, 1), version)).results
        assert topic.partitions == [
            summing.PartitionResult(
                partition=0,
                state_epoch=1,
                leader_epoch=5,
                start_offset=101,
                delivery_complete_count=count,
            ),
            summing.PartitionResult(
                partition=1,
                state_epoch=0,
                leader_epoch=0,
                start_offset=-1,
                delivery_complete_count=-1,
            ),
        ]
