"""The general response to a failed request, in full, for requests that have one and for those that have none."""

import pytest

from trimaran.wire.codec.declarations import Versions, field, int16, string
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from trimaran.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.messages.registry import REQUESTS, RESPONSES
from trimaran.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from trimaran.wire.schema import Message, response
from trimaran.wire.transport.requests import error_responses
from trimaran.wire.transport.requests.error_responses import general_error

CODE = ErrorCode.NOT_CONTROLLER
ALL = 32_767


@pytest.mark.parametrize(
    ("request_class", "versions", "expected"),
    [
        (HeartbeatRequest, (0, ALL), HeartbeatResponse(error_code=CODE)),
        (
            JoinGroupRequest,
            (0, ALL),
            JoinGroupResponse(
                error_code=CODE, protocol_name="", leader="", member_id="", members=[]
            ),
        ),
        (
            DescribeClusterRequest,
            (0, ALL),
            DescribeClusterResponse(
                error_code=CODE, error_message="why", cluster_id="", brokers=[]
            ),
        ),
        (
            DescribeQuorumRequest,
            (0, ALL),
            DescribeQuorumResponse(error_code=CODE, error_message="why", topics=[]),
        ),
        (
            FindCoordinatorRequest,
            (0, 3),
            FindCoordinatorResponse(error_code=CODE, error_message="why"),
        ),
        (
            StreamsGroupHeartbeatRequest,
            (0, ALL),
            StreamsGroupHeartbeatResponse(
                error_code=CODE,
                error_message="why",
                member_id="",
                member_epoch=0,
                heartbeat_interval_ms=0,
                task_offset_interval_ms=0,
                status=[],
                endpoint_information_epoch=0,
            ),
        ),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_general_answer_holds_code_message_and_zeros(request_class, versions, expected):
    general = general_error(request_class)
    assert general.versions == Versions(*versions)
    assert general.build(CODE, "why") == expected


def test_response_without_code_has_no_general_answer():
    assert general_error(ProduceRequest) is None


@pytest.mark.parametrize(("versions", "is_told"), [("0+", True), ("1+", False)])
def test_message_is_sent_if_all_versions_carry_it(monkeypatch, versions, is_told):
    @response(key=12, versions="0-4", flexible="4+")
    class Response(Message):
        error_code: int16 = 0
        error_message: string | None = field(versions, default=None)

    monkeypatch.setattr(error_responses, "RESPONSES", {12: Response})
    built = general_error(HeartbeatRequest).build(CODE, "why")
    assert built == Response(error_code=CODE, error_message="why" if is_told else None)
    assert Response.decode(built.encode(0), 0).error_code == CODE


def test_general_answer_is_readable_in_each_version():
    for key, request_class in REQUESTS.items():
        general = general_error(request_class)
        fields = {field.name for field in RESPONSES[key].__fields__}
        assert (general is not None) == ("error_code" in fields), request_class
        if general is None:
            continue
        said = general.build(CODE, "why")
        for version in range(RESPONSES[key].VERSIONS.high + 1):
            if version in general.versions:
                read = RESPONSES[key].decode(said.encode(version), version)
                assert (type(read), read.error_code) == (RESPONSES[key], CODE), version
