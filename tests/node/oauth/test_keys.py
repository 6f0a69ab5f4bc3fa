"""Keys of an identity provider: accepted kinds, parsing, and malicious responses."""

import json

import jwt
import pytest

from tests.node.oauth.provider import ec_key, jwk, key_set, provider, rsa_key
from trimaran.node.oauth.keys import KeySet, KeySetError, check_keys_url, parse_keys
from trimaran.node.oauth.web import Web

MOST_KEYS = 128
BETWEEN_MISSES = 10.0
MEBIBYTE = 1 << 20


def test_public_signing_keys_are_accepted():
    found = parse_keys(key_set())
    assert found["r"].algorithms[0] == "RS256"
    assert found["e"].algorithms == ("ES256",)


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"},
        jwk(rsa_key(), "r", use="enc"),
        jwk(rsa_key(), "r", alg="HS256"),
        jwk(rsa_key(), "r", alg="none"),
        jwk(rsa_key(), 7),
        jwk(rsa_key(1024), "small"),
        {**jwk(rsa_key(), "r"), "n": "!"},
        {**jwk(ec_key(), "e"), "crv": "P-999"},
        {**jwk(rsa_key(), "private"), "d": "AQAB"},
        {"kty": ["RSA"]},
        {},
    ],
)
def test_other_keys_are_skipped(entry):
    assert list(parse_keys(key_set(entry, jwk(ec_key(), "good")))) == ["good"]
    with pytest.raises(KeySetError):
        parse_keys(key_set(entry))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 7}',
        b'{"keys": [[]]}',
        b"\xff",
        b"[" * 50_000,
        json.dumps({"keys": [{}] * (MOST_KEYS + 1)}).encode(),
        key_set(jwk(rsa_key(), "same"), jwk(ec_key(), "same")),
    ],
)
def test_invalid_key_set_is_refused(data):
    with pytest.raises(KeySetError):
        parse_keys(data)


def test_number_of_keys_is_bounded():
    """Skipped keys count too, because each takes time to parse."""
    one = jwk(ec_key(), "good")
    assert list(parse_keys(key_set(one, *[{}] * 127))) == ["good"]
    with pytest.raises(KeySetError, match="more than 128 keys"):
        parse_keys(key_set(one, *[{}] * 128))


def test_published_private_key_is_not_used():
    """A published private key is compromised."""
    for key in (rsa_key(), ec_key()):
        kind = jwt.algorithms.RSAAlgorithm if key is rsa_key() else jwt.algorithms.ECAlgorithm
        private = {**kind.to_jwk(key, as_dict=True), "kid": "private"}
        assert list(parse_keys(key_set(private, jwk(ec_key(), "good")))) == ["good"]


def test_response_of_hundred_megabytes_is_not_read():
    def endless(write):
        for _ in range(100 << 4):
            write(b" " * 65536)

    with provider() as idp:
        idp.answers["/jwks"] = endless
        with pytest.raises(KeySetError, match="larger"):
            KeySet(f"{idp.url}/jwks", Web()).load()


@pytest.mark.parametrize("answer", [None, b"<html>"])
def test_failed_refresh_keeps_previous_keys(answer):
    with provider() as idp:
        idp.answers["/jwks"] = key_set()
        known = KeySet(f"{idp.url}/jwks", Web())
        known.load()
        idp.answers["/jwks"] = answer
        with pytest.raises(KeySetError):
            known.load()
        assert known.key("r") is not None


def test_file_over_a_mebibyte_is_refused(tmp_path):
    (tmp_path / "jwks").write_bytes(b" " * (MEBIBYTE + 1))
    with pytest.raises(KeySetError, match="larger"):
        KeySet(f"file://{tmp_path}/jwks", Web()).load()


def test_unknown_key_refreshes_but_not_each_time(tmp_path, monkeypatch):
    now, refreshes = [0.0], []
    (tmp_path / "jwks").write_bytes(key_set(jwk(rsa_key(), "old")))
    known = KeySet(f"file://{tmp_path}/jwks", Web(), now=lambda: now[0])
    known.load()
    monkeypatch.setattr("threading.Thread.start", lambda thread: refreshes.append(thread.run()))
    (tmp_path / "jwks").write_bytes(key_set(jwk(rsa_key(), "new")))
    assert known.key("new") is None
    assert not refreshes
    now[0] = BETWEEN_MISSES
    assert known.key("new") is None
    assert len(refreshes) == 1
    assert known.key("new") is not None
    assert known.key("old") is None
    assert len(refreshes) == 1
    now[0] += 3600
    assert known.key("new") is not None
    assert len(refreshes) == 2


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example.org/jwks",
        "ftp://idp.example.org/jwks",
        "ftp://localhost/jwks",
        "ftp://127.0.0.1/jwks",
        "http://127.0.0.1.example.org/jwks",
        "https://user:pass@idp.example.org/",
        "https://",
        "https://h:notaport/",
        "jwks.json",
        "data:,{}",
    ],
)
def test_unsafe_addresses_are_refused(url):
    with pytest.raises(KeySetError):
        check_keys_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://idp.example.org/jwks",
        "https://idp.example.org:8443/jwks?a=b",
        "http://localhost/jwks",
        "http://127.0.0.1:80/jwks",
        "http://[::1]:80/jwks",
        "file:///etc/jwks",
    ],
)
def test_safe_addresses_are_accepted(url):
    check_keys_url(url)
    assert isinstance(KeySet(url, Web()), KeySet)
