"""The messages of OAUTHBEARER."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done
from trimaran.wire.security.sasl.oauthbearer import (
    BearerToken,
    OAuthBearerExchange,
    TokenRefused,
    client_tokens,
)

CHARS = 24 << 10


def validate(token):
    if token != "good":
        raise TokenRefused("bad")
    return BearerToken("alice", 700)


def evaluate(token):
    return OAuthBearerExchange(validate).evaluate(token)


def test_token_logs_in_its_subject():
    tokens = client_tokens("good")
    done = evaluate(next(tokens))
    assert done == Done(Principal("alice"), b"", 700)
    with pytest.raises(StopIteration):
        tokens.send(done.token)


def test_refused_token_gets_error_before_login_fails():
    exchange, tokens = OAuthBearerExchange(validate), client_tokens("bad")
    challenge = exchange.evaluate(next(tokens))
    assert challenge == Challenge(b'{"status":"invalid_token"}')
    assert tokens.send(challenge.token) == b"\x01"
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        exchange.evaluate(b"\x01")
    with pytest.raises(AuthenticationRefused):
        tokens.send(b"")


def test_message_after_refusal_fails_the_login():
    exchange = OAuthBearerExchange(validate)
    exchange.evaluate(next(client_tokens("bad")))
    with pytest.raises(AuthenticationFailed):
        exchange.evaluate(next(client_tokens("good")))


@pytest.mark.parametrize(
    "token",
    [
        b"n,,\x01auth=bearer   good\x01\x01",
        b"n,a=alice,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01host=x\x01port=1\x01\x01",
        b"n,,\x01traceId=7\x01auth=BEARER good\x01\x01",
    ],
)
def test_valid_message_is_accepted(token):
    assert evaluate(token).principal == Principal("alice")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,auth=Bearer good",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer good",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,a=bob,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer good\x01auth=Bearer bad\x01\x01",
        b"n,,\x01auth=Bearer good;x\x01\x01",
        b"n,,\x01auth=Bearer good\x01\x01\x01",
        b"n,,\x01au\0th=Bearer good\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"g" * (CHARS + 1) + b"\x01\x01",
    ],
)
def test_malformed_message_is_refused(token):
    with pytest.raises(AuthenticationFailed):
        evaluate(token)


@given(st.binary(max_size=100))
def test_any_bytes_are_answered_or_refused(token):
    try:
        assert isinstance(evaluate(token), Challenge | Done)
    except AuthenticationFailed:
        return


def test_token_of_maximal_length_is_checked():
    def of(size):
        return b"n,,\x01auth=Bearer " + b"t" * size + b"\x01\x01"

    assert evaluate(of(CHARS)) == Challenge(b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationFailed, match="wants one bearer token"):
        evaluate(of(CHARS + 1))
