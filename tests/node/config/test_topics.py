"""Topic configs: the table, the server keys of its defaults, descriptions."""

import pytest

from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import config, image_of
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.config_source import ConfigSource
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.config.topic_keys import (
    SERVER_SYNONYMS,
    TOPIC_CONFIGS,
    check_topic_configs,
    topic_default,
    topic_value,
)
from trimaran.quorum.serving.config_entries import ConfigDescription


def test_topic_defaults_match_bounds_and_server():
    server = config_of()
    for key in TOPIC_CONFIGS.values():
        assert key.parse(key.text_of(key.default)) == key.default, key.name
        assert topic_default(server, key.name) == key.default, key.name


def test_synonyms_are_declared_broker_keys():
    for topic_key, synonyms in SERVER_SYNONYMS.items():
        assert topic_key in TOPIC_CONFIGS
        assert all(name in SERVER_CONFIGS for name, _ in synonyms)


def test_finer_unit_determines_topic_default():
    assert topic_default(config_of(log_retention_hours="2"), "retention.ms") == 7_200_000
    assert (
        topic_default(config_of(log_retention_hours="2", log_retention_ms="5"), "retention.ms") == 5
    )
    assert topic_value(config_of(log_retention_ms="5"), {"retention.ms": "6"}, "retention.ms") == 6


def test_stored_compact_with_gap_stays_compacted():
    """An earlier controller stored lists with empty elements. With the default policy the records would be deleted
    after a week.
    """
    assert topic_value(config_of(), {"cleanup.policy": "compact,"}, "cleanup.policy") == ["compact"]


def test_invalid_stored_value_does_not_stop_partition():
    assert topic_value(config_of(), {"retention.ms": "x"}, "retention.ms") == 604_800_000


@pytest.mark.parametrize(
    "configs",
    [
        {"no.such": "1"},
        {"retention.ms": "-2"},
        {"segment.bytes": "1"},
        {"min.insync.replicas": "0"},
        {"cleanup.policy": "compact,shred"},
        {"message.timestamp.type": "Tomorrow"},
        {"min.cleanable.dirty.ratio": "1.5"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
    ],
)
def test_invalid_topic_configs_are_refused(configs):
    with pytest.raises(ConfigError):
        check_topic_configs(configs)


def test_valid_topic_configs_are_accepted():
    check_topic_configs(
        {"cleanup.policy": "compact,delete", "retention.ms": "-1", "min.compaction.lag.ms": "5"}
    )


def described(*records, name="retention.ms", **keys):
    description = ConfigDescription(
        config_of(**keys), image_of(*records).configs, synonyms=True, documentation=True
    )
    (found,) = description.topic("t", [name])
    return found


def test_source_of_each_value_is_described():
    at_topic = config("retention.ms", "1")
    at_node = config("log.retention.ms", "2", (4, "1"))
    at_cluster = config("log.retention.ms", "3", (4, ""))
    found = described(at_topic, at_node, at_cluster, log_retention_minutes="4")
    assert (found.value, found.config_source) == ("1", ConfigSource.TOPIC)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in found.synonyms] == [
        ("retention.ms", "1", ConfigSource.TOPIC),
        ("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.minutes", "4", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    assert described(at_cluster).config_source == ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert described().config_source == ConfigSource.DEFAULT
    assert described().documentation


def test_default_from_synonym_has_no_synonyms():
    """Kafka also omits synonyms before the name itself, although the value is the synonym's."""
    found = described(log_retention_minutes="4")
    assert (found.value, found.config_source, found.synonyms) == (
        "240000",
        ConfigSource.DEFAULT,
        [],
    )


def test_altered_config_replaces_file_synonyms():
    at_node = config("log.retention.ms", "2", (4, "1"))
    description = ConfigDescription(
        config_of(log_retention_minutes="4"),
        image_of(at_node).configs,
        synonyms=True,
        documentation=False,
    )
    minutes, milliseconds = sorted(
        description.broker(["log.retention.ms", "log.retention.minutes"]), key=lambda one: one.name
    )
    assert (minutes.value, minutes.config_source) == (None, ConfigSource.STATIC_BROKER)
    assert (milliseconds.value, milliseconds.config_source) == ("2", ConfigSource.DYNAMIC_BROKER)


def test_group_config_names_its_broker_synonym():
    description = ConfigDescription(
        config_of(group_consumer_session_timeout_ms="46000"),
        image_of().configs,
        synonyms=True,
        documentation=False,
    )
    (found,) = description.group("g", ["consumer.session.timeout.ms"])
    assert (found.value, found.config_source) == ("46000", ConfigSource.STATIC_BROKER)
    assert [(synonym.name, synonym.value) for synonym in found.synonyms] == [
        ("group.consumer.session.timeout.ms", "46000"),
        ("group.consumer.session.timeout.ms", "45000"),
    ]


def test_node_describes_its_own_configs():
    description = ConfigDescription(
        config_of(num_partitions="5"), image_of().configs, synonyms=False, documentation=False
    )
    found = {entry.name: entry for entry in description.broker(None)}
    assert (found["num.partitions"].value, found["num.partitions"].config_source) == (
        "5",
        ConfigSource.STATIC_BROKER,
    )
    assert found["node.id"].read_only
    for name in ("node.id", "broker.id"):
        assert (found[name].value, found[name].config_source) == ("1", ConfigSource.STATIC_BROKER)
    assert found["num.partitions"].synonyms == []


@pytest.mark.parametrize("name", ["super.users", "allow.everyone.if.no.acl.found", "my.plugin"])
def test_plug_in_configs_are_listed_but_hidden(name):
    set_by_file = ConfigDescription(
        config_of(**{name: "true"}), image_of().configs, synonyms=True, documentation=True
    ).broker([name])
    (found,) = set_by_file
    assert (found.value, found.is_sensitive, found.read_only) == (None, True, True)
    assert (found.config_source, found.config_type) == (ConfigSource.STATIC_BROKER, 0)
    assert [(synonym.name, synonym.value) for synonym in found.synonyms] == [(name, None)]
    unset = ConfigDescription(config_of(), image_of().configs, synonyms=True, documentation=True)
    assert unset.broker([name]) == []


def test_mirror_keys_are_described_if_set():
    description = ConfigDescription(
        config_of(zookeeper_connect="zk:2181"),
        image_of().configs,
        synonyms=True,
        documentation=True,
    )
    found = {
        entry.name: entry.value
        for entry in description.broker(None)
        if entry.name.startswith("zookeeper.")
    }
    assert found == {"zookeeper.connect": "zk:2181"}
