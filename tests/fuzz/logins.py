"""A login by each mechanism, fuzzed: any input is answered or refused, and no invalid login succeeds.

The input's first byte is the length of the first token; the rest is the second. Clients receive the same tokens as
responses of a node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trimaran.node.oauth.keys import KeySetError, parse_keys
from trimaran.node.oauth.tokens import BearerTokenRules, UnsecuredTokens
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.authenticator import SaslAuthenticator, SaslSettings
from trimaran.wire.security.sasl.exchange import (
    AuthenticationFailed,
    Challenge,
    ClientMechanism,
    Done,
    Exchange,
)
from trimaran.wire.security.sasl.jaas import parse_jaas
from trimaran.wire.security.sasl.oauthbearer import OAuthBearerExchange, TokenRefused, client_tokens
from trimaran.wire.security.sasl.plain import PlainExchange
from trimaran.wire.security.sasl.scram import ScramAccount, ScramExchange, credential_of
from trimaran.wire.security.sasl.scram_client import ScramCredentials
from trimaran.wire.security.tls.jks import JksError, pem_of_jks

NOW_MS = 1_700_000_000_000
CREDENTIAL = credential_of("sha256", "secret", b"salt", 4096)
ALICE = ScramAccount(CREDENTIAL, Principal("alice"))
MECHANISM = "SCRAM-SHA-256"


def tokens_of(data: bytes) -> list[bytes]:
    if not data:
        return []
    return [data[1 : 1 + data[0]], data[1 + data[0] :]]


def converse(exchange: Exchange, tokens: list[bytes]) -> Done | None:
    for token in tokens:
        try:
            step = exchange.evaluate(token)
        except AuthenticationFailed:
            return None
        if isinstance(step, Done):
            return step
        assert isinstance(step, Challenge)
    return None


def ask(client: ClientMechanism, answers: list[bytes]) -> bool:
    """Returns whether the client accepts the node as authenticated."""
    tokens = client.exchange()
    next(tokens)
    try:
        for answer in answers:
            tokens.send(answer)
    except AuthenticationRefused:
        return False
    except StopIteration:
        return True
    return False


def fuzz_plain(data: bytes) -> None:
    done = converse(PlainExchange({"alice": "secret"}), [data])
    assert done is None or data in (b"\0alice\0secret", b"alice\0alice\0secret")


def fuzz_scram(data: bytes) -> None:
    """Checks that neither a client nor a node produces a proof without the password."""
    tokens = tokens_of(data)
    exchange = ScramExchange(MECHANISM, lambda *_: ALICE, lambda: "server")
    assert converse(exchange, tokens) is None
    client = ScramCredentials(MECHANISM, "alice", "secret", make_nonce=lambda: "client")
    assert not ask(client, tokens)


def fuzz_oauthbearer(data: bytes) -> None:
    tokens = tokens_of(data)
    unsecured = UnsecuredTokens(BearerTokenRules(), lambda: NOW_MS)
    done = converse(OAuthBearerExchange(unsecured.validate), tokens)
    assert done is None or done.principal.name.strip()
    for token in tokens:
        _refusing(TokenRefused, partial(unsecured.validate, token.decode("latin-1")))
    _refusing(KeySetError, partial(parse_keys, data))
    steps = client_tokens("token")
    next(steps)
    try:
        for token in tokens:
            steps.send(token)
    except (AuthenticationRefused, StopIteration):
        return


def fuzz_login(data: bytes) -> None:
    """Sends frames of an unauthenticated connection, each after its length: they are answered, refused, or end the
    connection."""
    exchange = partial(ScramExchange, MECHANISM, lambda *_: ALICE, lambda: "server")
    mechanisms = {"PLAIN": partial(PlainExchange, {}), MECHANISM: exchange}
    authenticator = SaslAuthenticator(SaslSettings(mechanisms))
    while data:
        frame, data = data[1 : 1 + data[0]], data[1 + data[0] :]
        try:
            reply = authenticator.receive(memoryview(frame))
        except RemoteProtocolError:
            return
        assert reply.login is None
        if reply.closes is not None:
            return


def fuzz_stores(data: bytes) -> None:
    """Fuzzes files and values of an operator: JKS, with and without its checksum, and login modules."""
    _refusing(JksError, partial(pem_of_jks, data, None, None))
    _refusing(JksError, partial(pem_of_jks, data, "secret", None))
    _refusing(JksError, partial(pem_of_jks, data, None, "secret"))
    _refusing(ValueError, partial(parse_jaas, data.decode("latin-1")))


def _refusing(error: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
