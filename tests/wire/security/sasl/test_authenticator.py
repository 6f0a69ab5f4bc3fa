"""The frames of an unauthenticated peer, and the authenticator's reaction."""

import pytest

from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.authenticator import Login, SaslAuthenticator, SaslSettings
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done
from trimaran.wire.security.sasl.plain import PlainExchange

USERS = {"alice": "secret", "bob": "pässword"}
SETTINGS = SaslSettings({"PLAIN": lambda: PlainExchange(USERS)})


class Peer:
    """A peer that logs in at an authenticator."""

    def __init__(self, settings=SETTINGS, before=None):
        self.authenticator = SaslAuthenticator(settings, before)

    def send(self, request, version):
        frame = encode_request(request, version, 7, "c")
        reply = self.authenticator.receive(memoryview(bytes(frame)))
        return reply, self._read(reply, request.KEY, version)

    def _read(self, reply, key, version):
        if reply.response is None:
            return None
        correlation_id, body = decode_response_header(bytes(reply.response), key, version)
        assert correlation_id == 7
        return RESPONSES[key].decode(bytes(reply.response)[body:], version)

    def handshake(self, version=1, mechanism="PLAIN"):
        return self.send(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, token, version=2):
        return self.send(SaslAuthenticateRequest(auth_bytes=token), version)

    def raw(self, token):
        return self.authenticator.receive(memoryview(token))


def test_handshake_and_token_open_the_connection():
    peer = Peer()
    reply, response = peer.handshake()
    assert (response.error_code, response.mechanisms) == (0, ["PLAIN"])
    assert reply.login is None
    assert reply.closes is None
    reply, response = peer.token(b"\0alice\0secret")
    assert (response.error_code, response.session_lifetime_ms) == (0, 0)
    assert reply.login.principal == Principal("alice")


def test_old_clients_send_bare_tokens():
    peer = Peer()
    assert peer.handshake(version=0)[1].error_code == 0
    reply = peer.raw(b"bob\0bob\0" + "pässword".encode())
    assert (bytes(reply.response), reply.login.principal) == (b"", Principal("bob"))


def test_wrong_bare_token_gets_no_response():
    peer = Peer()
    peer.handshake(version=0)
    reply = peer.raw(b"\0alice\0wrong")
    assert reply.response is None
    assert reply.closes
    assert reply.delayed


@pytest.mark.parametrize("version", [0, 1])
def test_unknown_mechanism_is_answered_with_enabled_ones(version):
    reply, response = Peer().handshake(version, "SCRAM-SHA-512")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN"]
    assert reply.closes


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"alice\0secret",
        b"\0alice\0secret\0",
        b"\0\0secret",
        b"\0alice\0",
        b"\0alice\0wrong",
        b"\0alice\0secre",
        b"\0nobody\0secret",
        b"bob\0alice\0secret",
        b"\0\xff\0secret",
        b"\0" * (400 << 10),
    ],
)
def test_refused_token_ends_the_login(token):
    peer = Peer()
    peer.handshake()
    reply, response = peer.token(token)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert reply.login is None
    assert reply.closes
    assert reply.delayed
    assert "secret" not in response.error_message


def test_unknown_user_and_wrong_password_look_alike():
    said = set()
    for token in (b"\0alice\0wrong", b"\0nobody\0wrong"):
        peer = Peer()
        peer.handshake()
        said.add(peer.token(token)[1].error_message)
    assert len(said) == 1


FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.mark.parametrize("after_handshake", [False, True])
@pytest.mark.parametrize("request_", [HEARTBEAT, FETCH])
def test_other_requests_before_login_are_refused(after_handshake, request_):
    peer = Peer()
    if after_handshake:
        peer.handshake()
    reply, _ = peer.send(request_, 4)
    assert reply.refused == ErrorCode.ILLEGAL_SASL_STATE
    assert reply.closes


def test_api_versions_may_come_before_the_handshake_only():
    peer = Peer()
    hello = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert peer.send(hello, 4)[0].passes
    peer.handshake()
    assert peer.send(hello, 4)[0].refused == ErrorCode.ILLEGAL_SASL_STATE


def test_token_before_handshake_is_refused():
    assert Peer().token(b"\0alice\0secret")[0].refused == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    "frame", [b"", b"\0", b"\0\x11\0\x09\0\0\0\0", b"\0\x11\0\x01\0", b"\0\x0c\0\x04\0\0\0"]
)
def test_malformed_frame_closes_the_connection(frame):
    with pytest.raises(RemoteProtocolError):
        Peer().raw(frame)


class Endless:
    def evaluate(self, token):
        if token == b"stop":
            raise AuthenticationFailed("stopped")
        return Done(Principal("x"), b"!") if token == b"end" else Challenge(token + b"?")


def test_number_of_login_rounds_is_bounded():
    settings = SaslSettings({"ENDLESS": Endless})
    peer = Peer(settings)
    peer.handshake(mechanism="ENDLESS")
    assert peer.token(b"a")[1].auth_bytes == b"a?"
    assert peer.token(b"end")[0].login.principal == Principal("x")
    peer = Peer(settings)
    peer.handshake(mechanism="ENDLESS")
    rounds = [peer.token(b"a")[0].closes for _ in range(9)]
    assert rounds[:8] == [None] * 8
    assert "does not end" in rounds[8]


class Rounds:
    """Logs in the principal that the second round names."""

    def __init__(self):
        self.is_begun = False

    def evaluate(self, token):
        if self.is_begun:
            return Done(Principal(token.decode(), by_token=token == b"alice"), b"")
        self.is_begun = True
        return Challenge(b"?")


@pytest.mark.parametrize(
    ("before", "mechanism", "why"),
    [
        (Login(Principal("alice"), "ROUNDS", None), "ROUNDS", None),
        (Login(Principal("bob"), "ROUNDS", None), "ROUNDS", "another principal"),
        (Login(Principal("alice", "Other"), "ROUNDS", None), "ROUNDS", "another principal"),
        (Login(Principal("alice"), "OTHER", None), "ROUNDS", "logged in by OTHER"),
    ],
)
def test_connection_keeps_its_principal_and_mechanism(before, mechanism, why):
    """The mechanism has two rounds; the first does not contain the principal."""
    peer = Peer(SaslSettings({"ROUNDS": Rounds}), before)
    peer.handshake(mechanism=mechanism)
    replies = [peer.token(token)[0] for token in (b"hello", b"alice")]
    if why is None:
        assert [reply.closes for reply in replies] == [None, None]
        assert replies[1].login.principal[:2] == before.principal[:2]
    else:
        assert why in next(reply.closes for reply in replies if reply.closes)
        assert all(reply.login is None for reply in replies)


@pytest.mark.parametrize("token", [b"\0carol\0", b"\0\0secret"])
def test_empty_name_or_password_is_refused(token):
    exchange = PlainExchange({"carol": "", "": "secret"})
    with pytest.raises(AuthenticationFailed, match="lacks a user name or a password"):
        exchange.evaluate(token)


@pytest.mark.parametrize(
    ("configured", "of_token", "expected"),
    [
        ({}, None, None),
        ({"PLAIN": 0}, None, None),
        ({"PLAIN": 5000}, None, 5000),
        ({"PLAIN": 5000}, 3000, 3000),
        ({"PLAIN": 5000}, 7000, 5000),
        ({"OTHER": 5000}, 7000, 7000),
        ({}, 0, 0),
        ({}, -5, 0),
    ],
)
def test_login_lasts_until_its_earlier_bound(configured, of_token, expected):
    done = Done(Principal("alice"), b"", lifetime_ms=of_token)
    assert SaslSettings({}, session_ms_max=configured).session_ms("PLAIN", done) == expected


def test_client_learns_lifetime_of_its_login():
    peer = Peer(SaslSettings(SETTINGS.mechanisms, session_ms_max={"PLAIN": 5000}))
    peer.handshake()
    reply, response = peer.token(b"\0alice\0secret")
    assert (response.session_lifetime_ms, reply.login.session_ms) == (5000, 5000)


@pytest.mark.parametrize("key", [SaslHandshakeRequest.KEY, SaslAuthenticateRequest.KEY])
def test_unserved_version_closes_the_connection(key):
    peer = Peer()
    if key == SaslAuthenticateRequest.KEY:
        peer.handshake()
    frame = key.to_bytes(2, "big") + (9).to_bytes(2, "big") + bytes(16)
    with pytest.raises(RemoteProtocolError, match="v9 is not served"):
        peer.raw(frame)
