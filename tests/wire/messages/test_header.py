import pytest

from tests.checks import check_each
from tests.wire.declared import versions_of
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from trimaran.wire.messages.controlled_shutdown import ControlledShutdownRequest
from trimaran.wire.messages.fetch import FetchRequest, FetchResponse
from trimaran.wire.messages.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey

FETCH = FetchRequest(max_wait_ms=1, min_bytes=2, topics=[])


@pytest.mark.parametrize("client_id", [None, "", "é", "c" * 32767])
@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_request_header_round_trips(version, client_id):
    frame = encode_request(FETCH, version, -5, client_id)
    header, pos = decode_request_header(memoryview(frame))
    assert header == RequestHeader(ApiKey.FETCH, version, -5, client_id or "")
    assert FetchRequest.decode(frame[pos:], version) == FETCH


def test_request_header_has_layout_of_version():
    assert encode_request(FETCH, 11, 7, "ab").startswith(
        bytes.fromhex("0001000b000000070002") + b"ab"
    )
    assert encode_request(FETCH, 12, 7, None)[:11].hex() == "0001000c00000007ffff" + "00"


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_response_header_round_trips(version):
    frame = encode_response(FetchResponse(responses=[]), version, 9)
    correlation_id, pos = decode_response_header(memoryview(frame), ApiKey.FETCH, version)
    assert correlation_id == 9
    assert pos == (5 if version >= 12 else 4)
    assert FetchResponse.decode(frame[pos:], version) == FetchResponse(responses=[])


@pytest.mark.parametrize("version", versions_of(ApiVersionsResponse))
def test_api_versions_keeps_the_old_response_header(version):
    response = ApiVersionsResponse(api_keys=[])
    frame = encode_response(response, version, 3)
    assert frame == b"\0\0\0\3" + response.encode(version)
    assert decode_response_header(frame, ApiKey.API_VERSIONS, version) == (3, 4)


def test_unknown_keys_and_versions_are_returned():
    frame = b"\x7f\xff\0\1\0\0\0\2\0\1c"
    assert decode_request_header(frame) == (RequestHeader(32767, 1, 2, "c"), 11)
    newer = b"\0\x12\0\x63\0\0\0\2\xff\xff" + b"anything"
    assert decode_request_header(newer) == (RequestHeader(18, 99, 2, ""), 10)


def test_controlled_shutdown_v0_has_no_client_id():
    request = ControlledShutdownRequest(broker_id=5)
    frame = encode_request(request, 0, 3, "c")
    assert frame.hex() == "0007" + "0000" + "00000003" + "00000005"
    for view in (memoryview(frame), bytes(frame[:8])):
        assert decode_request_header(view) == (RequestHeader(7, 0, 3, ""), 8)
    with pytest.raises(RemoteProtocolError):
        decode_request_header(bytes(frame[:7]))
    assert decode_request_header(encode_request(request, 1, 3, "c"))[0].client_id == "c"


def test_too_long_client_id_raises_local_error():
    with pytest.raises(LocalProtocolError):
        encode_request(ApiVersionsRequest(), 0, 1, "c" * 32768)


def test_short_response_header_is_refused():
    for frame in (b"", b"\0\0\0"):
        with pytest.raises(RemoteProtocolError):
            decode_response_header(frame, ApiKey.FETCH, 4)
    with pytest.raises(RemoteProtocolError):
        decode_response_header(b"\0\0\0\1", ApiKey.FETCH, 12)


def test_request_and_response_headers_match():
    check_each(ApiKey, has_a_pair)


def has_a_pair(key):
    request, response = REQUESTS[key], RESPONSES[key]
    assert request.KEY == response.KEY == key
    assert request.VERSIONS == response.VERSIONS
    assert request.FLEXIBLE == response.FLEXIBLE
