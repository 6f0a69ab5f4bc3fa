"""Every key of every table has an effect, or explains why it has none: reading, warnings, refusals."""

import pytest

from tests.checks import check_each
from tests.node.config.names_read import reads, rereads
from tests.quorum.config_of import CONTROLLER, Given, config_of
from tests.quorum.metadata.build import image_of
from trimaran.node.config.client_metrics_keys import CLIENT_METRICS_CONFIGS
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server import parse
from trimaran.node.config.server_keys import DYNAMIC_ONLY, SERVER_CONFIGS
from trimaran.node.config.topic_keys import SERVER_SYNONYMS, TOPIC_CONFIGS
from trimaran.quorum.serving.config_entries import ConfigDescription

TABLES = [SERVER_CONFIGS, DYNAMIC_ONLY, TOPIC_CONFIGS, GROUP_CONFIGS, CLIENT_METRICS_CONFIGS]
KEYS = [key for table in TABLES for key in table.values()]
OF_TOPICS = {name for synonyms in SERVER_SYNONYMS.values() for name, _ in synonyms}
# These are also names of a `--command-config` key, which is in another table, and of a command and its column.
NAMES_OF_MORE = {"sasl.jaas.config", "metrics"}
# The number of broker configs that Apache Kafka 4.4 describes, without the three that can only be set at run time.
KEYS_OF_KAFKA = 350


def acts(key):
    return not key.no_effect and not key.only_default


def names(keys):
    return [key.name for key in keys]


def test_effective_keys_are_read():
    effective = {key.name for key in KEYS if acts(key)}
    assert len(effective) > 200
    assert {name for name in effective - OF_TOPICS if not reads()(name)} == set()


def test_topic_keys_behind_broker_defaults_are_read():
    acting = [name for name in SERVER_SYNONYMS if acts(TOPIC_CONFIGS[name])]
    assert [name for name in acting if not reads()(name)] == []


def test_ineffective_keys_are_unread_and_explained():
    def check(key):
        assert not reads()(key.name) or key.name in NAMES_OF_MORE
        assert not key.no_effect.endswith(".")
        assert key.documentation.endswith(f"It has no effect here: {key.no_effect}.")

    check_each([key for key in KEYS if key.no_effect], check)


def altered_while_running():
    return [
        key
        for key in SERVER_CONFIGS.values()
        if key.scope != "read-only" and acts(key) and not key.no_effect_while_running
    ]


def test_alterable_keys_are_read_again_after_change():
    altered = set(names(altered_while_running())) - OF_TOPICS
    assert {name for name in altered if not rereads()(name)} == set()


def test_exactly_one_warning_for_each_key_without_effect():
    keys = [key for key in SERVER_CONFIGS.values() if key.no_effect]
    texts = {key.name: "" if key.default is None else key.text_of(key.default) for key in keys}
    texts = {name: text or _example(SERVER_CONFIGS[name].kind) for name, text in texts.items()}
    base = {name: Given(text, "f") for name, text in (CONTROLLER | texts).items()}
    warnings = parse(base).warnings
    assert sorted(warnings) == sorted(texts)
    for key in keys:
        expected = f"f: {key.name} has no effect here: {key.no_effect}"
        assert warnings[key.name] == expected


def _example(kind):
    return {"int": "1", "long": "1", "boolean": "true"}.get(kind, "x")


@pytest.mark.parametrize("prefix", ["", "listener.name.controller.", "listener.name.a.plain."])
def test_unenforced_access_rule_prevents_start(prefix):
    keys = [key for key in SERVER_CONFIGS.values() if key.only_default]
    assert len(keys) >= 5
    for key in keys:
        text = {"long": "3600000", "boolean": "true"}.get(key.kind, "com.example.Rules")
        with pytest.raises(ConfigError, match=r"here|yet") as caught:
            config_of(**{prefix + key.name: text})
        assert caught.value.key == prefix + key.name
        assert key.only_default in str(caught.value)
        if key.default is not None:
            config_of(**{prefix + key.name: key.text_of(key.default)})


def test_node_wide_key_of_listener_is_warned_of():
    (warning,) = config_of(**{"listener.name.a.max.connections.per.ip": 5}).warnings.values()
    assert "listener.name.a.max.connections.per.ip has no effect here" in warning
    assert config_of(**{"listener.name.a.ssl.client.auth": "none"}).warnings == {}


def test_broker_describes_all_keys_of_kafka():
    described = ConfigDescription(
        config_of(), image_of().configs, synonyms=True, documentation=True
    ).broker(None)
    found = {entry.name: entry for entry in described}
    ours = {name for name in found if name.startswith("trimaran.")}
    assert len(found.keys() - ours) == KEYS_OF_KAFKA
    assert not found.keys() & (INTERNAL | NOT_KAFKAS)
    threads = found["num.io.threads"]
    assert (threads.value, threads.read_only) == ("8", False)
    assert "no effect here" in threads.documentation
    assert found["log.cleaner.threads"].read_only is False
    assert found["ssl.principal.mapping.rules"].value == "DEFAULT"


# Keys with an effect here; in Kafka they are defined by `defineInternal`, and DescribeConfigs omits them.
INTERNAL = {
    "producer.id.expiration.check.interval.ms",
    "server.max.startup.time.ms",
    "unclean.leader.election.interval.ms",
}
# Keys of the authorizer's own table, or from the time of ZooKeeper: described if a file sets them.
NOT_KAFKAS = {
    "allow.everyone.if.no.acl.found",
    "leader.imbalance.per.broker.percentage",
    "super.users",
}
