"""InitializeShareGroupState: a state begins, with or without a start offset."""

from __future__ import annotations

from tests.broker.share_state.requests import (
    ask,
    initialize,
    read,
)
from tests.broker.share_state.rig import open_rig
from trimaran.wire.errors import ErrorCode

E = ErrorCode


async def test_without_a_start_offset_none_is_stored(tmp_path):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0, start_offset=-1))
        (topic,) = (await ask(rig, read(0))).results
        assert topic.partitions[0].start_offset == -1
