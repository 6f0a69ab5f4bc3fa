"""ReadShareGroupState: a leader gets a state, or the error of each share partition."""

from __future__ import annotations

import pytest

from tests.broker.share_state.driver import TOPIC_ID
from tests.broker.share_state.requests import (
    ask,
    change,
    codes,
    initialize,
    read,
    write,
)
from tests.broker.share_state.rig import open_rig
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages import read_share_group_state as reading

E = ErrorCode


async def test_reads_and_writes_are_fenced_one_by_one(tmp_path):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0, 1))
        await ask(rig, read(0, leader_epoch=7))
        expected = {
            (TOPIC_ID, 0): E.FENCED_LEADER_EPOCH,
            (TOPIC_ID, 1): E.NONE,
            (TOPIC_ID, 2): E.INVALID_REQUEST,
        }
        response = await ask(rig, read(0, 1, 2, leader_epoch=6))
        assert codes(response) == expected
        assert response.results[0].partitions[0] == reading.PartitionResult(
            partition=0,
            error_code=E.FENCED_LEADER_EPOCH,
            error_message=E.FENCED_LEADER_EPOCH.sentence,
            state_epoch=0,
            start_offset=0,
            state_batches=[],
        )
        items = [change(index, leader_epoch=6) for index in range(3)]
        assert codes(await ask(rig, write(*items))) == expected


async def test_read_beyond_memory_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("trimaran.wire.transport.memory.room.RESPONSE_BYTES_MAX", 150)
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0, 1))
        for index in (0, 1):
            await ask(
                rig, write(change(index, *((100 + 2 * n, 100 + 2 * n, 2, 1) for n in range(4))))
            )
        found = codes(await ask(rig, read(0, 1)))
        assert found[TOPIC_ID, 0] is E.NONE
        assert found[TOPIC_ID, 1] is not E.NONE


@pytest.mark.parametrize(("size", "code"), [(44, E.POLICY_VIOLATION), (45, E.NONE)])
async def test_topic_of_read_is_charged_memory(tmp_path, monkeypatch, size, code):
    async with open_rig(tmp_path) as rig:
        await ask(rig, initialize(0))
        monkeypatch.setattr("trimaran.wire.transport.memory.room.RESPONSE_BYTES_MAX", size)
        assert codes(await ask(rig, read(0))) == {(TOPIC_ID, 0): code}
