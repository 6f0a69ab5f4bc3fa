"""Accepted bearer tokens, and every kind of invalid token."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.node.oauth.provider import (
    AUDIENCE,
    ISSUER,
    claims,
    ec_key,
    jwk,
    key_set,
    rsa_key,
    token,
    unsigned,
)
from trimaran.node.oauth.keys import KeySet
from trimaran.node.oauth.tokens import BearerTokenRules, SignedTokens, UnsecuredTokens
from trimaran.node.oauth.web import Web
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.security.sasl.oauthbearer import TokenRefused

HOUR = 3600
# The tolerance is so large that the age of the times below does not matter.
RULES = BearerTokenRules(ISSUER, (AUDIENCE,), skew_seconds=HOUR)
NOW = now_ms() // 1000


@pytest.fixture
def validator(tmp_path):
    def make(keys=None, rules=RULES):
        (tmp_path / "jwks").write_bytes(keys or key_set())
        known = KeySet(f"file://{tmp_path}/jwks", Web())
        known.load()
        return SignedTokens(known, rules)

    return make


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algorithm": "RS512"},
        {"algorithm": "PS256"},
        {"key": ec_key(), "algorithm": "ES256", "key_id": "e"},
        {"aud": ["other", AUDIENCE]},
        {"exp": NOW - 600},  # within the skew
        {"nbf": NOW + 600},
        {"sub": "a:*\u2028,="},
    ],
)
def test_valid_tokens_are_accepted(validator, changes):
    found = validator().validate(token(**changes))
    assert found.subject == changes.get("sub", "alice")
    assert found.lifetime_ms <= 600_000


def as_secret(key):
    """Returns the public key as text; every client may have it."""
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key.public_key().public_bytes(*form)


def key_confusion():
    """Returns a token signed with the public key as a shared secret."""
    text = unsigned({"alg": "HS256", "kid": "r"}, claims()).rsplit(".", 1)[0]
    signature = hmac.digest(as_secret(rsa_key()), text.encode(), hashlib.sha256)
    return unsigned({"alg": "HS256", "kid": "r"}, claims(), signature)


def deep():
    return "[" * 20_000


WRONG = {
    "none": lambda: unsigned({"alg": "none"}, claims()),
    "none of a known key": lambda: unsigned({"alg": "none", "kid": "r"}, claims()),
    "None": lambda: unsigned({"alg": "None", "kid": "r"}, claims()),
    "no algorithm": lambda: unsigned({"kid": "r"}, claims()),
    "key confusion": key_confusion,
    "an algorithm of another key": lambda: token(ec_key(), "ES256"),
    "another key": lambda: token(rsa.generate_private_key(65537, 2048)),
    "unknown key": lambda: token(key_id="x"),
    "no key named, of two": lambda: token(key_id=None),
    "a path for a key": lambda: token(key_id="../../../dev/null"),
    "a key of its own": lambda: token(headers={"jwk": jwk(rsa_key(), "r")}, key_id="y"),
    "an address of keys": lambda: token(headers={"jku": "http://127.0.0.1/"}, key_id="y"),
    "critical header": lambda: token(headers={"crit": ["exp"]}),
    "issuer": lambda: token(iss="https://evil.example.org"),
    "no issuer": lambda: token(iss=None),
    "audience": lambda: token(aud="another service"),
    "audience is a part": lambda: token(aud=AUDIENCE[:3]),
    "no audience": lambda: token(aud=None),
    "expired": lambda: token(exp=NOW - 2 * HOUR),
    "no expiry": lambda: token(exp=None),
    "expiry is text": lambda: token(exp="soon"),
    "expiry is infinite": lambda: unsigned({"alg": "RS256", "kid": "r"}, claims(exp=float("inf"))),
    "not yet": lambda: token(nbf=NOW + 3 * HOUR),
    "of tomorrow": lambda: token(iat=NOW + 3 * HOUR),
    "no issue": lambda: token(iat=None),
    "no subject": lambda: token(sub=None),
    "blank subject": lambda: token(sub=" "),
    "NUL in the subject": lambda: token(sub="ali\0ce"),
    "signature cut": lambda: token()[:-2],
    "payload changed": lambda: ".".join(
        (token().split(".")[0], token(sub="bob").split(".")[1], token().split(".")[2])
    ),
    "empty": str,
    "dots": lambda: "..",
    "no base64": lambda: "!.!.!",
    "too deep": deep,
}


@pytest.mark.parametrize("kind", WRONG)
def test_invalid_tokens_are_refused(validator, kind):
    with pytest.raises(TokenRefused):
        validator().validate(WRONG[kind]())


def test_subjects_that_are_no_text_are_refused(validator):
    rules = BearerTokenRules(ISSUER, (AUDIENCE,), subject_claim="number")
    with pytest.raises(TokenRefused):
        validator(rules=rules).validate(token(number=7))
    assert validator(rules=rules).validate(token(number="seven")).subject == "seven"


def test_unset_audience_and_issuer_accept_any(validator):
    anyone = validator(rules=BearerTokenRules())
    for claims_of in ({}, {"aud": None, "iss": None}, {"aud": ["x", "y"], "iss": "https://z/"}):
        assert anyone.validate(token(**claims_of)).subject == "alice"
    for rules in (BearerTokenRules(issuer="other"), BearerTokenRules(audience=("other",))):
        with pytest.raises(TokenRefused):
            validator(rules=rules).validate(token())


def test_key_verifies_only_its_own_algorithm(validator):
    pinned = validator(key_set(jwk(rsa_key(), "r", alg="RS256")))
    assert pinned.validate(token()).subject == "alice"
    assert pinned.validate(token(key_id=None)).subject == "alice"  # there is only one key
    with pytest.raises(TokenRefused):
        pinned.validate(token(algorithm="RS512"))


UNSECURED_WRONG = {
    "signed": token,
    "signature": lambda: unsigned({"alg": "none"}, claims(), b"x"),
    "algorithm": lambda: unsigned({"alg": "HS256"}, claims()),
    "expired": lambda: unsigned({"alg": "none"}, claims(exp=NOW - 2 * HOUR)),
    "no expiry": lambda: unsigned({"alg": "none"}, claims(exp=None)),
    "expiry text": lambda: unsigned({"alg": "none"}, claims(exp="9999999999")),
    "expiry true": lambda: unsigned({"alg": "none"}, claims(exp=True)),
    "infinite": lambda: unsigned({"alg": "none"}, claims(exp=float("inf"))),
    "no subject": lambda: unsigned({"alg": "none"}, claims(sub=None)),
    "list": lambda: unsigned([], []),
    "two parts": lambda: "e30.e30",
    "no base64": lambda: "a.b.",
}


def test_unsecured_tokens_accept_any_claim():
    assert UnsecuredTokens(RULES).validate(unsigned({"alg": "none"}, claims())).subject == "alice"


@pytest.mark.parametrize("kind", UNSECURED_WRONG)
def test_invalid_unsecured_tokens_are_refused(kind):
    with pytest.raises(TokenRefused):
        UnsecuredTokens(RULES).validate(UNSECURED_WRONG[kind]())


@pytest.mark.parametrize(
    ("expiry", "lifetime_ms"),
    [(1100, 100_000), (1000, 0), (970.5, -29_500), (1e300, 1 << 53), (1000.0015, 1)],
)
def test_remaining_token_lifetime_is_exact_in_milliseconds(expiry, lifetime_ms):
    rules = BearerTokenRules(skew_seconds=30)
    text = unsigned({"alg": "none"}, claims(exp=expiry))
    found = UnsecuredTokens(rules, now=lambda: 1_000_000).validate(text)
    assert found.lifetime_ms == lifetime_ms


@pytest.mark.parametrize(
    ("expiry", "skew_seconds"), [(970, 30), (969, 30), (1000, 0), (999.999, 0)]
)
def test_token_expires_right_after_skew(expiry, skew_seconds):
    text = unsigned({"alg": "none"}, claims(exp=expiry))
    one = UnsecuredTokens(BearerTokenRules(skew_seconds=skew_seconds), now=lambda: 1_000_000)
    with pytest.raises(TokenRefused, match="run out"):
        one.validate(text)


@pytest.mark.parametrize("key_id", [7, ["r"], {"r": "r"}])
def test_non_text_key_id_is_refused(validator, key_id):
    with pytest.raises(TokenRefused):
        validator().validate(unsigned({"alg": "RS256", "kid": key_id}, claims(), b"x"))
