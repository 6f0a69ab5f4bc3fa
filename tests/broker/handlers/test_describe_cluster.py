"""DescribeCluster on a broker: brokers with the address of the request's listener."""

import pytest

from tests.broker.calls import call, through_wire
from tests.cluster.data_side import open_harness, registration
from tests.cluster.nodes import CLUSTER_ID
from trimaran.broker.handlers.describe_cluster import describe_cluster
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    fenced = registration(13, 9113, fenced=True)
    harness.set_image(brokers=(registration(12, 9112), registration(11, 9111), fenced))
    yield harness
    harness.directory.close(broker_epoch=None)


def described(harness, version=2, **fields):
    fields = {"include_cluster_authorized_operations": False, **fields}
    request = through_wire(DescribeClusterRequest(**fields), version)
    return through_wire(
        describe_cluster(request, harness.contexts.administration, call(request, version)), version
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_serving_brokers_are_described(harness, version):
    answer = described(harness, version)
    assert [(broker.broker_id, broker.port) for broker in answer.brokers] == [
        (11, 9111),
        (12, 9112),
    ]
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 11)


def test_fenced_brokers_are_described_on_request(harness):
    answer = described(harness, include_fenced_brokers=True)
    assert [(broker.broker_id, broker.is_fenced) for broker in answer.brokers] == [
        (11, False),
        (12, False),
        (13, True),
    ]


def test_controller_id_is_that_of_serving_broker(harness):
    """Any broker forwards requests for the controller; this one is named if it is not fenced."""
    own = registration(11, 9111, fenced=True)
    harness.set_image(brokers=(own, registration(12, 9112)))
    assert described(harness).controller_id == 12
    harness.set_image(brokers=(own,))
    assert described(harness).controller_id == -1


@pytest.mark.parametrize(
    ("kind", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_controllers_are_described_by_controllers(harness, kind, code):
    answer = described(harness, endpoint_type=kind)
    assert (answer.error_code, answer.brokers) == (code, [])
