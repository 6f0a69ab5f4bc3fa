"""The complete security settings of listeners and clients from Kafka's keys, and the exact text of each refusal."""

import ssl
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.certificates import Certificates
from tests.datadriven import check_transcript
from tests.node.config.transcript import lines, outcome
from tests.quorum.config_of import Given, config_of
from trimaran.node.oauth.login import BearerCredentials
from trimaran.node.oauth.tokens import UnsecuredTokens
from trimaran.node.oauth.web import Web, WebError
from trimaran.node.security import listener_security as security
from trimaran.node.security import plain
from trimaran.node.security.listener_security import (
    _tls_settings,
    _web,
    client_security,
    controller_security,
    inter_broker_security,
    is_client_key,
    listener_security,
)
from trimaran.node.security.logins import Logins
from trimaran.node.security.mechanism import MechanismError
from trimaran.node.security.sasl import client_mechanism, own_mechanism, sasl_settings
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.listener import PLAINTEXT
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import Done
from trimaran.wire.security.sasl.oauthbearer import OAuthBearerExchange
from trimaran.wire.security.sasl.plain import PlainCredentials, PlainExchange
from trimaran.wire.security.sasl.scram import ScramExchange
from trimaran.wire.security.sasl.scram_client import ScramCredentials
from trimaran.wire.security.tls.contexts import TlsSettings

FILES = sorted((Path(__file__).parent / "testdata" / "security").glob("*.txt"))
BASE = {
    "listeners": "CONTROLLER://127.0.0.1:0,A://127.0.0.1:0",
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,A:SASL_PLAINTEXT",
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "A",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SHORT = {"PLAIN!": PLAIN, "SCRAM!": SCRAM, "OAUTH!": OAUTH}


class RecordingWeb:
    """Notes the requests to an identity provider."""

    def __init__(self):
        self.asked = []

    def post(self, url, headers, body):
        self.asked.append((url, headers["Authorization"], body.decode()))
        raise WebError("nothing is here")


def given(step):
    found = {}
    for line in lines(step):
        key, _, value = line.partition("=")
        for short, module in SHORT.items():
            value = value.replace(short, module)
        found[key] = value
    return found


def of_listener(step):
    """Returns the SASL settings of listener A."""
    config, web = config_of(**BASE | given(step)), RecordingWeb()
    logins = Logins()
    found = sasl_settings(config, "A", logins, web)
    told = [
        f"tokens up to {found.token_bytes_max} bytes, {found.failure_delay_seconds} s after a failure"
        + ", in threads" * found.blocks
    ]
    for name, begin in found.mechanisms.items():
        told.append(f"{name} for {found.session_ms_max[name]} ms: {exchange(begin, logins, web)}")
    return "\n".join(told)


def exchange(begin, logins, web):
    match begun := begin():
        case PlainExchange():
            asked = "nobody" if begun._ask is None else begun._ask.__name__
            return f"passwords {dict(begun._passwords)}, asks {asked}"
        case ScramExchange():
            name, find_account = begin.args
            assert find_account is logins.find_account
            return f"accounts of {name}"
        case OAuthBearerExchange():
            tokens = begun._validate.__self__
            rules = tokens._rules
            if isinstance(tokens, UnsecuredTokens):
                return f"unsecured {rules}"
            assert logins._key_sets == {tokens.keys.url: tokens.keys}
            assert tokens.keys._web is web
            return f"{tokens.keys.url} every {tokens.keys._refresh_seconds} s, {rules}"
    raise AssertionError(begun)


def mechanism(found, web):
    match found:
        case BearerCredentials():
            try:
                found.exchange()
            except AuthenticationRefused as error:
                return f"asks {web.asked}: {error}"
            return f"has the token {found._token.partition('.')[0]}"
        case PlainCredentials() | ScramCredentials():
            kind = getattr(found, "mechanism", "")
            by_token = " by token" * getattr(found, "by_token", False)
            return f"{kind} {found.username} {found.password}{by_token}"
    raise AssertionError(found)


def of_node(step):
    """Returns the node's own credentials on listener A."""
    web, key = RecordingWeb(), "sasl.mechanism.inter.broker.protocol"
    return mechanism(own_mechanism(config_of(**BASE | given(step)), "A", key, web), web)


def of_client(step):
    values = given(step)
    name, web = values.pop("mechanism"), RecordingWeb()
    try:
        return mechanism(client_mechanism(name, values.get, web=web), web)
    except MechanismError as error:
        return f"refused\n  {error.key}\n  {error.why}\n  {error.fix}\n  {error}"


def of_command(step):
    found = client_security({key: Given(value, f"f:{key}") for key, value in given(step).items()})
    told = f"verifies {found.tls.verify_mode.name}" if found.tls is not None else "plaintext"
    return f"{told}, {found.sasl!r}"


def of_whole_listener(step):
    found = listener_security(config_of(**BASE | given(step)), "A")
    tls = "plaintext" if found.tls is None else found.tls.verify_mode.name
    return f"{tls}, sasl {list(found.sasl.mechanisms) if found.sasl is not None else 'none'}"


def of_brokers(step):
    found = inter_broker_security(config_of(**BASE | given(step)))
    return f"{'plaintext' if found.tls is None else 'tls'}, {found.sasl!r}"


def of_controllers(step):
    found = controller_security(config_of(**BASE | given(step)))
    return f"{'plaintext' if found.tls is None else 'tls'}, {found.sasl!r}"


HANDLERS = {
    "listener": of_listener,
    "node": of_node,
    "client": of_client,
    "command": of_command,
    "whole-listener": of_whole_listener,
    "brokers": of_brokers,
    "controllers": of_controllers,
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_login_settings_match_each_transcript(path, monkeypatch):
    points = [
        EntryPoint("ldap", "operator:eq", "trimaran.sasl.plain"),
        EntryPoint("path", "sys:path", "trimaran.sasl.plain"),
    ]
    monkeypatch.setattr("trimaran.node.security.plain.entry_points", lambda group: points)
    check_transcript(
        path,
        lambda step: outcome(lambda: HANDLERS[step.command](step)),
    )


@pytest.mark.parametrize(
    ("targets", "said"),
    [(["operator:nothing"], "no attribute"), (["operator:eq", "operator:ne"], "too many values")],
)
def test_unusable_entry_point_is_refused_with_reason(monkeypatch, targets, said):
    points = [EntryPoint("ldap", target, "trimaran.sasl.plain") for target in targets]
    monkeypatch.setattr("trimaran.node.security.plain.entry_points", lambda group: points)
    with pytest.raises(MechanismError, match=said) as refused:
        plain._plain_callback("ldap")
    assert refused.value.fix == "install the package that has it, or correct the name"


def test_tls_settings_use_each_of_their_keys():
    found = _tls_settings(lambda key: key, "required")
    assert found == TlsSettings(
        keystore_type="ssl.keystore.type",
        keystore_location="ssl.keystore.location",
        keystore_password="ssl.keystore.password",
        keystore_key="ssl.keystore.key",
        keystore_chain="ssl.keystore.certificate.chain",
        key_password="ssl.key.password",
        truststore_type="ssl.truststore.type",
        truststore_location="ssl.truststore.location",
        truststore_password="ssl.truststore.password",
        truststore_certificates="ssl.truststore.certificates",
        crl_location="trimaran.ssl.crl.location",
        client_auth="required",
        protocols="ssl.enabled.protocols",
        cipher_suites="ssl.cipher.suites",
        check_hostname=True,
    )
    unnamed = {"ssl.endpoint.identification.algorithm": ""}
    assert not _tls_settings(lambda key: unnamed.get(key, key)).check_hostname
    assert _tls_settings(lambda key: key).client_auth == "none"


@pytest.fixture(scope="module")
def certificates():
    return Certificates()


def of_stores(**changes):
    """Returns a function from key to value, for TLS settings with changes."""
    values = {"ssl.enabled.protocols": ["TLSv1.2"], "ssl.cipher.suites": []}
    values |= {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
    values |= {key.replace("_", "."): value for key, value in changes.items()}
    return values.get


def test_identity_providers_use_configured_trust(certificates, tmp_path):
    assert _web(of_stores()) == Web()
    by_text = _web(of_stores(ssl_truststore_certificates=certificates.ca)).tls
    assert by_text.get_ca_certs()[0]["issuer"]
    (tmp_path / "ca.pem").write_text(certificates.ca)
    by_file = _web(of_stores(ssl_truststore_location=str(tmp_path / "ca.pem"))).tls
    assert by_file.get_ca_certs() == by_text.get_ca_certs()
    # Only nodes use their own certificate, so an unreadable one does not matter.
    lacking = of_stores(
        ssl_truststore_certificates=certificates.ca, ssl_keystore_location="/none/at/all"
    )
    assert _web(lacking).tls.verify_mode is ssl.CERT_REQUIRED
    told = outcome(lambda: _web(of_stores(ssl_truststore_location="/none/at/all")))
    assert told == (
        "refused\n"
        "  key: ssl.truststore.location\n"
        "  value: /none/at/all\n"
        "  why: /none/at/all: No such file or directory\n"
        "  origin:\n"
        "  fix: name a regular file that this process may read\n"
        "  answer: Invalid value /none/at/all for configuration ssl.truststore.location: "
        "/none/at/all: No such file or directory"
    )


def test_client_keys_are_those_of_the_table():
    assert is_client_key("security.protocol")
    assert is_client_key("sasl.jaas.config")
    assert not is_client_key("bootstrap.servers")


def test_listener_has_certificate_names_and_users(certificates):
    key, chain = certificates.server
    config = config_of(
        **BASE
        | {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,A:SASL_SSL,B:SSL,C:PLAINTEXT",
            "listener.name.a.plain.sasl.jaas.config": f'{PLAIN} user_x="y";',
            "listener.name.b.ssl.principal.mapping.rules": "RULE:.*CN=([a-z]+).*/$1/U",
            "listener.name.b.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": chain,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": certificates.ca,
        }
    )
    both = listener_security(config, "A")
    assert both.tls.verify_mode is ssl.CERT_NONE
    assert both.sasl.mechanisms["PLAIN"]().evaluate(b"\0x\0y") == Done(Principal("x"), b"")
    tls = listener_security(config, "B")
    assert (tls.tls.verify_mode, tls.sasl) == (ssl.CERT_REQUIRED, None)
    assert tls.names.name_of("CN=alice,O=x") == "ALICE"
    plain = listener_security(config, "C")
    assert (plain.tls, plain.sasl) == (None, None)


def test_accounts_come_from_the_node():
    logins = Logins(find_account=SimpleNamespace())
    config = config_of(**BASE | {"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    found = listener_security(config, "A", logins).sasl
    assert found.mechanisms["SCRAM-SHA-256"].args == ("SCRAM-SHA-256", logins.find_account)


def test_listeners_without_security_share_one_object():
    protocols = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,A:PLAINTEXT"}
    assert inter_broker_security(config_of(**BASE | protocols)) is PLAINTEXT


def test_missing_token_package_prevents_start(monkeypatch):
    monkeypatch.setitem(sys.modules, "jwt", None)
    changes = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": "https://h/",
        "sasl.oauthbearer.expected.audience": "a",
        "sasl.oauthbearer.expected.issuer": "i",
    }
    told = outcome(lambda: listener_security(config_of(**BASE | changes), "A"))
    assert "why: checking tokens needs the package PyJWT" in told
    assert "fix: pip install 'trimaran[oauth]'" in told


def test_error_hides_secret_values():
    shown = security._shown
    sensitive = SimpleNamespace(sensitive=True)
    assert shown(sensitive, "x") == "[hidden]"
    assert shown(SimpleNamespace(sensitive=False), "x") == "x"
    assert shown(None, None) == ""
    assert shown(None, 5) == "5"
    assert shown(None, "a -----BEGIN KEY") == "[hidden]"
