"""OAUTHBEARER logins of our own clients: fetched, read and locally made tokens, and how long they are cached."""

import base64
import json
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from tests.node.oauth.provider import provider
from trimaran.node.oauth import login
from trimaran.node.oauth.grants import by_client_credentials
from trimaran.node.oauth.login import (
    BearerCredentials,
    Fetched,
    from_file,
    unsecured,
)
from trimaran.node.oauth.tokens import BearerTokenRules, UnsecuredTokens
from trimaran.node.oauth.web import Web
from trimaran.wire.client.errors import AuthenticationRefused

MEBIBYTE = 1 << 20


class Clock:
    """A clock in seconds with an arbitrary start."""

    def __init__(self):
        self.now = 1_700_000_000.0

    def monotonic(self):
        return self.now

    def time_ns(self):
        return int(self.now * 1_000_000_000) + 999_999_999  # within a second


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(login, "time", made)
    return made


def retrieving(*fetched):
    left = list(fetched)
    return lambda: left.pop(0)


def token_of(credentials):
    return next(credentials.exchange()).split(b"Bearer ")[1].strip(b"\x01").decode()


def test_token_is_kept_four_fifths_of_lifetime(clock):
    credentials = BearerCredentials(retrieving(Fetched("a", 100), Fetched("b", 10), Fetched("c")))
    found = []
    begin = clock.now
    for seconds in (0, 79.9, 80, 87.9, 88):
        clock.now = begin + seconds
        found.append(token_of(credentials))
    assert found == ["a", "a", "b", "b", "c"]


def test_token_without_lifetime_is_not_kept(clock):
    credentials = BearerCredentials(retrieving(Fetched("a"), Fetched("b")))
    assert [token_of(credentials), token_of(credentials)] == ["a", "b"]


def test_failed_token_fetch_is_repeated(clock):
    answers = [AuthenticationRefused("no"), Fetched("a", 100)]

    def retrieve():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    credentials = BearerCredentials(retrieve)
    with pytest.raises(AuthenticationRefused):
        credentials.exchange()
    assert token_of(credentials) == "a"


def test_credentials_show_no_token():
    credentials = BearerCredentials(retrieving(Fetched("secret", 100)))
    assert token_of(credentials) == "secret"
    assert "secret" not in repr(credentials)
    assert (credentials.mechanism, credentials.blocks) == ("OAUTHBEARER", True)


@pytest.mark.parametrize("scope", [None, "", "read write"])
def test_token_request_follows_rfc_6749(scope):
    with provider() as idp:
        idp.answers["/token"] = json.dumps({"access_token": "abc", "expires_in": 300}).encode()
        found = by_client_credentials(Web(), f"{idp.url}/token", "me:x", "ge=h", scope)()
        assert found == Fetched("abc", 300.0)
        ((_, headers, body),) = idp.asked
        basic = base64.b64encode(b"me:x:ge=h").decode()
        assert headers["Authorization"] == f"Basic {basic}"
        assert headers["Content-Type"] == "application/x-www-form-urlencoded"
        expected = {"grant_type": ["client_credentials"]} | ({"scope": [scope]} if scope else {})
        assert parse_qs(body.decode()) == expected


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ({"access_token": "abc"}, 0.0),
        ({"access_token": "abc", "expires_in": "60"}, 60.0),
        ({"access_token": "abc", "expires_in": 1.5}, 1.5),
    ],
)
def test_token_lifetime_comes_from_provider(answer, seconds):
    with provider() as idp:
        idp.answers["/token"] = json.dumps(answer).encode()
        found = by_client_credentials(Web(), f"{idp.url}/token", "me", "x", None)()
        assert found == Fetched("abc", seconds)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{}",
        b"7",
        b'{"access_token": ""}',
        b'{"access_token": 7}',
        '{"access_token": "ä"}'.encode(),
        b'{"access_token": "abc", "expires_in": "soon"}',
        b'{"access_token": "abc", "expires_in": null}',
        b"[" * 50_000,
    ],
)
def test_answer_without_token_is_reported_without_text(answer):
    with provider() as idp:
        idp.answers["/token"] = answer
        with pytest.raises(AuthenticationRefused, match="answer holds no token") as refused:
            by_client_credentials(Web(), f"{idp.url}/token", "me", "geheim", None)()
        assert "geheim" not in str(refused.value)


def test_refusing_provider_is_named_with_status():
    with (
        provider() as idp,
        pytest.raises(AuthenticationRefused, match="there is no token: the identity provider"),
    ):
        by_client_credentials(Web(), f"{idp.url}/none", "me", "x", None)()


def test_token_file_is_reread_and_stripped(tmp_path):
    path = tmp_path / "token"
    retrieve = from_file(path)
    for text in ("abc\n", " def "):
        path.write_text(text)
        assert retrieve() == Fetched(text.strip())


@pytest.mark.parametrize("data", [None, "ä".encode(), b"x" * (MEBIBYTE + 1)])
def test_file_without_token_is_named_in_error(tmp_path, data):
    path = tmp_path / "token"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(AuthenticationRefused, match=f"there is no token in {path}"):
        from_file(path)()


def test_token_file_with_impossible_path_is_refused():
    with pytest.raises(AuthenticationRefused, match="there is no token in a\0b"):
        from_file(Path("a\0b"))()


def test_unsigned_token_is_valid_an_hour(clock):
    found = unsecured("alice")()
    assert found.seconds == 3600
    header, claims, signature = found.token.split(".")
    assert signature == ""
    assert "=" not in header + claims
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert said == {"sub": "alice", "iat": 1_700_000_000, "exp": 1_700_003_600}
    taken = UnsecuredTokens(BearerTokenRules(), now=lambda: 1_700_000_000_000).validate(found.token)
    assert (taken.subject, taken.lifetime_ms) == ("alice", 3_600_000)
