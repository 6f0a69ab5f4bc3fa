"""DescribeCluster on a controller: the controllers, by the listener of the request (KIP-919)."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.controller.handlers.controller_client import controller_client
from tests.quorum.controller.solo import solo
from tests.quorum.metadata.build import features, uid
from trimaran.node.runtime.latest import Latest
from trimaran.quorum.controller.handlers.describe_cluster import describe_cluster
from trimaran.quorum.raft.listener import LeaderAndEpoch
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest
from trimaran.wire.records.brokers import ControllerEndpoint, RegisterControllerRecord


def described(kind):
    return DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)


async def test_controllers_are_described(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.images.wait_for(lambda image: 1 in image.cluster.controllers)
        answer = await one.call(described(2))
        assert (answer.error_code, answer.controller_id) == (0, 1)
        assert answer.cluster_id == CLUSTER_ID
        (found,) = answer.brokers
        assert (found.host, found.port) == one.running.addresses["CONTROLLER"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [(1, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_controller_describes_no_brokers(tmp_path, kind, code):
    async with controller_client(tmp_path) as one:
        answer = await one.call(described(kind))
        assert (answer.error_code, answer.brokers) == (code, [])


def controller(number, *listeners):
    return RegisterControllerRecord(
        controller_id=number,
        incarnation_id=uid(number),
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(name=name, host=f"{name}-{number}", port=9093, security_protocol=0)
            for name in listeners
        ],
        features=[],
    )


@pytest.mark.parametrize(("leader", "told"), [(2, 2), (None, -1)])
async def test_controllers_are_described_by_request_listener(mock_clock, leader, told):
    both = [
        controller(2, "OTHER", "CONTROLLER"),
        controller(1, "CONTROLLER"),
        controller(3, "OTHER"),
    ]
    async with solo(features(), *both) as one:
        one.log.leader = Latest(LeaderAndEpoch(leader, 5))
        answer = await one.call(describe_cluster, described(2), 1)
        assert [(each.broker_id, each.host) for each in answer.brokers] == [
            (1, "CONTROLLER-1"),
            (2, "CONTROLLER-2"),
        ]
        assert answer.controller_id == told


async def test_operations_are_returned_on_request(mock_clock):
    async with solo(features()) as one:
        one.log.leader = Latest(LeaderAndEpoch(1, 5))
        for asked_for in (False, True):
            request = described(2).replace(include_cluster_authorized_operations=asked_for)
            answer = await one.call(describe_cluster, request, 1)
            assert (answer.cluster_authorized_operations > 0) is asked_for


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
    ],
)
async def test_endpoint_type_mismatch_code_depends_on_version(mock_clock, version, code):
    async with solo(features()) as one:
        answer = await one.call(describe_cluster, described(1), version)
        assert answer.error_code == code
