"""The registry of a broker's handlers, with requests as their bytes."""

import pytest

from tests.broker.calls import connection
from tests.cluster.data_side import open_harness
from tests.cluster.nodes import CLUSTER_ID
from trimaran.broker.handlers.registry import broker_registry
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from trimaran.wire.messages.header import decode_response_header, encode_request


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (CLUSTER_ID, 11, ErrorCode.NONE),
        (CLUSTER_ID, 12, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 11, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_client_of_another_broker_must_rebootstrap(tmp_path, cluster_id, node_id, code):
    harness = open_harness(tmp_path)
    request = ApiVersionsRequest(
        client_software_name="toy",
        client_software_version="1",
        cluster_id=cluster_id,
        node_id=node_id,
    )
    frame = memoryview(bytearray(encode_request(request, 5, 7, "test")))
    answer = bytes(broker_registry().dispatch(frame, harness.context, connection()))
    harness.directory.close(broker_epoch=None)
    body = answer[decode_response_header(answer, 18, 5)[1] :]
    assert ApiVersionsResponse.decode(body, 5).error_code == code
