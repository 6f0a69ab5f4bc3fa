"""The messages of GSSAPI on both sides, with a context that seals messages visibly (`tests/interop/test_kerberos.py`
uses a real one).
"""

import pytest

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.kerberos_names import LocalNames
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done
from trimaran.wire.security.sasl.gssapi import ContextFailed, GssapiExchange, client_tokens

OFFER = bytes([1, 0, 0, 0])
REFUSED = "invalid credentials with SASL mechanism GSSAPI"


class Toy:
    """A context that expects `takes`, one token after the other, and answers each with the token of `gives`."""

    def __init__(self, takes, gives, peer="alice@R"):
        self._takes, self._gives, self.peer = [*takes], [*gives], peer

    @property
    def is_established(self):
        return not self._takes

    def step(self, token):
        if token != self._takes.pop(0):
            raise ContextFailed("an unexpected token")
        return self._gives.pop(0)

    def wrap(self, message):
        return b"<" + message + b">"

    def unwrap(self, token):
        if token[:1] + token[-1:] != b"<>":
            raise ContextFailed("no sealed message")
        return token[1:-1]


def exchange(takes=(b"ap-req",), gives=(b"ap-rep",), rules=("DEFAULT",), peer="alice@R"):
    return GssapiExchange(Toy(takes, gives, peer), LocalNames(rules, "R"))


def evaluated(server, *tokens):
    return [server.evaluate(token) for token in tokens]


def test_mutual_login_takes_three_tokens():
    steps = evaluated(exchange(), b"ap-req", b"", b"<" + OFFER + b">")
    wrapped = Challenge(b"<" + OFFER + b">")
    assert steps == [Challenge(b"ap-rep"), wrapped, Done(Principal("alice"), b"")]


def test_login_without_mutual_authentication_takes_two():
    """Clients of Java do not request it."""
    steps = evaluated(exchange(gives=(b"",)), b"ap-req", b"<" + OFFER + b">")
    assert steps == [Challenge(b"<" + OFFER + b">"), Done(Principal("alice"), b"")]


def test_context_of_several_tokens_is_established_first():
    server = exchange((b"1", b"2"), (b"", b""))
    steps = evaluated(server, b"1", b"2", b"<" + OFFER + b">")
    assert steps[:2] == [Challenge(b""), Challenge(b"<" + OFFER + b">")]


@pytest.mark.parametrize("name", [b"", b"alice@R", b"bob@R", b"\xff"])
def test_authorization_id_has_no_effect(name):
    steps = evaluated(exchange(), b"ap-req", b"", b"<" + OFFER + name + b">")
    assert steps[-1] == Done(Principal("alice"), b"")


def test_rules_derive_the_principals_name():
    server = exchange(rules=("RULE:[2:$1-of-$2]",), peer="kafka/host@R")
    last = evaluated(server, b"ap-req", b"", b"<" + OFFER + b">")[-1]
    assert last == Done(Principal("kafka-of-host"), b"")


@pytest.mark.parametrize(
    "tokens",
    [
        (b"",),
        (b"ap-re",),
        (b"ap-req ",),
        (b"ap-req", b"more"),
        (b"ap-req", b"", b""),
        (b"ap-req", b"", b"<>"),
        (b"ap-req", b"", OFFER),
        (b"ap-req", b"", b"<\x01\x00\x00>"),
        *(
            (b"ap-req", b"", b"<" + bytes([layer, 0, 0, 0]) + b">")
            for layer in (0, 2, 3, 4, 7, 255)
        ),
    ],
)
def test_malformed_tokens_and_unoffered_layers_are_refused(tokens):
    server = exchange()
    *before, last = tokens
    assert all(isinstance(step, Challenge) for step in evaluated(server, *before))
    with pytest.raises(AuthenticationFailed) as raised:
        server.evaluate(last)
    assert str(raised.value) == REFUSED


@pytest.mark.parametrize("peer", ["alice@OTHER", "a/b/c@R", "alice"])
def test_principal_without_local_name_is_refused(peer):
    server = exchange(peer=peer)
    evaluated(server, b"ap-req", b"")
    with pytest.raises(AuthenticationFailed) as raised:
        server.evaluate(b"<" + OFFER + b">")
    assert str(raised.value) == REFUSED


def client(takes=(b"ap-rep",), gives=(b"",)):
    tokens = client_tokens(Toy(takes, gives), b"ap-req")
    assert next(tokens) == b"ap-req"
    return tokens


@pytest.mark.parametrize("layers", [1, 3, 5, 7])
def test_client_chooses_no_layer(layers):
    tokens = client()
    assert tokens.send(b"ap-rep") == b""
    assert tokens.send(b"<" + bytes([layers, 0, 255, 255]) + b">") == b"<" + OFFER + b">"
    with pytest.raises(StopIteration):
        tokens.send(b"")


@pytest.mark.parametrize("layers", [0, 2, 4, 6])
def test_client_refuses_node_that_requires_layer(layers):
    tokens = client()
    tokens.send(b"ap-rep")
    with pytest.raises(AuthenticationRefused, match="requires a security layer"):
        tokens.send(b"<" + bytes([layers, 0, 0, 0]) + b">")


@pytest.mark.parametrize("offer", [b"", b"<>", OFFER, b"<\x01\x00\x00>", b"<" + OFFER + b"x>"])
def test_client_refuses_malformed_offer(offer):
    tokens = client()
    tokens.send(b"ap-rep")
    with pytest.raises(AuthenticationRefused):
        tokens.send(offer)


@pytest.mark.parametrize("answer", [b"", b"another", b"<" + OFFER + b">"])
def test_client_refuses_node_without_proof(answer):
    tokens = client()
    with pytest.raises(AuthenticationRefused, match="does not prove its identity"):
        tokens.send(answer)


def test_client_logs_in_at_our_node():
    server, tokens = exchange(), client()
    answer, step = b"ap-req", None
    for _ in range(3):
        step = server.evaluate(answer)
        if isinstance(step, Done):
            break
        answer = tokens.send(step.token)
    assert step == Done(Principal("alice"), b"")
