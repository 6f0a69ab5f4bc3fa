"""Mechanisms from keys: their required settings, and the refusal to start without them."""

import os
from importlib.metadata import EntryPoint

import pytest

from tests.quorum.config_of import Given, config_of
from trimaran.node.config.config_def import ConfigError
from trimaran.node.security.kerberos import KERBEROS_MODULE
from trimaran.node.security.kerberos_contexts import KerberosCredentials
from trimaran.node.security.listener_security import (
    client_security,
    inter_broker_security,
    listener_security,
)
from trimaran.node.security.logins import Logins
from trimaran.node.security.oauthbearer import OAUTHBEARER_MODULE
from trimaran.node.security.plain import PLAIN_MODULE
from trimaran.node.security.scram import SCRAM_MODULE
from trimaran.wire.security.sasl.oauthbearer import OAuthBearerExchange
from trimaran.wire.security.sasl.plain import PlainExchange
from trimaran.wire.security.sasl.scram import ScramExchange
from trimaran.wire.security.sasl.scram_client import ScramCredentials

OWN = f'{SCRAM_MODULE} required username="me" password="mine";'
USERS = f'{PLAIN_MODULE} required user_me="mine";'
KEYS = "sasl.oauthbearer.jwks.endpoint.url"
UNSECURED = "trimaran.oauthbearer.unsecured.allowed"
AUDIENCE = "sasl.oauthbearer.expected.audience"
CHECKED = {AUDIENCE: "a", "sasl.oauthbearer.expected.issuer": "i"}
OF_A = "listener.name.a."


def config(more=None, **changes):
    base = {
        "listeners": "CONTROLLER://127.0.0.1:0,A://127.0.0.1:0",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,A:SASL_PLAINTEXT",
        "process.roles": "broker,controller",
        "inter.broker.listener.name": "A",
        "listener.name.a.plain.sasl.jaas.config": USERS,
    }
    return config_of(**{**base, **changes, **(more or {})})


def sasl_of(more=None, **changes):
    return listener_security(config(more, **changes), "A", Logins()).sasl


def test_each_mechanism_begins_its_own_exchange():
    names = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
    found = sasl_of({"sasl.enabled.mechanisms": names, UNSECURED: "true"})
    assert [type(begin()) for begin in found.mechanisms.values()] == [
        PlainExchange,
        ScramExchange,
        ScramExchange,
        OAuthBearerExchange,
    ]


def test_sessions_are_bounded_by_mechanism():
    found = sasl_of(
        {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "connections.max.reauth.ms": "500",
            "listener.name.a.plain.connections.max.reauth.ms": "70",
        }
    )
    assert found.session_ms_max == {"PLAIN": 70, "SCRAM-SHA-512": 500}


def test_key_with_mechanism_takes_precedence_on_its_listener():
    keys = {KEYS: "a", OF_A + KEYS: "b", f"{OF_A}oauthbearer.{KEYS}": "c"}
    found = [config(dict(list(keys.items())[: count + 1])) for count in range(3)]
    assert [one.of_listener("A", KEYS) for one in found] == ["a", "b", "c"]
    assert found[2].of_listener("CONTROLLER", KEYS) == "a"
    assert not any(KEYS in warning for warning in found[2].warnings)


def test_other_keys_of_mechanism_are_no_default():
    own = "connections.max.reauth.ms"
    found = config({f"{OF_A}oauthbearer.{own}": "70"})
    assert found.of_listener("A", own) == 0


def test_listener_may_have_its_own_mechanisms():
    found = sasl_of(
        {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.a.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        }
    )
    assert list(found.mechanisms) == ["SCRAM-SHA-256"]


HANDLER = "listener.name.a.oauthbearer.sasl.server.callback.handler.class"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"sasl.enabled.mechanisms": "PLAIN,CRAM-MD5"}, "sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms"),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.name.a.scram-sha-256.sasl.jaas.config": USERS,
            },
            "listener.name.a.scram-sha-256.sasl.jaas.config",
        ),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, f"listener.name.a.{KEYS}"),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", KEYS: "http://idp.example.org/", **CHECKED},
            KEYS,
        ),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER", KEYS: "https://h/"}, OF_A + AUDIENCE),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", KEYS: "https://h/", UNSECURED: "true"},
            KEYS,
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                OF_A + KEYS: "https://h/",
                f"{OF_A}oauthbearer.{KEYS}": "http://idp.example.org/",
                **CHECKED,
            },
            f"{OF_A}oauthbearer.{KEYS}",
        ),
        ({HANDLER: "com.example.Mine"}, "oauthbearer.sasl.server.callback.handler.class"),
    ],
)
def test_invalid_sasl_settings_prevent_start(changes, key):
    with pytest.raises(ConfigError) as raised:
        sasl_of({"sasl.enabled.mechanisms": "PLAIN", **changes})
    assert raised.value.key == key
    assert raised.value.fix
    assert "mine" not in str(raised.value)


@pytest.mark.parametrize("changes", [{}, {"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}])
def test_kerberos_without_login_module_prevents_start(changes):
    """The Kerberos mechanism is also the default, as in Kafka."""
    with pytest.raises(ConfigError, match=r"GSSAPI, the default mechanism, needs it") as raised:
        sasl_of(changes)
    assert raised.value.key == "listener.name.a.gssapi.sasl.jaas.config"
    assert KERBEROS_MODULE in raised.value.fix


SERVICE = "sasl.kerberos.service.name"
BY_KEYTAB = 'useKeyTab=true storeKey=true keyTab="/none.keytab" principal="kafka/h@R"'


def kerberos(options, **changes):
    jaas = {"listener.name.a.gssapi.sasl.jaas.config": f"{KERBEROS_MODULE} required {options};"}
    return sasl_of({"sasl.enabled.mechanisms": "GSSAPI", SERVICE: "kafka", **jaas, **changes})


@pytest.mark.parametrize(
    ("options", "changes", "key", "why"),
    [
        ("", {}, "listener.name.a.gssapi.sasl.jaas.config", "principal and a keytab"),
        ("useKeyTab=true", {}, "listener.name.a.gssapi.sasl.jaas.config", "principal and a keytab"),
        ('principal="a"', {}, "listener.name.a.gssapi.sasl.jaas.config", "principal and a keytab"),
        (BY_KEYTAB, {SERVICE: ""}, SERVICE, "is not set"),
        (f"{BY_KEYTAB} serviceName=other", {}, SERVICE, "is not the serviceName"),
    ],
)
def test_incomplete_kerberos_settings_prevent_start(options, changes, key, why):
    with pytest.raises(ConfigError, match=why) as raised:
        kerberos(options, **changes)
    assert raised.value.key == key
    assert raised.value.fix


def without_binding(monkeypatch):
    monkeypatch.setattr("trimaran.node.security.kerberos.find_spec", lambda name: None)


@pytest.mark.parametrize("options", [BY_KEYTAB, BY_KEYTAB.replace("true", "TRUE")])
def test_kerberos_without_its_package_prevents_start(monkeypatch, options):
    without_binding(monkeypatch)
    with pytest.raises(ConfigError, match="GSSAPI needs the package gssapi") as raised:
        kerberos(options)
    assert "pip install 'trimaran[kerberos]'" in raised.value.fix


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo"])
def test_keytab_that_is_no_regular_file_prevents_start(monkeypatch, tmp_path, kind):
    """A client may alter its path, and the library would wait for the writer of a FIFO."""
    monkeypatch.setattr("trimaran.node.security.kerberos.find_spec", lambda name: object())
    path = tmp_path / "keytab"
    {"missing": lambda _: None, "directory": os.mkdir, "fifo": os.mkfifo}[kind](path)
    options = BY_KEYTAB.replace("/none.keytab", str(path))
    with pytest.raises(ConfigError, match=f"{path} cannot be read: ") as raised:
        kerberos(options)
    assert raised.value.key == "listener.name.a.gssapi.sasl.jaas.config"
    jaas = {"sasl_jaas_config": f"{KERBEROS_MODULE} required {options};"}
    with pytest.raises(ConfigError, match=f"{path} cannot be read: "):
        client(sasl_mechanism="GSSAPI", sasl_kerberos_service_name="kafka", **jaas)


def test_service_may_be_named_by_the_login_module(monkeypatch):
    without_binding(monkeypatch)
    with pytest.raises(ConfigError, match="needs the package"):
        kerberos(f"{BY_KEYTAB} serviceName=kafka", **{SERVICE: ""})


@pytest.mark.parametrize("rule", ["RULE:[1:$2]", "x", "RULE:[1:$1](*)"])
def test_invalid_rule_for_names_prevents_start(rule):
    with pytest.raises(ConfigError) as raised:
        config({"sasl.kerberos.principal.to.local.rules": f"DEFAULT,{rule}"})
    assert raised.value.key == "sasl.kerberos.principal.to.local.rules"


def test_token_handler_of_kafka_is_recognized():
    package = "org.apache.kafka.common.security.oauthbearer"
    names = {HANDLER: f"{package}.OAuthBearerValidatorCallbackHandler"}
    found = sasl_of({"sasl.enabled.mechanisms": "OAUTHBEARER", UNSECURED: "true", **names})
    assert list(found.mechanisms) == ["OAUTHBEARER"]


def test_brokers_log_in_to_each_other():
    found = inter_broker_security(
        config(
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.a.scram-sha-512.sasl.jaas.config": OWN,
            }
        )
    )
    assert found.sasl == ScramCredentials("SCRAM-SHA-512", "me", "mine")


def client(**changes):
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    given = {key: Given(value, "client.properties:1") for key, value in settings.items()}
    return client_security(given).sasl


def test_clients_log_in_by_token_on_request():
    jaas = OWN.replace(";", ' tokenauth="true";')
    found = client(sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas)
    assert found == ScramCredentials("SCRAM-SHA-256", "me", "mine", by_token=True)


def test_clients_create_unsecured_tokens_for_development():
    jaas = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="alice";'
    found = client(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=jaas)
    sasl = sasl_of({"sasl.enabled.mechanisms": "OAUTHBEARER", UNSECURED: "true"})
    done = sasl.mechanisms["OAUTHBEARER"]().evaluate(next(found.exchange()))
    assert str(done.principal) == "User:alice"


def test_clients_read_tokens_from_a_file(tmp_path):
    (tmp_path / "token").write_text("abc\n")
    url = {"sasl_oauthbearer_token_endpoint_url": f"file://{tmp_path}/token"}
    found = client(sasl_mechanism="OAUTHBEARER", **url)
    assert b"Bearer abc\x01" in next(found.exchange())
    (tmp_path / "token").write_text("def")
    assert b"Bearer def\x01" in next(found.exchange())


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"sasl_mechanism": "X"}, "sasl.mechanism"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl.jaas.config"),
        *(
            (
                {"sasl_mechanism": "GSSAPI", "sasl_jaas_config": f"{KERBEROS_MODULE} required{o};"},
                key,
            )
            for o, key in (
                ("", "sasl.jaas.config"),
                (" useKeyTab=true", "sasl.jaas.config"),
                (" useKeyTab=true principal=a", "sasl.jaas.config"),
                (" useKeyTab=true keyTab=f", "sasl.jaas.config"),
                (" useKeyTab=false keyTab=f principal=a", "sasl.jaas.config"),
                (" useTicketCache=true", "sasl.kerberos.service.name"),
                (" useKeyTab=true keyTab=f principal=a", "sasl.kerberos.service.name"),
            )
        ),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "sasl.jaas.config"),
        (
            {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": USERS},
            "sasl.jaas.config",
        ),
        ({"sasl_mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token.endpoint.url"),
        (
            {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "http://example.org/",
            },
            "sasl.oauthbearer.token.endpoint.url",
        ),
        (
            {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "https://example.org/",
            },
            "sasl.oauthbearer.client.credentials.client.id",
        ),
    ],
)
def test_incomplete_client_settings_are_refused(changes, key):
    with pytest.raises(ConfigError) as raised:
        client(**changes)
    assert raised.value.key == key
    assert "mine" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", KerberosCredentials("kafka", None)),
        (' principal="a@R"', KerberosCredentials("kafka", "a@R")),
        (' ticketCache="/tmp/c"', KerberosCredentials("kafka", None, cache="/tmp/c")),
    ],
)
def test_clients_log_in_by_ticket_cache(monkeypatch, options, expected):
    monkeypatch.setattr("trimaran.node.security.kerberos.find_spec", lambda name: object())
    jaas = f"{KERBEROS_MODULE} required useTicketCache=true{options};"
    service = {"sasl_kerberos_service_name": "kafka"}
    assert client(sasl_mechanism="GSSAPI", sasl_jaas_config=jaas, **service) == expected


CALLBACK = "trimaran.sasl.plain.callback"


def test_package_may_check_passwords(monkeypatch):
    point = EntryPoint("ldap", "operator:eq", "trimaran.sasl.plain")
    monkeypatch.setattr("trimaran.node.security.plain.entry_points", lambda group: [point])
    found = sasl_of({"sasl.enabled.mechanisms": "PLAIN", CALLBACK: "ldap"})
    assert found.blocks
    exchange = found.mechanisms["PLAIN"]()
    assert str(exchange.evaluate(b"\0same\0same").principal) == "User:same"
    assert not sasl_of({"sasl.enabled.mechanisms": "PLAIN"}).blocks


@pytest.mark.parametrize("target", ["operator:nothing", "no_such_module:x", "sys:path", None])
def test_missing_package_prevents_start(monkeypatch, target):
    points = [EntryPoint("ldap", target, "trimaran.sasl.plain")] if target else []
    monkeypatch.setattr("trimaran.node.security.plain.entry_points", lambda group: points)
    with pytest.raises(ConfigError) as raised:
        sasl_of({"sasl.enabled.mechanisms": "PLAIN", CALLBACK: "ldap"})
    assert raised.value.key.endswith(CALLBACK)
