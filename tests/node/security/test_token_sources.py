"""The keys of a client for OAUTHBEARER: the grant that they choose, what it sends, and each refusal, with its key."""

import json
import logging
import sys
from pathlib import Path
from urllib.parse import parse_qs

import jwt
import pytest

from tests.certificates import Certificates
from tests.checks import check_each
from tests.node.oauth.provider import ec_key, granting, pem, provider, rsa_key, token
from tests.quorum.config_of import Given, config_of
from trimaran.node.config.config_def import ConfigError
from trimaran.node.security.listener_security import client_security, inter_broker_security
from trimaran.wire.client.errors import AuthenticationRefused

ROOT = Path(__file__).parents[3]
PREFIX = "sasl.oauthbearer."
CLASSES = "org.apache.kafka.common.security.oauthbearer."
JAAS = f"{CLASSES}OAuthBearerLoginModule required"
JWT_BEARER = {"jwt.retriever.class": f"{CLASSES}JwtBearerJwtRetriever"}
CREDENTIALS = {"jwt.retriever.class": f"{CLASSES}ClientCredentialsJwtRetriever"}
FILE = {"jwt.retriever.class": f"{CLASSES}FileJwtRetriever"}
SECRET = {"client.credentials.client.id": "me", "client.credentials.client.secret": "geheim"}


@pytest.fixture
def idp():
    with provider() as found:
        found.answers["/token"] = b'{"access_token": "abc"}'
        yield found


@pytest.fixture
def files(tmp_path):
    """Writes the files that a client may name, and returns their folder."""
    contents = {
        "rsa.pem": pem(rsa_key()),
        "ec.pem": pem(ec_key()),
        "closed.pem": pem(rsa_key(), "geheim"),
        "assertion.jwt": token(),
        "token.jwt": "abc\n",
        "template.json": '{"header": {"kid": "k1"}, "payload": {"sub": "bob"}}',
        "no.json": "geheim",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def client(keys, files, idp=None, jaas=None):
    """Returns the credentials of a client with these keys of `sasl.oauthbearer.`; DIR is the folder of the files."""
    texts = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    if idp is not None:
        texts[f"{PREFIX}token.endpoint.url"] = f"{idp.url}/token"
    if jaas is not None:
        texts["sasl.jaas.config"] = jaas
    texts |= {PREFIX + name: text.replace("DIR", str(files)) for name, text in keys.items()}
    return client_security({name: Given(text, "f:1") for name, text in texts.items()}).sasl


def token_of(credentials):
    return next(credentials.exchange()).split(b"Bearer ")[1].strip(b"\x01").decode()


def form_of(idp):
    form = {name: text for name, (text,) in parse_qs(idp.asked[-1][2].decode()).items()}
    assertion = form.pop("assertion", None) or form.pop("client_assertion", None)
    form.pop("client_assertion_type", None)
    return form, assertion


KEY = {"assertion.private.key.file": "DIR/rsa.pem"}
EC_KEY = {"assertion.private.key.file": "DIR/ec.pem", "assertion.algorithm": "ES256"}
ISSUER = {"assertion.claim.iss": " me "}
SCOPED = f'{JAAS} scope="of-jaas" clientId="of-jaas" clientSecret="of-jaas";'
BEARER_FORM = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}
CLIENT_FORM = {"grant_type": "client_credentials"}
# Keys, login module, the form without its assertion, and whether there is an assertion.
CHOICES = [
    (SECRET, None, CLIENT_FORM, False),
    (CREDENTIALS | SECRET, None, CLIENT_FORM, False),
    (SECRET | EC_KEY | {"assertion.claim.sub": "s"}, None, CLIENT_FORM, False),
    (SECRET | EC_KEY | {"assertion.claim.iss": " "}, None, CLIENT_FORM, False),
    (EC_KEY | ISSUER, None, CLIENT_FORM, True),
    (CREDENTIALS | EC_KEY | ISSUER | SECRET, None, CLIENT_FORM | {"client_id": "me"}, True),
    ({"assertion.file": "DIR/assertion.jwt"}, None, CLIENT_FORM, True),
    (EC_KEY | ISSUER, SCOPED, CLIENT_FORM | {"scope": "of-jaas", "client_id": "of-jaas"}, True),
    (JWT_BEARER | EC_KEY, None, BEARER_FORM, True),
    (JWT_BEARER | EC_KEY, SCOPED, BEARER_FORM, True),
    (JWT_BEARER | EC_KEY | {"scope": " a b "}, None, BEARER_FORM | {"scope": "a b"}, True),
    (JWT_BEARER | SECRET | {"assertion.file": "DIR/assertion.jwt"}, None, BEARER_FORM, True),
]


def test_keys_choose_grant_as_in_kafka(idp, files):
    def is_so(row):
        keys, jaas, form, has_assertion = row
        assert token_of(client(keys, files, idp, jaas)) == "abc"
        found, assertion = form_of(idp)
        assert found == form
        assert (assertion is not None) is has_assertion
        assert ("Authorization" in idp.asked[-1][1]) is not has_assertion

    check_each(CHOICES, is_so)


@pytest.mark.parametrize("keys", [{}, FILE])
@pytest.mark.parametrize("scheme", ["file", "FILE"])
def test_token_of_file_needs_no_grant(files, keys, scheme):
    url = {"token.endpoint.url": f"{scheme}://DIR/token.jwt"}
    assert token_of(client(keys | url, files)) == "abc"


def test_every_key_of_assertions_acts(idp, files):
    keys = {
        **JWT_BEARER,
        "assertion.algorithm": "es256",
        "assertion.private.key.file": " DIR/ec.pem ",
        "assertion.template.file": "DIR/template.json",
        "assertion.claim.aud": "a",
        "assertion.claim.iss": "i",
        "assertion.claim.sub": "replaced by the template",
        "assertion.claim.exp.seconds": "7",
        "assertion.claim.nbf.seconds": "5",
        "assertion.claim.jti.include": "true",
    }
    assert token_of(client(keys, files, idp)) == "abc"
    found = jwt.decode_complete(
        form_of(idp)[1], ec_key().public_key(), algorithms=["ES256"], audience="a"
    )
    claims = found["payload"]
    assert found["header"] == {"alg": "ES256", "kid": "k1", "typ": "JWT"}
    assert {name: claims[name] for name in ("aud", "iss", "sub")} == {
        "aud": "a",
        "iss": "i",
        "sub": "bob",
    }
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (7, 5)
    assert len(claims.pop("jti")) == 36
    assert claims.keys() == {"aud", "iss", "sub", "exp", "iat", "nbf"}


def test_encrypted_key_is_opened_by_passphrase(idp, files):
    closed = {"assertion.private.key.file": "DIR/closed.pem"}
    given = {"assertion.private.key.passphrase": "geheim "}
    assert token_of(client(JWT_BEARER | closed | given, files, idp)) == "abc"


NO_URL = ("token.endpoint.url", "is not set", "set it to where the identity provider gives tokens")
MISFIT = (
    "token.endpoint.url",
    "does not fit {}",
    f"use a file: URL with {CLASSES}FileJwtRetriever, and an https: URL with the others",
)
NO_KEY = (
    "assertion.private.key.file",
    "is not set, and a private key signs assertions",
    "set it to a PEM file, or sasl.oauthbearer.assertion.file to a file with a finished assertion",
)


def misfit(keys):
    key, why, fix = MISFIT
    return key, why.format(keys["jwt.retriever.class"]), fix


def at(url):
    return {"token.endpoint.url": url}


REFUSALS = [
    (JWT_BEARER, NO_URL),
    (JWT_BEARER | at("file:///t"), misfit(JWT_BEARER)),
    (CREDENTIALS | at("FILE:///t"), misfit(CREDENTIALS)),
    (FILE | at("https://h/t"), misfit(FILE)),
    (
        JWT_BEARER | at("http://h/t"),
        (
            "token.endpoint.url",
            "an identity provider needs https; http only on this machine",
            "correct the URL",
        ),
    ),
    (JWT_BEARER | at("https://["), ("token.endpoint.url", "it is not a URL", "correct the URL")),
    (JWT_BEARER | at("https://h/t"), NO_KEY),
    (ISSUER | SECRET | at("https://h/t"), NO_KEY),
    (
        KEY | at("https://h/t"),
        (
            "client.credentials.client.id",
            "client id and secret are needed",
            "set sasl.oauthbearer.client.credentials.client.id and "
            "sasl.oauthbearer.client.credentials.client.secret, "
            "or sasl.oauthbearer.assertion.claim.iss to use an assertion",
        ),
    ),
    (
        JWT_BEARER | at("https://h/t") | {"assertion.private.key.file": "DIR/closed.pem"},
        (
            "assertion.private.key.file",
            "the key in DIR/closed.pem is encrypted",
            "set its passphrase",
        ),
    ),
    (
        JWT_BEARER | at("https://h/t") | KEY | {"assertion.private.key.passphrase": "geheim"},
        (
            "assertion.private.key.file",
            "the key in DIR/rsa.pem is not encrypted",
            "leave out the passphrase",
        ),
    ),
    (
        JWT_BEARER | at("https://h/t") | KEY | {"assertion.algorithm": "ES256"},
        (
            "assertion.private.key.file",
            "the key in DIR/rsa.pem does not fit ES256",
            "use an EC key on the curve P-256",
        ),
    ),
    (
        JWT_BEARER | at("https://h/t") | KEY | {"assertion.template.file": "DIR/no.json"},
        (
            "assertion.template.file",
            "DIR/no.json is no template of assertions",
            'write JSON into it: {"header": {"kid": "…"}, "payload": {"aud": "…"}}',
        ),
    ),
    (
        JWT_BEARER | at("https://h/t") | {"assertion.file": "DIR/none"},
        (
            "assertion.file",
            "DIR/none: No such file or directory",
            "name a regular file that this process may read",
        ),
    ),
    (
        at("https://h/t") | {"assertion.file": "DIR/no.json"},
        (
            "assertion.file",
            "DIR/no.json holds no assertion",
            "write a signed JWT into it, HEADER.CLAIMS.SIGNATURE, and replace the file as a whole",
        ),
    ),
]


def test_unusable_settings_are_refused_with_fix(files):
    def is_so(row):
        keys, (key, why, fix) = row
        with pytest.raises(ConfigError) as refused:
            client(keys, files)
        error = refused.value
        assert (error.key, error.why, error.fix) == (
            PREFIX + key,
            why.replace("DIR", str(files)),
            fix,
        )
        assert "geheim" not in f"{error} {error.answer}"

    check_each(REFUSALS, is_so)


@pytest.mark.parametrize("keys", [JWT_BEARER, CREDENTIALS, FILE])
def test_named_retriever_makes_no_unsecured_token(files, keys):
    jaas = f'{JAAS} unsecuredLoginStringClaim_sub="alice";'
    assert token_of(client({}, files, jaas=jaas)).endswith(".")
    with pytest.raises(ConfigError) as refused:
        client(keys, files, jaas=jaas)
    assert refused.value.key == f"{PREFIX}token.endpoint.url"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("assertion.algorithm", "RS512"),
        ("assertion.algorithm", "none"),
        ("assertion.claim.exp.seconds", "-1"),
        ("assertion.claim.exp.seconds", "86401"),
        ("assertion.claim.nbf.seconds", "-1"),
        ("assertion.claim.nbf.seconds", "3601"),
        ("assertion.claim.jti.include", "yes"),
        ("jwt.retriever.class", "com.example.Retriever"),
    ],
)
def test_value_that_kafka_refuses_is_refused(files, name, text):
    with pytest.raises(ConfigError) as refused:
        client({name: text}, files)
    assert refused.value.key == PREFIX + name


def test_highest_times_are_accepted(idp, files):
    times = {"assertion.claim.exp.seconds": "86400", "assertion.claim.nbf.seconds": "3600"}
    token_of(client(JWT_BEARER | KEY | times, files, idp))
    claims = jwt.decode(form_of(idp)[1], options={"verify_signature": False})
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (86400, 3600)


@pytest.mark.parametrize(
    ("more", "is_warned"),
    [
        ({}, False),
        ({"assertion.claim.exp.seconds": "5"}, False),
        (KEY, True),
        (ISSUER, True),
        ({"assertion.template.file": "DIR/template.json"}, True),
    ],
)
def test_unused_keys_of_assertions_are_warned_of(files, caplog, more, is_warned):
    keys = JWT_BEARER | at("https://h/t") | {"assertion.file": "DIR/assertion.jwt"} | more
    with caplog.at_level(logging.WARNING):
        client(keys, files)
    expected = (
        f"the assertion in {files}/assertion.jwt is used, and the other keys "
        "sasl.oauthbearer.assertion.… have no effect"
    )
    assert caplog.messages == [expected] * is_warned


def test_signing_without_its_package_is_refused(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError) as refused:
        client(JWT_BEARER | at("https://h/t") | KEY, files)
    assert refused.value.why == "signing needs the package PyJWT"
    assert refused.value.fix == "pip install 'trimaran[oauth]'"
    assert client(JWT_BEARER | at("https://h/t") | {"assertion.file": "DIR/assertion.jwt"}, files)


def test_https_provider_is_verified_by_truststore(files, tmp_path):
    certificates = Certificates()
    (tmp_path / "ca.pem").write_text(certificates.ca)
    with provider(certificates.server_context()) as idp:
        idp.judges["/token"] = granting(idp)
        texts = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            f"{PREFIX}token.endpoint.url": f"{idp.url}/token",
            f"{PREFIX}jwt.retriever.class": JWT_BEARER["jwt.retriever.class"],
            f"{PREFIX}assertion.private.key.file": f"{files}/rsa.pem",
            f"{PREFIX}assertion.claim.iss": "client-of-ours",
            f"{PREFIX}assertion.claim.sub": "alice",
            f"{PREFIX}assertion.claim.aud": f"{idp.url}/token",
        }
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{tmp_path}/ca.pem"}
        given = {name: Given(text, "f:1") for name, text in (texts | trust).items()}
        said = jwt.decode(
            token_of(client_security(given).sasl), options={"verify_signature": False}
        )
        assert said["sub"] == "alice"
        untrusting = {name: Given(text, "f:1") for name, text in texts.items()}
        with pytest.raises(AuthenticationRefused, match="certificate verify failed"):
            token_of(client_security(untrusting).sasl)


def test_node_logs_in_by_keys_of_listener(idp, files):
    config = config_of(
        **{
            "listeners": "CONTROLLER://127.0.0.1:0,A://127.0.0.1:0",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,A:SASL_PLAINTEXT",
            "process.roles": "broker,controller",
            "inter.broker.listener.name": "A",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            f"{PREFIX}token.endpoint.url": f"{idp.url}/token",
            f"{PREFIX}jwt.retriever.class": JWT_BEARER["jwt.retriever.class"],
            f"{PREFIX}assertion.claim.sub": "node",
            f"listener.name.a.{PREFIX}assertion.claim.sub": "broker",
            f"listener.name.a.{PREFIX}assertion.private.key.file": f"{files}/rsa.pem",
        }
    )
    assert token_of(inter_broker_security(config).sasl) == "abc"
    claims = jwt.decode(form_of(idp)[1], options={"verify_signature": False})
    assert claims["sub"] == "broker"
    (files / "rsa.pem").write_text("geheim")
    with pytest.raises(ConfigError) as refused:
        inter_broker_security(config)
    assert refused.value.key == f"listener.name.a.{PREFIX}assertion.private.key.file"
    assert "geheim" not in str(refused.value)


def test_example_of_manual_gets_a_token(idp, files):
    page = (ROOT / "docs" / "security.md").read_text()
    (example,) = (
        block.split("```")[0]
        for block in page.split("```properties\n")
        if "JwtBearerJwtRetriever" in block.split("```")[0]
    )
    example = example.replace("/etc/trimaran/client.pem", f"{files}/rsa.pem")
    example = example.replace("https://idp.example.org", idp.url)
    idp.judges["/token"] = granting(idp, issuer="me")
    for text in (
        example,
        "".join(line for line in example.splitlines(True) if "jwt.r" not in line),
    ):
        lines = ["security.protocol=SASL_PLAINTEXT", *text.splitlines()]
        given = {
            key: Given(value, "f") for key, _, value in (line.partition("=") for line in lines)
        }
        said = jwt.decode(
            token_of(client_security(given).sasl), options={"verify_signature": False}
        )
        assert said["sub"] == "me"
    assert [form_of(idp)[0], len(idp.asked)] == [CLIENT_FORM, 2]


def test_client_file_urlencodes_secret_on_demand(idp, files):
    secret = SECRET | {"client.credentials.client.secret": "a:b"}
    for more, expected in (
        ({}, "Basic bWU6YTpi"),
        ({"header.urlencode": "true"}, "Basic bWU6YSUzQWI="),
    ):
        token_of(client(secret | more, files, idp))
        assert idp.asked[-1][1]["Authorization"] == expected
    assert json.loads(idp.answers["/token"]) == {"access_token": "abc"}
