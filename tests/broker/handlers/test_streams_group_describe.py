"""StreamsGroupDescribe as a request: groups with all topics visible, and others."""

from __future__ import annotations

import pytest

from tests.broker.groups.rig import open_rig
from tests.broker.groups.streams.driver import request
from tests.broker.handlers.test_streams_group_heartbeat import (
    MISSING,
    authorizer,
    served,
)
from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.broker.handlers.streams_group_describe import streams_group_describe
from trimaran.broker.handlers.streams_group_heartbeat import streams_group_heartbeat
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

E = ErrorCode


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch):
    settings = StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
    monkeypatch.setattr(streams, "DEFAULTS", settings)


async def test_hidden_topology_is_not_described(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(streams_group_heartbeat, request(topology=MISSING), 1)
        ask = StreamsGroupDescribeRequest(
            group_ids=["g", "h"],
            include_authorized_operations=True,
            include_topology_description=True,
        )
        answer = await rig.call(streams_group_describe, ask, 1)
        (group, unknown) = answer.groups
        assert (group.error_code, group.group_state, len(group.members)) == (0, "NotReady", 1)
        assert (group.topology_description_status, group.assignor_name) == (1, "sticky")
        assert group.authorized_operations > 0
        assert unknown.error_code in (E.GROUP_ID_NOT_FOUND, E.NOT_COORDINATOR)
        rig.context.authorizer = authorizer()
        answer = await rig.call(streams_group_describe, ask, 1)
        assert E(answer.groups[0].error_code) is E.TOPIC_AUTHORIZATION_FAILED
        assert (answer.groups[0].topology, answer.groups[0].members) == (None, [])
