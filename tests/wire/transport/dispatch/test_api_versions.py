import struct

import pytest

from tests.broker.calls import call
from tests.wire.transport.support import (
    Toy,
    api_versions_frame,
    ask_api_versions,
    heartbeat,
    open_raw,
    open_server,
    request_frame,
    sized,
)
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.transport.dispatch.api_versions import (
    Features,
    NodeIdentity,
    api_versions_response,
    unsupported_api_versions,
)
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles


@handles(ProduceRequest, versions="5-9", access=open_to_all("a test"))
def produce(request, ctx, call):
    raise AssertionError


@handles(FetchRequest, versions="4-18", access=open_to_all("a test"))
def fetch(request, ctx, call):
    raise AssertionError


def test_api_versions_are_computed_from_handlers():
    registry = Registry([fetch, heartbeat, produce])
    assert registry.api_versions() == {
        0: Versions(5, 9),
        1: Versions(4, 18),
        12: Versions(0, 4),
        17: Versions(0, 1),
        18: Versions(0, 5),
        36: Versions(0, 2),
    }


def test_two_handlers_of_one_request_are_refused():
    with pytest.raises(AssertionError, match="two handlers"):
        Registry([fetch, fetch])


@pytest.mark.parametrize("version", range(5))
async def test_every_version_is_answered(version):
    async with open_server(heartbeat, produce) as server, open_raw(server) as client:
        response = await ask_api_versions(client, version)
        assert response.error_code == 0
        assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [
            (0, 5, 9),
            (12, 0, 4),
            (17, 0, 1),
            (18, 0, 5),
            (36, 0, 2),
        ]


@pytest.mark.parametrize("version", [6, 127, 32767, -1])
async def test_other_versions_get_version_0_with_error_35(version):
    async with open_server(heartbeat) as server, open_raw(server) as client:
        frame = sized(struct.pack(">hhi", 18, version, 31) + b"\xff\xff\0whatever this is")
        await client.send(frame)
        correlation_id, response = await client.answer(18, 0)
        assert correlation_id == 31
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [
            (18, 0, 5)
        ]
        assert (await ask_api_versions(client)).error_code == 0


async def test_features_come_from_the_context():
    features = {
        "now": Features(
            {"metadata.version": (7, 29), "kraft.version": (0, 1)},
            {"metadata.version": 29, "group.version": 0},
            1234,
        )
    }
    registry = Registry([], features=lambda context: context["now"])
    async with open_server(registry, context=features) as server, open_raw(server) as client:
        new = await ask_api_versions(client, 4)
        assert [(f.name, f.min_version, f.max_version) for f in new.supported_features] == [
            ("metadata.version", 7, 29),
            ("kraft.version", 0, 1),
        ]
        assert [
            (f.name, f.min_version_level, f.max_version_level) for f in new.finalized_features
        ] == [("metadata.version", 29, 29)]
        assert new.finalized_features_epoch == 1234
        old = await ask_api_versions(client, 3)
        assert [f.name for f in old.supported_features] == ["metadata.version"]


async def test_software_is_noted_and_checked():
    toy = Toy()
    async with open_server(heartbeat, context=toy) as server, open_raw(server) as client:
        (connection,) = server.connections.values() if server.connections else (None,)
        for name in ["", "-x", "x-", "x y", "x\n", "%s", "x" * 257, "ü"]:
            request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
            await client.send(request_frame(request, 3))
            response = (await client.answer(18, 3))[1]
            assert response.error_code == ErrorCode.INVALID_REQUEST, name
        (connection,) = server.connections.values()
        assert connection.info.client_software is None
        await client.send(api_versions_frame(4))
        await client.answer(18, 4)
        assert connection.info.client_software == ("toy", "1.0")


FEATURES = Features({"zero": (0, 3), "one": (1, 4), "two": (2, 5)}, {"off": 0, "on": 3}, 99)
SERVED = {18: Versions(0, 4), 1: Versions(4, 17)}


def asked_in(version, name="toy", software_version="1.0"):
    request = ApiVersionsRequest(
        client_software_name=name, client_software_version=software_version
    )
    return request, call(request, version)


@pytest.mark.parametrize("version", range(6))
def test_response_has_all_fields_of_version(version):
    request, asked = asked_in(version)
    supported = [
        SupportedFeatureKey(name="zero", min_version=0, max_version=3),
        SupportedFeatureKey(name="one", min_version=1, max_version=4),
        SupportedFeatureKey(name="two", min_version=2, max_version=5),
    ]
    assert api_versions_response(request, asked, SERVED, FEATURES) == ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=18, min_version=0, max_version=4),
            ApiVersion(api_key=1, min_version=4, max_version=17),
        ],
        supported_features=supported if version >= 4 else supported[1:],
        finalized_features_epoch=99,
        finalized_features=[
            FinalizedFeatureKey(name="on", max_version_level=3, min_version_level=3)
        ],
    )
    assert asked.connection.client_software == (("toy", "1.0") if version >= 3 else None)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("software", "is_valid"),
    [
        (("x" * 256, "y" * 256), True),
        (("x" * 257, "1"), False),
        (("x", "y" * 257), False),
        (("", ""), False),
        (("toy-1.x", "1.0-rc.1"), True),
        (("toy", "1.0-"), False),
        (("toy\n", "1.0"), False),
    ],
)
def test_software_is_judged_from_version_3_on(version, software, is_valid):
    request, asked = asked_in(version, *software)
    answer = api_versions_response(request, asked, SERVED, FEATURES)
    if version < 3 or is_valid:
        assert (answer.error_code, len(answer.api_keys)) == (ErrorCode.NONE, 2)
    else:
        assert answer == ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    noted = software if version >= 3 and is_valid else None
    assert asked.connection.client_software == noted


def test_unserved_version_is_answered_with_own_versions():
    assert unsupported_api_versions(Versions(1, 3)) == ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=1, max_version=3)],
    )


@pytest.mark.parametrize(
    ("version", "cluster_id", "node_id", "code"),
    [
        (5, "c", 7, ErrorCode.NONE),
        (5, None, -1, ErrorCode.NONE),
        (5, None, 8, ErrorCode.NONE),
        (5, "c", 8, ErrorCode.REBOOTSTRAP_REQUIRED),
        (5, "c", -1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (5, "d", 7, ErrorCode.REBOOTSTRAP_REQUIRED),
        (5, "", 7, ErrorCode.REBOOTSTRAP_REQUIRED),
        (4, "d", 8, ErrorCode.NONE),
    ],
)
def test_client_of_another_node_must_rebootstrap(version, cluster_id, node_id, code):
    request, asked = asked_in(version)
    request.cluster_id, request.node_id = cluster_id, node_id
    answer = api_versions_response(request, asked, SERVED, FEATURES, NodeIdentity("c", NodeId(7)))
    assert (answer.error_code, bool(answer.api_keys)) == (code, not code)
    assert api_versions_response(request, asked, SERVED, FEATURES).error_code == ErrorCode.NONE
