"""The complete response of an authenticator to each frame, compared with transcripts."""

from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.authenticator import Login, SaslAuthenticator, SaslSettings
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done

FILES = sorted((Path(__file__).parent / "testdata" / "sasl").glob("*.txt"))


class Scripted:
    """A mechanism whose tokens name its reaction: `more` or `done NAME [MS]`; any other token is wrong."""

    def evaluate(self, token):
        match token.decode().split():
            case ["more"]:
                return Challenge(b"go on")
            case ["done", name, *milliseconds]:
                lifetime = int(milliseconds[0]) if milliseconds else None
                return Done(Principal(name), b"end", lifetime)
        raise AuthenticationFailed("a wrong token")


class Scene:
    def __init__(self):
        self.number = 0
        self.asked = (0, 0)

    def __call__(self, step):
        lines = [line for line in step.source.splitlines() if line and not line.startswith("#")]
        return "\n".join(
            filter(
                None, (getattr(self, f"_{word}")(*rest) for word, *rest in map(str.split, lines))
            )
        )

    def _new(self, *words):
        """`MECHANISM=MS` limits its sessions; `again NAME MECHANISM` renews an open connection's login."""
        bounds = {name: int(ms) for name, _, ms in (w.partition("=") for w in words) if ms}
        before = None
        if "again" in words:
            name, mechanism = words[words.index("again") + 1 :][:2]
            before = Login(Principal(name), mechanism, 5)
        settings = SaslSettings({"A": Scripted, "B": Scripted}, session_ms_max=bounds)
        self.one = SaslAuthenticator(settings, before)

    def _asks(self, request, version):
        self.number += 1
        self.asked = (request.KEY, version)
        return self._receive(encode_request(request, version, self.number, "me"))

    def _hello(self, version="3"):
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        return self._asks(request, int(version))

    def _handshake(self, mechanism, version="1"):
        frame = encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 0, "me")
        if version not in ("0", "1"):
            frame[2:4] = int(version).to_bytes(2, "big")
            return self._receive(frame)
        return self._asks(SaslHandshakeRequest(mechanism=mechanism), int(version))

    def _token(self, version, *words):
        return self._asks(
            SaslAuthenticateRequest(auth_bytes=" ".join(words).encode()), int(version)
        )

    def _raw(self, *words):
        self.asked = (0, 0)
        return self._receive(" ".join(words).encode())

    def _heartbeat(self):
        return self._asks(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)

    def _short(self, size):
        return self._receive(bytes(int(size)))

    def _receive(self, frame):
        try:
            reply = self.one.receive(memoryview(bytearray(frame)))
        except RemoteProtocolError as error:
            return f"no sense: {error}"
        told = []
        if reply.response is not None:
            told.append(f"answers {self._decoded(bytes(reply.response))}")
        for name in ("passes", "delayed"):
            told += [name] * getattr(reply, name)
        if reply.refused is not None:
            told.append(f"refuses by {reply.refused.name}")
        if reply.login is not None:
            told.append(f"{reply.login}")
        if reply.closes is not None:
            told.append(f"closes: {reply.closes}")
        return "\n".join(told) or "nothing"

    def _decoded(self, data):
        key, version = self.asked
        if not key:
            return data
        number, start = decode_response_header(data, key, version)
        assert number == self.number
        return RESPONSES[key].decode(data[start:], version)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_frames_before_login_match_each_transcript(path):
    check_transcript(path, Scene())


SESSIONS = [
    ({}, None, None),
    ({}, 5, 5),
    ({"A": 3}, None, 3),
    ({"A": 3}, 5, 3),
    ({"A": 7}, 5, 5),
    ({"A": 0}, 5, 5),
    ({"A": 0}, None, None),
    ({"B": 3}, None, None),
    ({"A": 3}, -5, 0),
    ({"A": 1}, 0, 0),
    ({}, -5, 0),
]


@pytest.mark.parametrize(("bounds", "lifetime", "expected"), SESSIONS)
def test_session_lasts_until_credential_or_bound_ends(bounds, lifetime, expected):
    settings = SaslSettings({}, session_ms_max=bounds)
    assert settings.session_ms("A", Done(Principal("a"), b"", lifetime)) == expected


def test_omitted_rule_parts_default_as_in_kafka():
    settings = SaslSettings({})
    assert (settings.token_bytes_max, settings.failure_delay_seconds) == (524_288, 0.1)
    assert (settings.session_ms_max, settings.blocks) == ({}, False)
