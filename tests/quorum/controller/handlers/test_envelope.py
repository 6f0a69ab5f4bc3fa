"""Envelope: a valid forwarded request is answered inside; an invalid one is refused."""

from dataclasses import replace

import pytest

from tests.broker.handlers.test_create_topics import creation
from tests.quorum.controller.handlers.controller_client import (
    NOBODY,
    controller_client,
    envelope,
    principal,
    standby_client,
)
from tests.quorum.controller.handlers.test_create_topics import authorizer
from tests.quorum.controller.solo import solo
from tests.quorum.metadata.build import broker, features
from trimaran.quorum.controller.handlers import envelope as module
from trimaran.quorum.controller.handlers.envelope import envelope as handler
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from trimaran.wire.messages.create_topics import CreateTopicsResponse
from trimaran.wire.messages.default_principal_data import DefaultPrincipalData
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.elements import HEAVY_BYTES

FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])


@pytest.mark.parametrize("version", [2, 7])
async def test_a_forwarded_request_is_answered_inside(tmp_path, version):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        answer = await one.call(envelope(creation(), version))
        assert answer.error_code == 0
        correlation_id, body = decode_response_header(answer.response_data, 19, version)
        inside = CreateTopicsResponse.decode(answer.response_data[body:], version)
        assert (correlation_id, inside.topics[0].error_code) == (77, 0)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (envelope(FETCH, 12), ErrorCode.INVALID_REQUEST),
        (envelope(envelope(creation(), 7), 0), ErrorCode.INVALID_REQUEST),  # mA13
        (envelope(b"\0\x13", 0), ErrorCode.INVALID_REQUEST),
        (
            envelope(bytes(encode_request(creation(), 7, 1, None))[:-3], 0),
            ErrorCode.INVALID_REQUEST,
        ),
        (envelope(b"\0\x13\0\x63\0\0\0\1\xff\xff", 0), ErrorCode.UNSUPPORTED_VERSION),
        (
            envelope(creation(), 7).replace(request_principal=None),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
        (
            envelope(creation(), 7).replace(request_principal=b"\0\0\xff"),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
        (envelope(creation(), 7).replace(client_host_address=b"\1"), ErrorCode.INVALID_REQUEST),
    ],
    ids=[
        *("of another API", "in an envelope", "half a header", "cut", "of another version"),
        *("without a principal", "with half a principal", "without an address"),
    ],
)
async def test_invalid_envelopes_are_refused(tmp_path, wrong, code):
    async with controller_client(tmp_path) as one:
        answer = await one.call(wrong)
        assert (ErrorCode(answer.error_code), answer.response_data) == (code, None)


async def test_authorizer_accepts_envelopes_only_from_brokers(tmp_path):
    """mA13: an envelope names its client, so only a broker may send one."""
    async with controller_client(tmp_path, **NOBODY) as one:
        answer = await one.call(envelope(creation(), 7, "admin"))
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_token_user_gets_no_token_through_broker(tmp_path):
    """The controller refuses it too, whether or not the broker has checked the request."""
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    data = DefaultPrincipalData(type="User", name="alice", token_authenticated=True)
    forwarded = envelope(request, 3).replace(request_principal=b"\0\0" + data.encode(0))
    async with controller_client(tmp_path, delegation_token_secret_key="k") as one:
        answer = await one.call(forwarded)
        _, body = decode_response_header(answer.response_data, request.KEY, 3)
        inside = CreateDelegationTokenResponse.decode(answer.response_data[body:], 3)
        assert inside.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.slow
async def test_inactive_controller_refuses_envelope_at_top(tmp_path):
    async with standby_client(tmp_path) as one:
        answer = await one.call(envelope(creation(), 7))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER


def inside(answer, version=7):
    _, body = decode_response_header(answer.response_data, CreateTopicsResponse.KEY, version)
    return CreateTopicsResponse.decode(answer.response_data[body:], version)


@pytest.mark.parametrize("names", [1, 600])
async def test_large_forwarded_request_is_answered_inside(mock_clock, names):
    """A large one is decoded in a thread."""
    async with solo(features(), broker(1)) as one:
        request = creation()
        request.topics = [request.topics[0].replace(name="t" * 100 + f"{i}") for i in range(names)]
        assert (len(request.encode(7)) > HEAVY_BYTES) is (names > 1)
        made = await one.call(handler, envelope(request, 7))
        assert [each.error_code for each in inside(made).topics] == [0] * names


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (b"\n\0\0\1", "10.0.0.1"),
        (bytes(15) + b"\1", "::1"),
        (bytes(10) + b"\xff\xff\n\0\0\1", "10.0.0.1"),
    ],
)
async def test_inner_request_has_clients_principal_and_host(mock_clock, monkeypatch, address, host):
    seen = []
    client = module._client
    monkeypatch.setattr(module, "_client", lambda *given: seen.append(client(*given)) or seen[0])
    async with solo(features(), broker(1)) as one:
        one.context = replace(one.context, authorizer=authorizer(Operation.CREATE))
        request = envelope(creation(), 7, "alice").replace(client_host_address=address)
        made = await one.call(handler, request)
        assert inside(made).topics[0].error_code == 0
    assert (str(seen[0].principal), seen[0].peer[0]) == ("User:alice", host)


@pytest.mark.parametrize(
    "wrong",
    [
        envelope(creation(), 7).replace(request_principal=b"\0\1" + principal()[2:]),
        envelope(creation(), 7).replace(request_principal=b"\1\0" + principal()[2:]),
    ],
)
async def test_principal_of_another_version_is_refused(mock_clock, wrong):
    async with solo(features()) as one:
        with pytest.raises(KafkaError) as refused:
            await one.call(handler, wrong)
        assert refused.value.code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


async def test_former_leader_redirects_broker_despite_inner_answer(mock_clock):
    """The envelope has the error, whatever the inner response is: a client would take the inner one as final."""
    async with solo(features(), broker(1)) as one:
        answer = one.begin(handler, envelope(creation(), 7))
        one.active.close()
        one.controller._active = None
        with pytest.raises(KafkaError) as refused:
            await answer.finish()
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(KafkaError) as refused:
            one.begin(handler, envelope(creation(), 7))
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
