"""The registry: the handler of a request, its versions and maximal size, and the response to requests without a
handler.
"""

import struct

import pytest

from tests.broker.calls import connection
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersionsResponse
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.header import decode_response_header
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.list_groups import ListGroupsRequest
from trimaran.wire.messages.offset_delete import OffsetDeleteRequest
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from trimaran.wire.messages.sasl_handshake import SaslHandshakeResponse
from trimaran.wire.transport.dispatch.registry import Registry, UnsupportedRequest
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles

OPEN = open_to_all("a test")
HEARTBEAT, LIST_GROUPS, PRODUCE, OFFSET_DELETE, FIND_COORDINATOR = 12, 16, 0, 47, 10


def declared(request, versions, **options):
    def handler(request, context, call):
        raise AssertionError

    return handles(request, versions=versions, access=OPEN, **options)(handler)


def said(request, code, message):
    raise AssertionError


def registry():
    return Registry(
        (
            declared(OffsetDeleteRequest, "0", on_error=said),
            declared(ListGroupsRequest, "1-3", elements_max=1000),
            declared(HeartbeatRequest, "1-3"),
            declared(FindCoordinatorRequest, "3-4"),
            declared(ProduceRequest, "3-9", elements_max=20_000),
        ),
        unadvertised={ProduceRequest: Versions(3, 5)},
    )


def frame(key, version, size=8):
    return memoryview(struct.pack(">hhi", key, version, 77).ljust(size, b"\0"))


def refusal(data):
    with pytest.raises(RemoteProtocolError) as refused:
        registry().dispatch(data, None, connection())
    return type(refused.value), str(refused.value)


def test_versions_are_sorted_by_key_without_hidden_ones():
    assert list(registry().api_versions().items()) == [
        (PRODUCE, Versions(6, 9)),
        (FIND_COORDINATOR, Versions(3, 4)),
        (HEARTBEAT, Versions(1, 3)),
        (LIST_GROUPS, Versions(1, 3)),
        (17, Versions(0, 1)),
        (18, Versions(0, 5)),
        (36, Versions(0, 2)),
        (OFFSET_DELETE, Versions(0, 0)),
    ]
    keys = [route.request.KEY for route in registry().routes()]
    assert keys == list(registry().handled()) == [0, 10, 12, 16, 17, 18, 36, 47]
    assert registry().handled()[LIST_GROUPS].elements_max == 1000


def test_request_without_handler_closes_with_reason():
    head = (RemoteProtocolError, "a request of 7 bytes has no header")
    assert refusal(frame(HEARTBEAT, 1)[:7]) == head
    assert refusal(frame(99, 0)) == (UnsupportedRequest, "api key 99 is not served here")
    for version in (0, 4):
        told = f"HeartbeatRequest v{version}, served is 1 to 3"
        assert refusal(frame(HEARTBEAT, version)) == (UnsupportedRequest, told)


def test_too_new_api_versions_gets_version_0_answer():
    answer = bytes(registry().dispatch(frame(18, 6), None, connection()))
    number, body = decode_response_header(answer, 18, 0)
    found = ApiVersionsResponse.decode(answer[body:], 0)
    assert (number, found.error_code) == (77, ErrorCode.UNSUPPORTED_VERSION)
    assert [
        (api_key.api_key, api_key.min_version, api_key.max_version) for api_key in found.api_keys
    ] == [(18, 0, 5)]


async def test_too_new_version_is_not_decoded_apart():
    answer = await registry().dispatch_heavy(frame(18, 6, 20_000), None, connection())
    assert isinstance(answer, Outgoing)


def test_large_frame_is_heavy_unless_handled_directly():
    one = registry()
    for size, heavy in ((16_384, False), (16_385, True)):
        assert one.is_heavy(frame(HEARTBEAT, 1, size)) is heavy
        assert one.is_heavy(frame(PRODUCE, 3, size)) is heavy
    assert not one.is_heavy(frame(LIST_GROUPS, 1, 20_000))
    assert not one.is_heavy(frame(99, 1, 20_000))


@pytest.mark.parametrize(
    ("size", "elements"), [(40_003, 10_000), (80_000, 20_000), (90_000, 20_000)]
)
def test_large_request_counts_all_its_possible_elements(size, elements):
    assert registry().memory_of(frame(PRODUCE, 3, size)) == size + elements * 384


@pytest.mark.parametrize(
    ("key", "version", "is_answered"),
    [
        (HEARTBEAT, 0, False),
        (HEARTBEAT, 1, True),
        (HEARTBEAT, 3, True),
        (HEARTBEAT, 4, False),
        (99, 0, False),
        (OFFSET_DELETE, 0, False),
        (PRODUCE, 3, False),
        (FIND_COORDINATOR, 4, False),
    ],
)
def test_request_is_refused_unread_if_response_can(key, version, is_answered):
    answer = registry().refuse(frame(key, version), ErrorCode.NOT_COORDINATOR, "not now")
    assert (answer is not None) is is_answered
    if answer is not None:
        number, body = decode_response_header(bytes(answer), key, version)
        found = HeartbeatResponse.decode(bytes(answer)[body:], version)
        assert (number, found.error_code) == (77, ErrorCode.NOT_COORDINATOR)


def test_open_connection_refuses_second_login():
    handlers = {route.request.KEY: route.handler for route in registry().routes()}
    assert handlers[17](None, None, None) == SaslHandshakeResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]
    )
    assert handlers[36](None, None, None) == SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="this connection is not, or no longer, to be authenticated by SASL",
        auth_bytes=b"",
    )


def test_coordinator_is_refused_in_last_version_with_code():
    code = ErrorCode.NOT_COORDINATOR
    assert registry().refuse(frame(FIND_COORDINATOR, 3), code, "not now") is not None
