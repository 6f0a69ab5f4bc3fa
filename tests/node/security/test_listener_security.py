"""The security settings of listeners and clients, from Kafka's keys."""

import ssl

import pytest

from tests.certificates import Certificates
from tests.quorum.config_of import Given, config_of
from trimaran.node.config.config_def import ConfigError
from trimaran.node.security.listener_security import (
    client_security,
    controller_security,
    inter_broker_security,
    listener_security,
)
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import Done
from trimaran.wire.security.sasl.plain import PlainCredentials

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="me" password="mine" user_me="mine" user_x="y";'
)
PROTOCOLS = "CONTROLLER:SSL,A:SSL,B:SASL_SSL,C:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"


@pytest.fixture(scope="module")
def certificates():
    return Certificates()


@pytest.fixture
def config(certificates, tmp_path):
    """Returns a function that makes a node configuration with TLS and optional further keys."""
    (tmp_path / "node.pem").write_text("".join(certificates.server))
    (tmp_path / "ca.pem").write_text(certificates.ca)

    def make(more=None, **changes):
        stores = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": tmp_path / "node.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": tmp_path / "ca.pem",
            "listener.security.protocol.map": PROTOCOLS,
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
        }
        return config_of(**{**stores, **changes, **(more or {})})

    return make


def test_plaintext_listener_needs_no_settings(config):
    found = listener_security(config(), "PLAINTEXT")
    assert found.tls is None
    assert found.sasl is None


def test_ssl_prefers_keys_of_the_listener(config):
    found = listener_security(config({"ssl.client.auth": "required"}), "A")
    assert found.tls.verify_mode == ssl.CERT_REQUIRED
    own = config({"ssl.client.auth": "required", "listener.name.a.ssl.client.auth": "none"})
    assert listener_security(own, "A").tls.verify_mode == ssl.CERT_NONE


def test_sasl_requests_certificates_only_per_listener(config):
    jaas = {"listener.name.b.plain.sasl.jaas.config": JAAS}
    found = listener_security(config({**jaas, "ssl.client.auth": "required"}), "B")
    assert found.tls.verify_mode == ssl.CERT_NONE
    own = config({**jaas, "listener.name.b.ssl.client.auth": "required"})
    assert listener_security(own, "B").tls.verify_mode == ssl.CERT_REQUIRED


def test_pem_may_be_inline_in_file(config, certificates):
    key, chain = certificates.server
    found = config(
        {
            "listener.name.a.ssl.keystore.key": key,
            "listener.name.a.ssl.keystore.certificate.chain": chain,
            "ssl.keystore.location": "/none",
        }
    )
    assert listener_security(found, "A").tls is not None


def test_plain_users_are_those_of_the_listener(config):
    found = listener_security(config({"listener.name.c.plain.sasl.jaas.config": JAAS}), "C")
    exchange = found.sasl.mechanisms["PLAIN"]()
    assert exchange.evaluate(b"\0x\0y") == Done(Principal("x"), b"")
    assert found.sasl.token_bytes_max == 524_288
    assert found.sasl.failure_delay_seconds == 0.1


def test_nodes_connect_as_their_listeners_require(config):
    assert controller_security(config()).tls is not None
    assert inter_broker_security(config()).tls is None
    by_sasl = config(
        {
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listener.name.controller.plain.sasl.jaas.config": JAAS,
        }
    )
    assert controller_security(by_sasl).sasl == PlainCredentials("me", "mine")


@pytest.mark.parametrize(
    ("listener", "changes", "key"),
    [
        ("A", {"ssl.keystore.location": "/none"}, "ssl.keystore.location"),
        ("A", {"ssl.keystore.type": "JKS"}, "ssl.keystore.type"),
        ("A", {"listener.name.a.ssl.keystore.type": "JKS"}, "listener.name.a.ssl.keystore.type"),
        ("B", {}, "listener.name.b.plain.sasl.jaas.config"),
        (
            "C",
            {"listener.name.c.plain.sasl.jaas.config": "Other required;"},
            "listener.name.c.plain.sasl.jaas.config",
        ),
        ("C", {"sasl.enabled.mechanisms": "X"}, "sasl.enabled.mechanisms"),
        ("D", {}, "listener.security.protocol.map"),
    ],
)
def test_invalid_security_key_is_named(config, listener, changes, key):
    with pytest.raises(ConfigError) as raised:
        listener_security(config(changes), listener)
    assert raised.value.key == key
    assert raised.value.fix


@pytest.mark.parametrize(
    "changes",
    [
        {"ssl.enabled.protocols": "TLSv1.1"},
        {"ssl.client.auth": "maybe"},
        {"listener.name.a.ssl.client.auth": "maybe"},
        {"ssl.truststore.type": "BCFKS"},
    ],
)
def test_invalid_security_values_are_refused(config, changes):
    with pytest.raises(ConfigError):
        config(changes)


def test_secrets_are_not_shown(config):
    with pytest.raises(ConfigError) as raised:
        listener_security(
            config(
                {
                    "listener.name.a.ssl.keystore.key": "-----BEGIN PRIVATE KEY----- hush",
                    "listener.name.a.ssl.keystore.certificate.chain": "x",
                    "ssl.keystore.location": "",
                }
            ),
            "A",
        )
    assert "hush" not in str(raised.value)


def of_client(**values):
    return client_security({k.replace("_", "."): Given(v, "client") for k, v in values.items()})


def test_command_uses_protocol_of_its_file(certificates):
    assert of_client().tls is None
    found = of_client(
        security_protocol="SASL_SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=certificates.ca,
        sasl_mechanism="PLAIN",
        sasl_jaas_config=JAAS,
        bootstrap_servers="left alone",
    )
    assert found.tls.check_hostname
    assert found.sasl == PlainCredentials("me", "mine")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"security_protocol": "TLS"}, "security.protocol"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "sasl.jaas.config"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "X"}, "sasl.mechanism"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}, "sasl.jaas.config"),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/x.jks"},
            "ssl.truststore.location",
        ),
    ],
)
def test_invalid_client_files_are_named(values, key):
    with pytest.raises(ConfigError) as raised:
        of_client(**values)
    assert raised.value.key == key
    assert raised.value.fix
