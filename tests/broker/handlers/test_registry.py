"""The registry of a broker's handlers, with requests as their bytes."""

import inspect
from dataclasses import fields

import pytest

from tests.broker.calls import connection
from tests.cluster.data_side import open_harness
from tests.cluster.nodes import CLUSTER_ID
from trimaran.broker.handlers.context import Contexts
from trimaran.broker.handlers.registry import CONTEXT_OF, FAMILIES, HANDLERS, broker_registry
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
    answer = bytes(broker_registry().dispatch(frame, harness.contexts, connection()))
    harness.directory.close(broker_epoch=None)
    body = answer[decode_response_header(answer, 18, 5)[1] :]
    assert ApiVersionsResponse.decode(body, 5).error_code == code


def test_each_handler_gets_its_declared_context(tmp_path):
    harness = open_harness(tmp_path)
    harness.directory.close(broker_epoch=None)
    assert FAMILIES.keys() == {each.name for each in fields(Contexts)}
    shared = []
    for handler in HANDLERS:
        given = type(CONTEXT_OF[handler](harness.contexts)).__name__
        declared = list(inspect.signature(handler).parameters.values())[1].annotation
        if declared == "Serving":  # a handler of brokers and controllers
            shared.append(handler.__name__)
        else:
            assert given == declared, handler.__name__
    assert shared == ["describe_acls", "describe_configs"]


def test_no_family_context_has_many_fields(tmp_path):
    harness = open_harness(tmp_path)
    harness.directory.close(broker_epoch=None)
    sizes = {
        each.name: len(fields(getattr(harness.contexts, each.name))) for each in fields(Contexts)
    }
    assert {name for name, size in sizes.items() if size > 11} == set(), sizes
