"""Tokens, keys and requests to an identity provider: every bound, and the exact text of each refusal."""

import base64
import json
import time
from pathlib import Path
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from tests.checks import check_each
from tests.node.oauth.provider import jwk, key_set, rsa_key, token
from trimaran.node.oauth import keys as keys_module
from trimaran.node.oauth import login as login_module
from trimaran.node.oauth import tokens as tokens_module
from trimaran.node.oauth import web as web_module
from trimaran.node.oauth.grants import by_client_credentials
from trimaran.node.oauth.keys import KeySet, KeySetError, check_keys_url, parse_keys
from trimaran.node.oauth.login import (
    BearerCredentials,
    Fetched,
    from_file,
    unsecured,
)
from trimaran.node.oauth.tokens import BearerTokenRules, SignedTokens, UnsecuredTokens
from trimaran.node.oauth.web import Web, WebError, check_url
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.sasl.oauthbearer import BearerToken, TokenRefused

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000


def part(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def unsecured_token(claims, header=None, signature=""):
    return f"{part(header or {'alg': 'none'})}.{part(claims)}.{signature}"


def of(**claims):
    return unsecured_token({"sub": "alice", "exp": NOW + 60, **claims})


UNSECURED = [
    (of(), BearerToken("alice", 60_000)),
    (of(exp=NOW + 0.5), BearerToken("alice", 500)),
    (of(exp=NOW - 29.999), BearerToken("alice", -29_999)),
    (of(exp=NOW - 30), "it has run out"),
    (of(exp=1e300), BearerToken("alice", 1 << 53)),
    (of(exp=(NOW_MS + (1 << 53)) // 1000), BearerToken("alice", (1 << 53) - 992)),
    (of(exp=True), "it has no end"),
    (of(exp="x"), "it has no end"),
    (of(exp=None), "it has no end"),
    (of(sub=""), "it has no subject"),
    (of(sub=" "), "it has no subject"),
    (of(sub="a\0b"), "it has no subject"),
    (of(sub=5), "it has no subject"),
    (of(sub=None), "it has no subject"),
    (of(exp=float("inf")), "OverflowError"),
    (unsecured_token({}, signature="x"), "it is signed, and there is no key to check it by"),
    (unsecured_token({}, {"alg": "RS256"}), "it is signed, and there is no key to check it by"),
    (unsecured_token({}, {"typ": "none"}), "it is signed, and there is no key to check it by"),
    ("a.b", "ValueError"),
    ("a.b.c.d", "ValueError"),
    (f"{part([1])}.{part({})}.", "ValueError"),
    (f"{part({'alg': 'none'})}.{part(b'no json')}.", "JSONDecodeError"),
    ("A.B.", "ValueError"),
]


def test_unsecured_token_is_accepted_or_refused_with_reason():
    tokens = UnsecuredTokens(BearerTokenRules(), lambda: NOW_MS)

    def is_so(row):
        text, expected = row
        if isinstance(expected, BearerToken):
            assert tokens.validate(text) == expected
            return
        with pytest.raises(TokenRefused) as refused:
            tokens.validate(text)
        assert str(refused.value) == expected

    check_each(UNSECURED, is_so)
    named = UnsecuredTokens(BearerTokenRules(subject_claim="name", skew_seconds=0), lambda: NOW_MS)
    assert named.validate(of(name="bob")) == BearerToken("bob", 60_000)
    assert named.validate(of(name="bob", exp=NOW + 0.001)) == BearerToken("bob", 1)
    with pytest.raises(TokenRefused, match="run out"):
        named.validate(of(name="bob", exp=NOW))


def signed(rules=None, data=None):
    found = KeySet("file:///keys", Web())
    found._keys = parse_keys(data or key_set())
    found._read_at = found._tried_at = found._now()
    return SignedTokens(found, rules or BearerTokenRules())


SIGNED = [
    ({}, {}, None),
    ({"aud": None}, {}, None),
    ({"aud": None}, {"audience": ("kafka",)}, "MissingRequiredClaimError"),
    ({}, {"audience": ("other", "kafka")}, None),
    ({}, {"audience": ("other",)}, "InvalidAudienceError"),
    ({}, {"audience": ("kafka",), "issuer": "https://idp.example.org"}, None),
    ({}, {"audience": ("kafka",), "issuer": "other"}, "InvalidIssuerError"),
    ({"exp": None}, {"audience": ("kafka",)}, "MissingRequiredClaimError"),
    ({"iat": None}, {"audience": ("kafka",)}, "MissingRequiredClaimError"),
    ({"sub": None}, {"audience": ("kafka",)}, "MissingRequiredClaimError"),
    ({"key_id": "x"}, {"audience": ("kafka",)}, "it names no key that is known"),
    ({"key_id": "e"}, {"audience": ("kafka",)}, "InvalidAlgorithmError"),
    ({"name": "bob"}, {"audience": ("kafka",), "subject_claim": "name"}, None),
]


def test_signed_token_is_checked_against_each_rule():
    def is_so(row):
        changes, rules, refusal = row
        text = token(**changes)
        tokens = signed(BearerTokenRules(**rules))
        if refusal is None:
            found = tokens.validate(text)
            assert found.subject == ("bob" if "name" in changes else "alice")
            assert 590_000 < found.lifetime_ms <= 600_000
            return
        with pytest.raises(TokenRefused) as refused:
            tokens.validate(text)
        assert str(refused.value) == refusal

    check_each(SIGNED, is_so)
    with pytest.raises(TokenRefused, match="the id of its key is no text"):
        tokens_module._key_id({"kid": 5})
    assert tokens_module._key_id({}) is None
    assert tokens_module._key_id({"kid": "x"}) == "x"


def public(key, **more):
    algorithms = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
    }
    for kind, algorithm in algorithms.items():
        if isinstance(key, kind):
            return {**algorithm.to_jwk(key.public_key(), as_dict=True), **more}
    return {**jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True), **more}


RSA_NAMES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
KINDS = [
    (rsa_key, {}, RSA_NAMES),
    (rsa_key, {"alg": "PS384"}, ("PS384",)),
    (rsa_key, {"alg": "HS256"}, None),
    (rsa_key, {"use": "sig"}, RSA_NAMES),
    (rsa_key, {"use": "enc"}, None),
    (rsa_key, {"d": "secret"}, None),
    (rsa_key, {"crv": "P-256"}, RSA_NAMES),
    (rsa_key, {"crv": 5}, None),
    (rsa_key, {"kty": None}, None),
    (rsa_key, {"kty": "oct"}, None),
    (rsa_key, {"n": "!"}, None),
    (lambda: rsa_key(1024), {}, None),
    (lambda: ec.generate_private_key(ec.SECP256R1()), {}, ("ES256",)),
    (lambda: ec.generate_private_key(ec.SECP384R1()), {}, ("ES384",)),
    (lambda: ec.generate_private_key(ec.SECP521R1()), {}, ("ES512",)),
    (lambda: ec.generate_private_key(ec.SECP256R1()), {"alg": "ES384"}, None),
    (lambda: ec.generate_private_key(ec.SECP256R1()), {"crv": "secp256k1"}, None),
    (ed25519.Ed25519PrivateKey.generate, {}, ("EdDSA",)),
    (ed448.Ed448PrivateKey.generate, {}, ("EdDSA",)),
]


def test_each_key_type_has_its_algorithms():
    def is_so(row):
        make, changes, algorithms = row
        entry = public(make(), **changes)
        found = keys_module._key(
            {name: value for name, value in entry.items() if value is not None}
        )
        assert (found and found.algorithms) == algorithms

    check_each(KINDS, is_so)


def test_key_set_is_read_or_refused_with_reason():
    def refusal(data):
        with pytest.raises(KeySetError) as refused:
            parse_keys(data if isinstance(data, bytes) else json.dumps(data).encode())
        return str(refused.value)

    one = public(rsa_key(), kid="a")
    for data in (b"", b"[]", b"{}", {"keys": 5}, b"[" * 100_000):
        assert refusal(data) == "it is not a JSON Web Key Set"
    assert refusal({"keys": [5] * 129}) == "it holds more than 128 keys"
    assert refusal({"keys": [5] * 128}) == "it has no public key that signs tokens"
    assert refusal({"keys": [one, one]}) == "two keys have the same id"
    found = parse_keys(json.dumps({"keys": [5, {**one, "kid": 7}, one]}).encode())
    assert list(found) == ["a"]
    unnamed = public(rsa_key())
    assert list(parse_keys(json.dumps({"keys": [unnamed, one]}).encode())) == [None, "a"]


class StartedThreads:
    """Threads that run to their end when they are started."""

    def __init__(self):
        self.count = 0

    def Thread(self, target, name, daemon):  # noqa: N802 - as it is called
        assert (name, daemon) == ("jwks", True)

        def start():
            self.count += 1
            target()

        return SimpleNamespace(start=start)

    def Lock(self):  # noqa: N802 - as it is called
        return __import__("threading").Lock()


def test_keys_are_refreshed_by_age_and_misses(monkeypatch):
    threads = StartedThreads()
    monkeypatch.setattr(keys_module, "threading", threads)
    now, answers = [100.0], [key_set()]
    web = SimpleNamespace(get=lambda url: answers[0])
    found = KeySet("https://h/keys", web, refresh_seconds=50.0, now=lambda: now[0])
    assert found.key("r") is None
    assert threads.count == 1
    assert found.key("r") is not None
    assert found.key(None) is None
    now[0] = 109.9
    assert found.key("x") is None
    assert threads.count == 1
    now[0] = 110.0
    assert found.key("x") is None
    assert threads.count == 2
    now[0] = 159.9
    assert found.key("r") is not None
    assert threads.count == 2
    now[0] = 160.0
    answers[0] = json.dumps({"keys": [jwk(rsa_key(), "only")]}).encode()
    assert found.key("r") is not None
    assert threads.count == 3
    assert found.key(None) is found.key("only") is not None
    answers[0] = b"rubbish"
    now[0] = 300.0
    assert found.key("only") is not None
    assert threads.count == 4
    assert found.key("only") is not None
    assert threads.count == 4
    found._refreshing.acquire()
    now[0] = 400.0
    answers[0] = key_set()
    assert found.key("only") is not None
    assert found.key("only") is not None, "another thread is at it"


def test_unreadable_key_source_is_explained(tmp_path):
    (tmp_path / "a b").write_bytes(key_set())
    found = KeySet(f"file://{tmp_path}/a%20b", Web())
    found.load()
    assert set(found._keys) == {"r", "e"}
    check_keys_url("file:///anything")
    check_keys_url("https://h/")
    for act in (
        lambda: check_keys_url("http://h/"),
        lambda: KeySet("http://h/", Web()).load(),
    ):
        with pytest.raises(KeySetError) as refused:
            act()
        assert str(refused.value) == "an identity provider needs https; http only on this machine"
    with pytest.raises(KeySetError, match=r"^No such file or directory$"):
        KeySet(f"file://{tmp_path}/none", Web()).load()
    (tmp_path / "full").write_bytes(b"#" * (1 << 20))
    with pytest.raises(KeySetError, match="not a JSON Web Key Set"):
        KeySet(f"file://{tmp_path}/full", Web()).load()
    (tmp_path / "large").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(KeySetError) as refused:
        KeySet(f"file://{tmp_path}/large", Web()).load()
    assert "JSON" not in str(refused.value)


URLS = [
    ("https://h", None),
    ("https://h:5/x?y", None),
    ("http://localhost:5/", None),
    ("http://127.0.0.1/", None),
    ("http://127.9.9.9/", None),
    ("http://[::1]:5/", None),
    ("http://10.0.0.1/", "an identity provider needs https; http only on this machine"),
    (
        "http://localhost.example.org/",
        "an identity provider needs https; http only on this machine",
    ),
    ("ftp://localhost/", "an identity provider needs https; http only on this machine"),
    ("https:///x", "the URL of an identity provider must name a host, and no user"),
    ("https://me@h/", "the URL of an identity provider must name a host, and no user"),
    ("https://h:x/", "it is not a URL"),
    ("https://[h/", "it is not a URL"),
]


def test_only_safe_urls_are_requested():
    def is_so(row):
        url, why = row
        if why is None:
            check_url(url)
            return
        with pytest.raises(WebError) as refused:
            check_url(url)
        assert str(refused.value) == why

    check_each(URLS, is_so)


def test_connection_uses_host_port_and_path():
    web = Web(seconds_max=7.0)
    for url, expected in (
        ("http://localhost", ("localhost", 80, "/")),
        ("http://localhost:5/a/b?c=d", ("localhost", 5, "/a/b?c=d")),
        ("https://h", ("h", 443, "/")),
        ("https://h:8443?x", ("h", 8443, "/?x")),
    ):
        connection, path = web._connection(url)
        assert (connection.host, connection.port, path) == expected
        assert connection.timeout == 7.0
    assert Web().seconds_max == 10.0
    assert Web().bytes_max == 1 << 20


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def time_ns(self):
        return NOW * 1_000_000_000 + 999_999_999


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(login_module, "time", found)
    return found


def test_token_is_refreshed_after_four_fifths_lifetime(clock):
    count = [0]

    def retrieve():
        count[0] += 1
        return Fetched(f"t{count[0]}", 100.0 if count[0] < 3 else 0.0)

    credentials = BearerCredentials(retrieve)
    credentials.exchange()
    assert (count[0], credentials._token) == (1, "t1")
    clock.now = 1079.9
    credentials.exchange()
    assert count[0] == 1
    clock.now = 1080.0
    credentials.exchange()
    assert (count[0], credentials._token) == (2, "t2")
    clock.now = 1160.0
    for fetched in (3, 4, 5):
        credentials.exchange()
        assert count[0] == fetched
    assert b"auth=Bearer t6" in next(credentials.exchange())


def answering(answer, asked):
    def post(url, headers, body):
        asked.append((url, headers, body))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    return SimpleNamespace(post=post)


ANSWERS = [
    ({"access_token": "t"}, Fetched("t", 0.0)),
    ({"access_token": "t", "expires_in": 60}, Fetched("t", 60.0)),
    ({"access_token": "t", "expires_in": "60"}, Fetched("t", 60.0)),
    ({"access_token": ""}, "the identity provider's answer holds no token"),
    ({"access_token": 5}, "the identity provider's answer holds no token"),
    ({"access_token": "é"}, "the identity provider's answer holds no token"),
    ({"access_token": "t", "expires_in": None}, "the identity provider's answer holds no token"),
    ({"expires_in": 5}, "the identity provider's answer holds no token"),
    ([], "the identity provider's answer holds no token"),
    (b"x", "the identity provider's answer holds no token"),
    (b"[" * 100_000, "the identity provider's answer holds no token"),
    (WebError("gone"), "there is no token: gone"),
]


@pytest.mark.parametrize("scope", [None, "a b"])
def test_token_request_authenticates_the_client(scope):
    def is_so(row):
        answer, expected = row
        asked = []
        retrieve = by_client_credentials(answering(answer, asked), "https://h/t", "i:d", "s", scope)
        if isinstance(expected, Fetched):
            assert retrieve() == expected
        else:
            with pytest.raises(AuthenticationRefused) as refused:
                retrieve()
            assert str(refused.value) == expected
        basic = base64.b64encode(b"i:d:s").decode()
        headers = {
            "Authorization": f"Basic {basic}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        form = b"grant_type=client_credentials" + (b"&scope=a+b" if scope else b"")
        assert asked == [("https://h/t", headers, form)]

    check_each(ANSWERS, is_so)


def test_unsecured_token_names_subject_for_an_hour(clock):
    found = unsecured("alice")()
    header, claims, signature = found.token.split(".")

    def decoded(text):
        return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))

    assert (decoded(header), signature, found.seconds) == ({"alg": "none"}, "", 3600)
    assert decoded(claims) == {"sub": "alice", "iat": NOW, "exp": NOW + 3600}


def test_token_is_read_from_small_ascii_file(tmp_path):
    path = Path(tmp_path, "token")
    path.write_text(" abc\n")
    assert from_file(path)() == Fetched("abc", 0.0)
    path.write_bytes(b"\xff")
    with pytest.raises(AuthenticationRefused, match=f"there is no token in {path}: 'ascii'"):
        from_file(path)()
    path.write_text("a" * (1 << 20))
    assert len(from_file(path)().token) == 1 << 20
    path.write_text("a" * ((1 << 20) + 1))
    with pytest.raises(AuthenticationRefused, match=f"there is no token in {path}"):
        from_file(path)()
    assert time.monotonic() > 0


class Socket:
    """A socket that connects or fails, depending on the address."""

    def __init__(self, made, *kind):
        made.append((kind, self))
        self.timeouts, self.closed = [], False

    def settimeout(self, seconds):
        self.timeouts.append(seconds)

    def connect(self, where):
        if where == "refused":
            raise OSError("refused")

    def close(self):
        self.closed = True

    def dup(self):
        return self


def test_provider_addresses_share_the_remaining_timeout(monkeypatch):
    made, now, addresses = [], [100.0], []
    asked = []

    def getaddrinfo(host, port, type):  # noqa: A002 - as it is called
        asked.append((host, port, type))
        return [("family", "kind", "protocol", "", where) for where in addresses]

    fake = SimpleNamespace(
        getaddrinfo=getaddrinfo, socket=lambda *kind: Socket(made, *kind), SOCK_STREAM="stream"
    )
    monkeypatch.setattr(web_module, "socket", fake)
    monkeypatch.setattr(web_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    deadline = web_module._Deadline(10.0)
    now[0] = 104.0
    addresses[:] = ["refused", "open", "open"]
    found = deadline.connect(("h", 5), 7.0)
    assert asked == [("h", 5, "stream")]
    assert [connection.timeouts for _, connection in made] == [[6.0], [6.0, 7.0]]
    assert [connection.closed for _, connection in made] == [True, False]
    assert found is made[1][1] is deadline._socket
    assert made[0][0] == ("family", "kind", "protocol")
    now[0] = 200.0
    addresses[:] = ["refused"]
    with pytest.raises(OSError, match=r"^refused$"):
        deadline.connect(("h", 5), 7.0)
    assert made[2][1].timeouts == [0.001]
    addresses.clear()
    with pytest.raises(OSError, match="it has no address"):
        deadline.connect(("h", 5), 7.0)
