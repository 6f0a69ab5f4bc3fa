"""The controller's response reaches the client unchanged; a response to another request does not."""

from __future__ import annotations

import pytest
import trio

from tests.broker.calls import call, finished
from trimaran.broker.channels.forwarding import Forwarder, decode_response
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.messages.default_principal_data import DefaultPrincipalData
from trimaran.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from trimaran.wire.messages.header import decode_request_header, encode_response
from trimaran.wire.security.principal import Principal

VERSION = 7


class Controller:
    """Answers every request with `response`."""

    def __init__(self, response: CreateTopicsResponse) -> None:
        self.response = response
        self.lies = 0  # offset of the response's correlation id from the request's
        self.error = ErrorCode.NONE
        self.timeout: float | None = None  # the time-out of the last request
        self.principal = b""
        # the number of response bytes that arrive; None: not even an empty frame
        self.size: int | None = 1 << 30

    async def call(
        self,
        request: EnvelopeRequest,
        *,
        timeout: float,  # noqa: ASYNC109
    ) -> EnvelopeResponse:
        self.timeout = timeout
        self.principal = request.request_principal
        await trio.lowlevel.checkpoint()
        header, _ = decode_request_header(request.request_data)
        data = encode_response(self.response, header.api_version, header.correlation_id + self.lies)
        left = None if self.size is None else bytes(data)[: self.size]
        return EnvelopeResponse(error_code=self.error, response_data=left)


def created(*names: str) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=name) for name in names])


def creation_request(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            for name in names
        ]
    )


async def test_response_is_forwarded_unchanged() -> None:
    request, response = creation_request("a"), created("a")
    at = call(request, VERSION)
    forwarded = await finished(Forwarder(Controller(response), 30.0).forward_request(request, at))
    assert forwarded == encode_response(response, VERSION, at.header.correlation_id)
    assert decode_response(forwarded, at, CreateTopicsResponse) == response


@pytest.mark.parametrize(("version", "throttle_ms"), [(1, 0), (2, 1500), (7, 1500)])
async def test_throttled_clients_connection_is_muted(version: int, throttle_ms: int) -> None:
    """These versions have no field for the throttle time."""
    at = call(creation_request("a"), version)
    controller = Controller(created("a").replace(throttle_time_ms=1500))
    await finished(Forwarder(controller, 30.0).forward_request(creation_request("a"), at))
    assert at.throttle_ms == throttle_ms
    assert (at.connection.muted_until is not None) is (throttle_ms > 0)


@pytest.mark.parametrize("by_token", [False, True])
async def test_envelope_carries_clients_principal_and_login(by_token: bool) -> None:
    controller, at = Controller(created("a")), call(creation_request("a"), VERSION)
    at.connection.principal = Principal("a:*", by_token=by_token)
    await finished(Forwarder(controller, 30.0).forward_request(creation_request("a"), at))
    told = DefaultPrincipalData.decode(controller.principal[2:], 0)
    assert told == DefaultPrincipalData(type="User", name="a:*", token_authenticated=by_token)


async def test_request_waits_as_long_as_configured() -> None:
    controller = Controller(created("a"))
    await finished(
        Forwarder(controller, 2.5).forward_request(
            creation_request("a"), call(creation_request("a"), VERSION)
        )
    )
    assert controller.timeout == 2.5


async def test_envelope_error_is_raised() -> None:
    controller = Controller(created("a"))
    controller.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
        await finished(
            Forwarder(controller, 30.0).forward_request(
                creation_request("a"), call(creation_request("a"), VERSION)
            )
        )


async def test_answer_to_another_request_is_not_forwarded() -> None:
    """The error is the controller's: the client's connection and its other requests continue."""
    controller = Controller(created("a"))
    controller.lies = 1
    with pytest.raises(KafkaError, match=r"UNKNOWN_SERVER_ERROR.*answered another request"):
        await finished(
            Forwarder(controller, 30.0).forward_request(
                creation_request("a"), call(creation_request("a"), VERSION)
            )
        )


@pytest.mark.parametrize("size", [None, 0, 3, 5, 9])
async def test_invalid_response_is_an_error(size: int | None) -> None:
    controller = Controller(created("a"))
    controller.size = size
    with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
        await finished(
            Forwarder(controller, 30.0).forward(
                creation_request("a"), call(creation_request("a"), VERSION), CreateTopicsResponse
            )
        )
