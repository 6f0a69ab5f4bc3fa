"""DescribeCluster on a controller: the controllers, by the listener that was asked (KIP-919)."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.controller.handlers.asking import asked
from wire.errors import ErrorCode
from wire.messages.describe_cluster import DescribeClusterRequest


def described(kind):
    return DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)


async def test_controllers_are_told(tmp_path):
    async with asked(tmp_path) as one:
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
async def test_brokers_are_told_by_brokers(tmp_path, kind, code):
    async with asked(tmp_path) as one:
        answer = await one.call(described(kind))
        assert (answer.error_code, answer.brokers) == (code, [])
