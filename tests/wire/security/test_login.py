"""A client's reaction to each response of a node to which it logs in."""

import pytest

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from trimaran.wire.security.listener import login


class Twice:
    """A mechanism with two tokens: the second one is the reversed response to the first."""

    mechanism = "TWICE"
    blocks = False

    def exchange(self):
        answer = yield b"first"
        yield answer[::-1]


def test_last_response_has_lifetime_of_login():
    requests = login("TWICE", Twice().exchange())
    assert next(requests) == SaslHandshakeRequest(mechanism="TWICE")
    first = requests.send(SaslHandshakeResponse(mechanisms=["TWICE"]))
    assert first == SaslAuthenticateRequest(auth_bytes=b"first")
    second = requests.send(SaslAuthenticateResponse(auth_bytes=b"abc", session_lifetime_ms=9))
    assert second == SaslAuthenticateRequest(auth_bytes=b"cba")
    with pytest.raises(StopIteration) as ended:
        requests.send(SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=5000))
    assert ended.value.value == 5000


@pytest.mark.parametrize(
    ("code", "mechanisms", "told"),
    [
        (
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            ["PLAIN", "X"],
            "the node offers the SASL mechanisms PLAIN, X, not TWICE",
        ),
        (
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            [],
            "the node offers the SASL mechanisms none, not TWICE",
        ),
        (
            ErrorCode.ILLEGAL_SASL_STATE,
            ["TWICE"],
            "the node answers SaslHandshake with ILLEGAL_SASL_STATE",
        ),
    ],
)
def test_refused_handshake_names_offered_mechanisms_or_error(code, mechanisms, told):
    requests = login("TWICE", Twice().exchange())
    next(requests)
    with pytest.raises(AuthenticationRefused) as refused:
        requests.send(SaslHandshakeResponse(error_code=code, mechanisms=mechanisms))
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("message", "told"),
    [("wrong password", "wrong password"), (None, "SASL_AUTHENTICATION_FAILED")],
)
def test_refused_token_has_nodes_message_or_code(message, told):
    requests = login("TWICE", Twice().exchange())
    next(requests)
    requests.send(SaslHandshakeResponse(mechanisms=["TWICE"]))
    response = SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
    )
    with pytest.raises(AuthenticationRefused) as refused:
        requests.send(response)
    assert str(refused.value) == told
