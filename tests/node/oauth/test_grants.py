"""Requests of tokens with assertions: the forms as Kafka sends them, and each refusal with its remedy."""

import json
import threading
from email.utils import formatdate
from types import SimpleNamespace
from urllib.parse import parse_qsl

import jwt
import pytest

from tests.node.oauth.provider import ec_key, granting, other_rsa_key, pem, provider, rsa_key
from trimaran.node.oauth.assertions import AssertionFile, NoAssertion, SignedAssertions, SigningKey
from trimaran.node.oauth.grants import by_client_assertion, by_client_credentials, by_jwt_bearer
from trimaran.node.oauth.login import Fetched
from trimaran.node.oauth.web import StatusError, Web
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.client.errors import AuthenticationRefused

TYPE = "application/x-www-form-urlencoded"
NO_TOKEN = "there is no token: the identity provider answers with status"
BOTH = [
    lambda web, url, make: by_jwt_bearer(web, url, make, None),
    lambda web, url, make: by_client_assertion(web, url, make, None, None),
]


@pytest.fixture
def idp():
    with provider() as found:
        yield found


def forms(idp):
    return [parse_qsl(body.decode()) for _, _, body in idp.asked]


def secret_assertion():
    return "geheim.geheim.geheim"


def refused(idp, retrieve):
    with pytest.raises(AuthenticationRefused) as caught:
        retrieve()
    assert "geheim" not in str(caught.value) + repr(caught.value.__cause__)
    return str(caught.value)


def by_bearer(idp, make=secret_assertion, web=None):
    return by_jwt_bearer(web or Web(), f"{idp.url}/token", make, None)


@pytest.mark.parametrize("scope", [None, "", "read write"])
def test_bearer_form_has_kafkas_parameters(idp, scope):
    idp.answers["/token"] = b'{"access_token": "abc", "expires_in": 300}'
    assert by_jwt_bearer(Web(), f"{idp.url}/token", lambda: "a.b.c", scope)() == Fetched("abc", 300)
    assert forms(idp) == [
        [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", "a.b.c"),
            *([("scope", scope)] if scope else []),
        ]
    ]
    ((_, headers, body),) = idp.asked
    assert body.startswith(b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&")
    assert (headers["Content-Type"], headers["Accept"]) == (TYPE, "application/json")
    assert "Authorization" not in headers


@pytest.mark.parametrize(("client_id", "scope"), [(None, None), ("me", "read write")])
def test_client_assertion_form_has_kafkas_parameters(idp, client_id, scope):
    idp.answers["/token"] = b'{"access_token": "abc"}'
    url = f"{idp.url}/token"
    assert by_client_assertion(Web(), url, lambda: "a.b.c", client_id, scope)() == Fetched("abc")
    assert forms(idp) == [
        [
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", "a.b.c"),
            ("grant_type", "client_credentials"),
            *([("client_id", client_id)] if client_id else []),
            *([("scope", scope)] if scope else []),
        ]
    ]
    assert "Authorization" not in idp.asked[0][1]


@pytest.mark.parametrize("is_quoted", [False, True])
def test_quoted_client_follows_rfc_6749(idp, is_quoted):
    idp.answers["/token"] = b'{"access_token": "abc"}'
    url = f"{idp.url}/token"
    by_client_credentials(Web(), url, "a:b c", "ö", None, is_quoted=is_quoted)()
    expected = "Basic YSUzQWIrYzolQzMlQjY=" if is_quoted else "Basic YTpiIGM6w7Y="
    assert idp.asked[0][1]["Authorization"] == expected


@pytest.mark.parametrize("grant", BOTH)
@pytest.mark.parametrize(("algorithm", "key"), [("RS256", rsa_key), ("ES256", ec_key)])
def test_provider_verifies_assertion_and_gives_token(idp, tmp_path, grant, algorithm, key):
    idp.judges["/token"] = granting(idp, key(), algorithm)
    path = tmp_path / "key.pem"
    path.write_text(pem(key()))
    claims = {"iss": "client-of-ours", "sub": "alice", "aud": f"{idp.url}/token"}
    made = SignedAssertions(SigningKey(path, algorithm), claims)
    found = grant(Web(), f"{idp.url}/token", made.make)()
    said = jwt.decode(found.token, options={"verify_signature": False})
    assert (said["sub"], found.seconds) == ("alice", 600)
    path.write_text(pem(other_rsa_key() if algorithm == "RS256" else ec_key.__wrapped__()))
    told = refused(idp, grant(Web(), f"{idp.url}/token", made.make))
    assert told == (
        f"{NO_TOKEN} 400 (invalid_grant); check issuer, subject, audience and times of the assertion, "
        "and the key that signs it"
    )


@pytest.mark.parametrize(("ahead", "backdated", "is_valid"), [(40, 60, True), (40, 0, False)])
def test_assertion_of_fast_clock_is_valid_if_backdated(idp, tmp_path, ahead, backdated, is_valid):
    idp.judges["/token"] = granting(idp)
    idp.headers["Date"] = formatdate(now_ms() / 1000 - ahead, usegmt=True)
    (tmp_path / "key.pem").write_text(pem(rsa_key()))
    claims = {"iss": "client-of-ours", "sub": "alice", "aud": f"{idp.url}/token"}
    key = SigningKey(tmp_path / "key.pem", "RS256")
    there = {"backdated_seconds": backdated, "now": lambda: now_ms() + ahead * 1000}
    retrieve = by_bearer(idp, SignedAssertions(key, claims, **there).make)
    if is_valid:
        assert retrieve().token
        return
    told = refused(idp, retrieve)
    assert told.startswith(f"{NO_TOKEN} 400 (invalid_grant); check issuer")
    assert told.endswith(("40 s behind the clock here", "41 s behind the clock here"))


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (30.4, ""),
        (-30.4, ""),
        (30.6, "; its clock is 31 s ahead of the clock here"),
        (-30.6, "; its clock is 31 s behind the clock here"),
    ],
)
def test_only_large_clock_difference_is_named(seconds, told):
    def post(*_):
        raise StatusError(500, b"", seconds)

    with pytest.raises(AuthenticationRefused) as caught:
        by_jwt_bearer(SimpleNamespace(post=post), "https://h/t", secret_assertion, None)()
    assert str(caught.value) == f"{NO_TOKEN} 500{told}"


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 30 Nov 99999 06:00:00 GMT"])
def test_refusal_with_unreadable_date_is_reported(idp, date):
    idp.answers["/token"] = (401, b'{"error": "invalid_client"}')
    idp.headers["Date"] = date
    assert refused(idp, by_bearer(idp)) == (
        f"{NO_TOKEN} 401 (invalid_client); check the client id, and its secret or the key and the claims "
        "of its assertion"
    )


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (400, b'{"error": "invalid_scope"}', "400 (invalid_scope); correct sasl.oauthbearer.scope"),
        (400, b'{"error": "geheim"}', "400"),
        (400, b'{"error": ["invalid_grant"]}', "400"),
        (400, b'["geheim"]', "400"),
        (400, b"geheim", "400"),
        (400, b"[" * 10_000, "400"),
        (401, b"", "401"),
        (404, b"", "404"),
        (500, b"\xff" * (1 << 21), "500"),
        (302, b"", "302"),
        (204, b"", "204"),
    ],
)
def test_refusal_shows_status_and_known_code(idp, status, body, told):
    idp.answers["/token"] = (status, body)
    assert refused(idp, by_bearer(idp)) == f"{NO_TOKEN} {told}"


def test_refusal_with_slow_body_shows_status(idp):
    ended = threading.Event()

    def drip(write):
        write(b"{")
        ended.wait(10)

    idp.answers["/token"] = (503, drip)
    try:
        told = refused(idp, by_bearer(idp, web=Web(seconds_max=0.3)))
    finally:
        ended.set()
    assert told == f"{NO_TOKEN} 503"


def test_slow_or_large_answer_is_refused(idp):
    ended = threading.Event()
    idp.answers["/token"] = lambda _: ended.wait(10)
    try:
        told = refused(idp, by_bearer(idp, web=Web(seconds_max=0.3)))
    finally:
        ended.set()
    assert told == "there is no token: 127.0.0.1: the answer takes longer than 0.3 s"
    idp.answers["/token"] = b" " * ((1 << 20) + 1)
    told = refused(idp, by_bearer(idp))
    assert told == "there is no token: the answer is larger than 1048576 bytes"


@pytest.mark.parametrize(
    ("status", "answer", "found"),
    [
        (201, {"access_token": "abc"}, Fetched("abc")),
        (200, {"id_token": " abc\n", "access_token": " "}, Fetched("abc")),
        (200, {"id_token": "abc", "access_token": 5, "expires_in": 9}, Fetched("abc", 9.0)),
        (200, {"id_token": "abc", "access_token": "def"}, Fetched("def")),
    ],
)
def test_token_is_found_where_kafka_looks(idp, status, answer, found):
    idp.answers["/token"] = (status, json.dumps(answer).encode())
    assert by_bearer(idp)() == found


@pytest.mark.parametrize(
    "seconds", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400, '"nan"', '"geheim"']
)
def test_endless_lifetime_of_token_is_refused(idp, seconds):
    """A token without end would be kept after the node refuses it."""
    idp.answers["/token"] = f'{{"access_token": "abc", "expires_in": {seconds}}}'.encode()
    assert refused(idp, by_bearer(idp)) == "the identity provider's answer holds no token"


def test_missing_assertion_is_reported_without_request(idp, tmp_path):
    path = tmp_path / "assertion"
    told = refused(idp, by_bearer(idp, AssertionFile(path).make))
    assert told == (
        f"there is no assertion: {path}: No such file or directory; "
        "name a regular file that this process may read"
    )
    assert idp.asked == []
    with pytest.raises(NoAssertion):
        AssertionFile(path).make()
