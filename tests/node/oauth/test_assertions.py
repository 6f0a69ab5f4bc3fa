"""Assertions: their exact headers and claims, their files, and the refusal of each unusable file."""

import json
import os
import sys
import uuid

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tests.checks import check_each
from tests.node.oauth.provider import ec_key, pem, rsa_key, token
from trimaran.node.oauth.assertions import (
    AssertionFile,
    NoAssertion,
    SignedAssertions,
    SigningKey,
    Template,
)

NOW = 1_700_000_000
MEBIBYTE = 1 << 20
READABLE = "name a regular file that this process may read"


@pytest.fixture
def file(tmp_path):
    """Returns a function that writes a file and returns its path."""

    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def signing(file, key=None, algorithm="RS256", **more):
    return SignedAssertions(
        SigningKey(file(pem(key or rsa_key()), "key.pem"), algorithm),
        now=lambda: NOW * 1000 + 999,
        **{"claims": {}, **more},
    )


def opened(assertion, key=None, algorithm="RS256"):
    """Returns header and claims of an assertion, after a check of its signature only."""
    found = jwt.decode_complete(
        assertion,
        (key or rsa_key()).public_key(),
        algorithms=[algorithm],
        options=dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat", "verify_aud"), False),
    )
    return found["header"], found["payload"]


def refusal(use):
    with pytest.raises(NoAssertion) as refused:
        use()
    assert str(refused.value) == f"{refused.value.why}; {refused.value.fix}"
    return refused.value.why, refused.value.fix


@pytest.mark.parametrize(("algorithm", "key"), [("RS256", rsa_key), ("ES256", ec_key)])
def test_assertion_has_exactly_kafkas_claims(file, algorithm, key):
    made = signing(file, key(), algorithm).make()
    assert opened(made, key(), algorithm) == (
        {"alg": algorithm, "typ": "JWT"},
        {"iat": NOW, "exp": NOW + 300, "nbf": NOW - 60},
    )


def test_template_replaces_claims_but_not_times(file):
    given = {
        "header": {"kid": "k1", "alg": "none", "typ": "x"},
        "payload": {"aud": ["a", "b"], "exp": 5, "iat": 5, "nbf": 5, "jti": "mine", "n": 1.5},
    }
    source = signing(
        file,
        claims={"aud": "x", "iss": "i", "sub": "s"},
        template=Template(file(json.dumps(given))),
        lifetime_seconds=0,
        backdated_seconds=0,
    )
    assert opened(source.make()) == (
        {"kid": "k1", "alg": "RS256", "typ": "JWT"},
        {
            "aud": ["a", "b"],
            "iss": "i",
            "sub": "s",
            "jti": "mine",
            "n": 1.5,
            "iat": NOW,
            "exp": NOW,
            "nbf": NOW,
        },
    )


def test_each_assertion_has_its_own_id(file):
    source = signing(file, template=Template(file('{"payload": {"jti": "mine"}}')), has_id=True)
    ids = [opened(source.make())[1]["jti"] for _ in range(2)]
    assert len(set(ids)) == 2
    assert [str(uuid.UUID(text)) for text in ids] == ids


def test_changed_key_and_template_are_used_immediately(file):
    source = signing(file, template=Template(file("{}")))
    assert opened(source.make())[0] == {"alg": "RS256", "typ": "JWT"}
    file('{"header": {"kid": "k2"}}')
    assert opened(source.make())[0]["kid"] == "k2"
    other = ec_key()
    file(pem(other), "key.pem")
    assert refusal(source.make)[0].endswith("does not fit RS256")
    file(pem(rsa_key()), "key.pem")
    assert opened(source.make())[0]["kid"] == "k2"


TEMPLATES = [
    ("{}", ({}, {})),
    ('{"header": null, "payload": {}, "more": 1}', ({}, {})),
    ('{"payload": {"a": {"b": [1]}}}', ({}, {"a": {"b": [1]}})),
    ("", None),
    ("null", None),
    ("[]", None),
    ("5", None),
    ("{'header': {}}", None),
    ('{"header": []}', None),
    ('{"header": ""}', None),
    ('{"payload": 0}', None),
    ('{"payload": false}', None),
    ('{"payload": {"exp": NaN}}', None),
    ('{"payload": {"exp": 1e400}}', None),
    ('{"header": {"x": [-1e400]}}', None),
    ('{"payload": {"exp": ' + "9" * 5000 + "}}", None),
    ("[" * 100_000, None),
    (b"\xff\xff\xff", None),
]


def test_template_is_read_or_refused_with_example(file):
    def is_so(row):
        text, expected = row
        template = Template(file(text))
        if expected is not None:
            assert template.read() == expected
            return
        assert refusal(template.read) == (
            f"{template.path} is no template of assertions",
            'write JSON into it: {"header": {"kid": "…"}, "payload": {"aud": "…"}}',
        )

    check_each(TEMPLATES, is_so)


def test_deep_template_is_refused_when_signed(file, monkeypatch):
    deep = "x"
    for _ in range(5000):
        deep = [deep]
    monkeypatch.setattr(Template, "read", lambda _: ({}, {"deep": deep}))
    source = signing(file, template=Template(file("{}")))
    limit = sys.getrecursionlimit()  # another test's library may have raised it
    sys.setrecursionlimit(1000)
    try:
        refused = refusal(source.make)
    finally:
        sys.setrecursionlimit(limit)
    assert refused == ("the claims of the template are nested too deeply", "write flatter claims")


def traditional(key):
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def public(key):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


RSA, EC = "an RSA key of 2048 bits or more", "an EC key on the curve P-256"
NO_KEY = "{} holds no private key in PEM"
KEYS = [
    (lambda: pem(rsa_key()), "RS256", None, None),
    (lambda: pem(ec_key()), "ES256", None, None),
    (lambda: traditional(rsa_key()), "RS256", None, None),
    (lambda: traditional(ec_key()), "ES256", None, None),
    (lambda: pem(rsa_key(), "geheim"), "RS256", "geheim", None),
    (lambda: pem(ec_key(), "schlüssel"), "ES256", "schlüssel", None),
    (lambda: pem(rsa_key(1024)), "RS256", None, ("the key in {} does not fit RS256", f"use {RSA}")),
    (lambda: pem(ec_key()), "RS256", None, ("the key in {} does not fit RS256", f"use {RSA}")),
    (lambda: pem(rsa_key()), "ES256", None, ("the key in {} does not fit ES256", f"use {EC}")),
    (
        lambda: pem(ec.generate_private_key(ec.SECP384R1())),
        "ES256",
        None,
        ("the key in {} does not fit ES256", f"use {EC}"),
    ),
    (
        lambda: pem(ed25519.Ed25519PrivateKey.generate()),
        "RS256",
        None,
        ("the key in {} does not fit RS256", f"use {RSA}"),
    ),
    (
        lambda: pem(rsa_key(), "geheim"),
        "RS256",
        None,
        ("the key in {} is encrypted", "set its passphrase"),
    ),
    (
        lambda: pem(rsa_key()),
        "RS256",
        "geheim",
        ("the key in {} is not encrypted", "leave out the passphrase"),
    ),
    (
        lambda: pem(rsa_key(), "geheim"),
        "RS256",
        "falsch",
        (f"{NO_KEY} that the passphrase opens", f"write {RSA} into it"),
    ),
    (lambda: public(rsa_key()), "RS256", None, (NO_KEY, f"write {RSA} into it")),
    (lambda: pem(ec_key())[:100], "ES256", None, (NO_KEY, f"write {EC} into it")),
    (lambda: "", "ES256", None, (NO_KEY, f"write {EC} into it")),
    (lambda: b"\xff" * 100, "ES256", None, (NO_KEY, f"write {EC} into it")),
]


def test_signing_key_is_loaded_or_refused_with_reason(file):
    def is_so(row):
        content, algorithm, passphrase, expected = row
        key = SigningKey(file(content()), algorithm, passphrase)
        if expected is None:
            assert key.sign("x")
            return
        why, fix = expected
        assert refusal(key.load) == (why.format(key.path), fix)

    check_each(KEYS, is_so)


def test_passphrase_is_in_no_text(file):
    key = SigningKey(file(pem(rsa_key(), "geheim")), "RS256", "falsches")
    assert "falsches" not in repr(signing(file)) + repr(key)
    with pytest.raises(NoAssertion) as refused:
        key.load()
    assert "falsches" not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    "read",
    [
        lambda path: SigningKey(path, "RS256").load,
        lambda path: Template(path).read,
        lambda path: AssertionFile(path).make,
    ],
    ids=["key", "template", "assertion"],
)
def test_unreadable_file_is_named_with_cause(tmp_path, file, read):
    os.mkfifo(tmp_path / "fifo")
    large = file(b"#" * (MEBIBYTE + 1), "large")
    causes = {
        tmp_path / "none": "No such file or directory",
        tmp_path: "it is not a regular file",
        tmp_path / "fifo": "it is not a regular file",
        large: f"it is larger than {MEBIBYTE} bytes",
        tmp_path / "a\0b": "embedded null byte",
    }
    for path, cause in causes.items():
        assert refusal(read(path)) == (f"{path}: {cause}", READABLE)
    full = file(b"#" * MEBIBYTE, "full")
    assert not refusal(read(full))[0].startswith(f"{full}:")


def test_finished_assertion_is_reread_each_time(file):
    first, second = token(), token(sub="bob")
    source = AssertionFile(file(f"  {first}\n"))
    assert source.make() == first
    file(second)
    assert source.make() == second
    file(second[: len(second) // 4])
    why, fix = refusal(source.make)
    assert why == f"{source.path} holds no assertion"
    assert fix.endswith("replace the file as a whole")
    file(second)
    assert source.make() == second


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b",
        "e30.e30.",
        "e30.e30.x.y",
        ".e30.x",
        "e30..x",
        "e30=.e30.x",
        "e30.e\n30.x",
        "e30.W10.x",
        "W10.e30.x",
        "e30.e.x",
        "e30.xxxx.x",
        "é.e30.x",
        b"\xff",
    ],
)
def test_file_without_assertion_is_refused(file, text):
    source = AssertionFile(file(text))
    assert refusal(source.make)[0] == f"{source.path} holds no assertion"
    file("e30.e30.x")
    assert source.make() == "e30.e30.x"
