import pytest

from trimaran.wire.client.conversation import Conversation
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from trimaran.wire.messages.header import decode_request_header, encode_response
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def offered(*keys):
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=k, min_version=low, max_version=high) for k, low, high in keys]
    )


def begun(**options) -> Conversation:
    conversation = Conversation("me", **options)
    conversation.hello("hello")
    frame = encode_response(offered((12, 0, 3), (1, 4, 12), (18, 0, 4)), 4, 0)
    token, response = conversation.receive(memoryview(frame))
    assert token == "hello"
    assert conversation.negotiate(response) is None
    return conversation


def answer(response, version, correlation_id) -> memoryview:
    return memoryview(encode_response(response, version, correlation_id))


def test_version_is_negotiated_and_responses_find_requests():
    conversation = begun()
    header, _body = decode_request_header(conversation.request(HEARTBEAT, None, "a"))
    assert (header.api_version, header.correlation_id, header.client_id) == (3, 1, "me")
    conversation.request(HEARTBEAT, 0, "b")
    assert conversation.receive(answer(HeartbeatResponse(throttle_time_ms=7), 3, 1)) == (
        "a",
        HeartbeatResponse(throttle_time_ms=7),
    )
    assert conversation.unanswered() == ["b"]
    assert conversation.receive(answer(HeartbeatResponse(), 0, 2))[0] == "b"


def test_request_without_response_waits_for_nothing():
    conversation = begun()
    conversation.request(HEARTBEAT, None, None)
    conversation.request(HEARTBEAT, None, "a")
    assert conversation.receive(answer(HeartbeatResponse(), 3, 2))[0] == "a"


@pytest.mark.parametrize("version", [4, -1])
def test_versions_that_the_node_lacks_are_not_sent(version):
    with pytest.raises(VersionMismatch):
        begun().request(HEARTBEAT, version, "a")


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0",
        bytes(answer(HeartbeatResponse(), 3, 2)),
        bytes(answer(HeartbeatResponse(), 3, 1))[:-1],
        bytes(answer(HeartbeatResponse(), 3, 1)) + b"\0",
    ],
)
def test_malformed_response_is_an_error(frame):
    conversation = begun()
    conversation.request(HEARTBEAT, None, "a")
    with pytest.raises(RemoteProtocolError):
        conversation.receive(memoryview(frame))
    assert conversation.unanswered() == ["a"]


def test_response_without_request_is_an_error():
    with pytest.raises(RemoteProtocolError):
        begun().receive(answer(HeartbeatResponse(), 3, 1))


def test_old_node_is_queried_in_its_version():
    conversation = Conversation(None)
    conversation.hello(1)
    refusal = offered((18, 0, 2))
    refusal.error_code = 35
    _, response = conversation.receive(answer(refusal, 0, 0))
    assert conversation.negotiate(response) == 2
    header, body = decode_request_header(frame := conversation.hello(2, 2))
    assert header.api_version == 2
    ApiVersionsRequest.decode(memoryview(frame)[body:], 2)
    _token, response = conversation.receive(answer(offered((12, 0, 1)), 2, 1))
    assert conversation.negotiate(response) is None
    assert conversation.negotiated.best(HeartbeatRequest) == 1


@pytest.mark.parametrize(
    ("code", "keys"), [(35, [(18, 0, 4)]), (35, [(18, 0, 99)]), (58, []), (35, [(18, 0, -1)])]
)
def test_node_without_common_version_is_refused(code, keys):
    response = offered(*keys)
    response.error_code = code
    with pytest.raises(VersionMismatch):
        Conversation(None).negotiate(response)


@pytest.mark.parametrize("copy", [True, False])
def test_record_bytes_are_copied_or_views_as_asked(copy):
    conversation = begun(copy_records=copy)
    conversation.request(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), None, "a")
    partition = PartitionData(
        partition_index=0, high_watermark=0, aborted_transactions=None, records=b"batch"
    )
    topics = [FetchableTopicResponse(topic="t", partitions=[partition])]
    frame = bytearray(encode_response(FetchResponse(responses=topics), 12, 1))
    _, response = conversation.receive(memoryview(frame))
    records = response.responses[0].partitions[0].records
    assert bytes(records) == b"batch"
    place = frame.index(b"batch")
    frame[place : place + 5] = b"OTHER"
    assert bytes(records) == (b"batch" if copy else b"OTHER")
