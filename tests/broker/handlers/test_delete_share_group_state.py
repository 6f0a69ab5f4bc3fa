"""DeleteShareGroupState: the state is removed, and may be initialized again."""

from __future__ import annotations

from tests.broker.share_state.driver import TOPIC_ID
from tests.broker.share_state.requests import (
    ask,
    codes,
    delete,
    initialize,
    read,
)
from tests.broker.share_state.rig import open_rig
from trimaran.wire.errors import ErrorCode

E = ErrorCode


async def test_deleted_state_may_be_initialized_again(tmp_path):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0, 1))
        await ask(rig, read(0, leader_epoch=7))
        assert codes(await ask(rig, delete(0))) == {(TOPIC_ID, 0): E.NONE}
        assert codes(await ask(rig, read(0, 1))) == {
            (TOPIC_ID, 0): E.INVALID_REQUEST,
            (TOPIC_ID, 1): E.NONE,
        }
        await ask(rig, initialize(0))
        assert codes(await ask(rig, read(0, leader_epoch=1))) == {(TOPIC_ID, 0): E.NONE}
