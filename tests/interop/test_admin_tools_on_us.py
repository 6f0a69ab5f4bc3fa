"""Apache Kafka 4.4's own tools administer a cluster of ours with an authorizer; their output is the same as with Apache
Kafka.
"""

import json

import pytest

from tests.interop import apache_kafka
from tests.interop.conftest import Ours, trimaran

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "delegation.token.secret.key=secret",
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    data = tmp_path_factory.mktemp("secured")
    overrides = [word for setting in SETTINGS for word in ("--override", setting)]
    size = ("--controllers", "1", "--brokers", "1")
    state = json.loads(trimaran("up", "-d", "-o", "json", *size, *overrides, data=data).stdout)
    yield Ours(data, state)
    trimaran("down", data=data)


def said(name, *arguments, check=True):
    done = apache_kafka.tool(name, *arguments, check=check)
    return done.stdout + done.stderr


def configs(secured, *arguments, check=True):
    return said("configs", "--bootstrap-server", secured.bootstrap, *arguments, check=check)


def test_acls(secured):
    server = ("--bootstrap-server", secured.bootstrap)
    topic = ("--topic", "orders", "--resource-pattern-type", "prefixed")
    alice = ("--allow-principal", "User:alice", "--operation", "AlterConfigs")
    said("acls", *server, "--add", *alice, *topic)
    listed = said("acls", "--bootstrap-controller", secured.controllers, "--list")
    assert "resourceType=TOPIC, name=orders, patternType=PREFIXED" in listed
    assert "(principal=User:alice, host=*, operation=ALTER_CONFIGS, permissionType=ALLOW)" in listed
    reads = ("--deny-principal", "User:bob", "--operation", "Read")
    said("acls", *server, "--add", *reads, *topic)
    listed = said("acls", *server, "--list")
    assert "(principal=User:bob, host=*, operation=READ, permissionType=DENY)" in listed
    said("acls", *server, "--remove", "--force", *topic)
    assert "orders" not in said("acls", *server, "--list")


def test_users_have_credentials_and_quotas(secured):
    alice = ("--entity-type", "users", "--entity-name", "alice")
    configs(secured, "--alter", *alice, "--add-config", "SCRAM-SHA-256=[password=secret]")
    configs(secured, "--alter", *alice, "--add-config", "producer_byte_rate=1024")
    text = configs(secured, "--describe", *alice)
    assert "SCRAM-SHA-256=iterations=4096" in text
    assert "producer_byte_rate=1024.0" in text
    refused = configs(
        secured,
        "--alter",
        "--entity-type",
        "users",
        "--entity-name",
        "nobody",
        "--delete-config",
        "SCRAM-SHA-256",
        check=False,
    )
    assert "Attempt to delete a user credential that does not exist" in refused


@pytest.mark.parametrize(
    ("kind", "name", "given", "told"),
    [
        ("ips", "127.0.0.9", "connection_creation_rate=5", "connection_creation_rate=5.0"),
        ("client-metrics", "sub", "interval.ms=60000", "interval.ms=60000"),
        ("groups", "g", "consumer.session.timeout.ms=50000", "consumer.session.timeout.ms=50000"),
        (
            "broker-loggers",
            "11",
            "trimaran.broker.process.lifecycle=DEBUG",
            "trimaran.broker.process.lifecycle=DEBUG",
        ),
    ],
)
def test_configs_of_every_kind_are_changed(secured, kind, name, given, told):
    entity = ("--entity-type", kind, "--entity-name", name)
    configs(secured, "--alter", *entity, "--add-config", given)
    assert told in configs(secured, "--describe", *entity)


def test_broker_configs_are_changed(secured):
    default = ("--entity-type", "brokers", "--entity-default")
    configs(secured, "--alter", *default, "--add-config", "log.retention.ms=7200000")
    text = configs(secured, "--describe", *default)
    assert (
        "log.retention.ms=7200000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG" in text
    )
    refused = configs(secured, "--alter", *default, "--add-config", "node.id=5", check=False)
    assert "Cannot update these configs dynamically" in refused


def test_client_metrics(secured):
    server = ("--bootstrap-server", secured.bootstrap)
    said("client-metrics", *server, "--alter", "--name", "m", "--metrics", "org.apache.kafka.")
    assert "m" in said("client-metrics", *server, "--list").split()
    assert "metrics=org.apache.kafka." in said(
        "client-metrics", *server, "--describe", "--name", "m"
    )


def test_features(secured):
    server = ("--bootstrap-server", secured.bootstrap)
    described = said("features", *server, "describe")
    assert "metadata.version" in described
    assert "FinalizedVersionLevel: 4.4-IV2" in described
    down = ("downgrade", "--feature", "metadata.version=29")
    assert "Unsupported metadata.version downgrade from 33 to 29" in said(
        "features", *server, *down, check=False
    )
    assert "metadata.version was upgraded to 33." in said(
        "features", *server, "upgrade", "--feature", "metadata.version=33"
    )
    disabled = said("features", *server, "disable", "--feature", "foo", check=False)
    assert "Could not disable foo." in disabled


def test_plaintext_clients_get_no_tokens(secured, tmp_path):
    (tmp_path / "client.properties").touch()
    server = ("--bootstrap-server", secured.bootstrap)
    refused = said(
        "delegation-tokens",
        *server,
        "--describe",
        "--command-config",
        str(tmp_path / "client.properties"),
        check=False,
    )
    assert "Delegation Token requests are not allowed" in refused
