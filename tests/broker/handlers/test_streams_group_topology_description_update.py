"""StreamsGroupTopologyDescriptionUpdate as a request: a description that StreamsGroupDescribe returns."""

from __future__ import annotations

import pytest

from tests.broker.groups.rig import open_rig
from tests.broker.groups.streams.driver import request
from tests.broker.handlers.test_streams_group_heartbeat import (
    served,
)
from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.broker.handlers.streams_group_describe import streams_group_describe
from trimaran.broker.handlers.streams_group_heartbeat import streams_group_heartbeat
from trimaran.broker.handlers.streams_group_topology_description_update import (
    streams_group_topology_description_update,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from trimaran.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

E = ErrorCode


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch):
    settings = StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
    monkeypatch.setattr(streams, "DEFAULTS", settings)


DESCRIPTION = TopologyDescription(
    subtopologies=[
        TopologyDescriptionSubtopology(
            subtopology_id="0",
            nodes=[
                TopologyDescriptionNode(
                    name="s", node_type=1, source_topics=["t"], stores=[], successors=[]
                )
            ],
        )
    ],
    global_stores=[],
)


def update(**fields):
    defaults = {"group_id": "g", "member_id": "a", "topology_epoch": 1}
    return StreamsGroupTopologyDescriptionUpdateRequest(
        **{**defaults, **fields}, topology_description=DESCRIPTION
    )


async def test_description_is_returned_by_describe(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        answer = await rig.call(streams_group_topology_description_update, update(), 0)
        assert E(answer.error_code) is E.GROUP_ID_NOT_FOUND
        joined = await rig.call(streams_group_heartbeat, request(), 1)
        assert joined.topology_description_required
        for fields, code in (
            ({}, E.NONE),
            ({"member_id": ""}, E.INVALID_REQUEST),
            ({"member_id": "b"}, E.UNKNOWN_MEMBER_ID),
            ({"topology_epoch": 2}, E.INVALID_REQUEST),
        ):
            answer = await rig.call(streams_group_topology_description_update, update(**fields), 0)
            assert E(answer.error_code) is code
        ask = StreamsGroupDescribeRequest(
            group_ids=["g"],
            include_authorized_operations=False,
            include_topology_description=True,
        )
        (group,) = (await rig.call(streams_group_describe, ask, 1)).groups
        assert (group.topology_description_status, group.topology_description) == (3, DESCRIPTION)


async def test_disabled_feature_is_refused_first(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig, 0)
        await rig.leading()
        answer = await rig.call(streams_group_topology_description_update, update(member_id=""), 0)
        assert E(answer.error_code) is E.UNSUPPORTED_VERSION
