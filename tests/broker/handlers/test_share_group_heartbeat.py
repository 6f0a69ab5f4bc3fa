from __future__ import annotations

import pytest
import trio

from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_topic_access import authorizer
from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    TopicPartitions,
)

E = ErrorCode


def served(rig, level=1):
    rig.finalize(share_version=level)


def joining(member_id="m", **changes):
    fields = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": 0,
        "subscribed_topic_names": ["t"],
    }
    return ShareGroupHeartbeatRequest(**{**fields, **changes})


def again(epoch):
    return joining(member_epoch=epoch, subscribed_topic_names=None)


async def test_member_joins_stays_and_leaves(tmp_path, monkeypatch, autojump_clock):
    monkeypatch.setattr(share, "DEFAULTS", ShareGroupSettings(assignment_interval_ms=0))
    async with open_rig(tmp_path, share_states=StatesInMemory()) as rig:
        served(rig)
        answer = await rig.call(share_group_heartbeat, joining(), 1)
        assert answer.error_code == E.NOT_COORDINATOR
        await rig.leading()
        answer = await rig.call(share_group_heartbeat, joining(), 1)
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
        assert (answer.heartbeat_interval_ms, answer.assignment.topic_partitions) == (500, [])
        await trio.sleep(0.5)
        answer = await rig.call(share_group_heartbeat, again(2), 1)
        (mine,) = answer.assignment.topic_partitions
        assert mine == TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1, 2, 3])
        answer = await rig.call(share_group_heartbeat, again(answer.member_epoch), 1)
        assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 3, None)
        assert answer.heartbeat_interval_ms == 5_000
        answer = await rig.call(share_group_heartbeat, again(-1), 1)
        assert (answer.error_code, answer.member_epoch) == (0, -1)
        answer = await rig.call(share_group_heartbeat, again(3), 1)
        assert (answer.error_code, answer.error_message) == (
            E.UNKNOWN_MEMBER_ID,
            "Member m is not a member of group g.",
        )


async def test_heartbeat_without_feature_is_not_served(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        await rig.leading()
        for level, member_id, code in (
            (0, "m", E.UNSUPPORTED_VERSION),
            (0, "", E.UNSUPPORTED_VERSION),
            (1, "m", E.NONE),
            (2, "m", E.NONE),
        ):
            served(rig, level)
            answer = await rig.call(share_group_heartbeat, joining(member_id=member_id), 1)
            assert E(answer.error_code) is code


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"group_id": ""}, E.INVALID_REQUEST),
        ({"member_id": ""}, E.INVALID_REQUEST),
        ({"member_id": "x" * 37}, E.INVALID_REQUEST),
        ({"member_epoch": -2}, E.INVALID_REQUEST),
        ({"member_epoch": 5}, E.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, E.GROUP_ID_NOT_FOUND),
        ({"subscribed_topic_names": None}, E.INVALID_REQUEST),
        ({"subscribed_topic_names": ["t", "secret"]}, E.TOPIC_AUTHORIZATION_FAILED),
        ({"subscribed_topic_names": ["secret"], "member_epoch": -2}, E.TOPIC_AUTHORIZATION_FAILED),
        ({"subscribed_topic_names": ["secret"], "member_id": ""}, E.INVALID_REQUEST),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_refused_heartbeat_leaves_no_trace(tmp_path, autojump_clock, wrong, code):
    async with open_rig(tmp_path) as rig:
        served(rig)
        rig.context.authorizer = authorizer()  # allows `t` only
        await rig.leading()
        answer = await rig.call(share_group_heartbeat, joining(**wrong), 1)
        assert E(answer.error_code) is code
        shard = rig.epoch(rig.index_of("g")).active()
        assert not shard.store.knows("g")
        assert rig.leaders[rig.index_of("g")].log.log_end_offset == 0
