"""InitializeShareGroupState: a state is created, with or without a start offset."""

from __future__ import annotations

from tests.broker.share_state.requests import (
    ask,
    initialize,
    read,
)
from tests.broker.share_state.rig import open_rig
from trimaran.wire.errors import ErrorCode

E = ErrorCode


async def test_missing_start_offset_is_stored_as_such(tmp_path):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0, start_offset=-1))
        (topic,) = (await ask(rig, read(0))).results
        assert topic.partitions[0].start_offset == -1
