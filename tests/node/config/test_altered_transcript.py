"""Alterations of topics, groups, subscriptions, brokers and loggers, and the exact text of each refusal."""

import logging
from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from tests.node.config.transcript import lines, outcome
from tests.quorum.config_of import config_of
from trimaran.node.config.altered_together import check_together
from trimaran.node.config.client_metrics_keys import check_client_metrics_configs
from trimaran.node.config.dynamic_keys import check_broker_configs, declared_key, dynamic_key
from trimaran.node.config.group_keys import (
    GROUP_CONFIGS,
    KINDS,
    _of_every_kind,
    broker_synonym,
    check_group_configs,
)
from trimaran.node.config.key_warnings import warning_of
from trimaran.node.config.loggers import ROOT, ConfigOperation, alter_loggers, logger_levels
from trimaran.node.config.server_keys import DYNAMIC_ONLY, SERVER_CONFIGS
from trimaran.node.config.synonyms import broker_synonyms
from trimaran.node.config.topic_keys import (
    SERVER_SYNONYMS,
    TOPIC_CONFIGS,
    check_topic_configs,
    topic_value,
)
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource

FILES = sorted((Path(__file__).parent / "testdata" / "altered").glob("*.txt"))


def parts(step):
    """Returns the altered values and, after `now`, the effective values."""
    set_now, present = {}, {}
    found = set_now
    for line in lines(step):
        if line == "now":
            found = present
        else:
            key, _, value = line.partition("=")
            found[key] = value
    return set_now, present


def in_force(present):
    values = {name: SERVER_CONFIGS[name].parse(text) for name, text in present.items()}
    return values, lambda name: values.get(name, SERVER_CONFIGS[name].default)


def handle(step):
    changes, present = parts(step)
    values, now = in_force(present)
    # A line without a value deletes the key.
    altered_values = {key: value or None for key, value in changes.items()}

    def after(name):
        text = altered_values.get(name)
        return now(name) if text is None else SERVER_CONFIGS[name].parse(text)

    act = {
        "topic": lambda: check_topic_configs(changes),
        "group": lambda: check_group_configs(changes, values),
        "subscription": lambda: check_client_metrics_configs(changes),
        "together": lambda: check_together(altered_values, now, after),
        "broker": lambda: check_broker_configs(changes, of_one_broker=True),
        "brokers": lambda: check_broker_configs(changes, of_one_broker=False),
    }
    return outcome(act[step.command])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_alterations_match_each_transcript(path):
    check_transcript(path, handle)


def test_every_broker_key_has_its_synonyms():
    assert dynamic_key("num.io.threads") is SERVER_CONFIGS["num.io.threads"]
    assert dynamic_key("node.id") is dynamic_key("no.such") is None
    for name, key in DYNAMIC_ONLY.items():
        assert dynamic_key(name) is declared_key(name) is key
    bounded = ["max.connections", "max.connection.creation.rate", "num.network.threads"]
    for name in [*bounded, *(f"listener.name.a.{name}" for name in bounded)]:
        assert dynamic_key(name).check(0) == "Value must be at least 1"
        assert dynamic_key(name).check(1) is None
    assert dynamic_key("listener.name.a.ssl.key.password").name == "ssl.key.password"
    assert dynamic_key("listener.name.a.num.partitions") is None
    assert declared_key("listener.name.a.num.partitions") is SERVER_CONFIGS["num.partitions"]
    assert declared_key("no.such") is declared_key("super.users") is None
    hours = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert {broker_synonyms(name) for name in hours} == {hours}
    assert broker_synonyms("log.roll.hours") == ("log.roll.ms", "log.roll.hours")
    assert broker_synonyms("num.partitions") == ("num.partitions",)
    own = "listener.name.a.ssl.key.password"
    assert broker_synonyms(own) == (own, "ssl.key.password")
    assert broker_synonyms(own, of_listeners=False) == (own,)


@pytest.mark.parametrize("topic_key", sorted(SERVER_SYNONYMS))
def test_topic_value_precedes_first_set_synonym(topic_key):
    key = TOPIC_CONFIGS[topic_key]
    set_later: dict[str, str] = {}
    for name, factor in reversed(SERVER_SYNONYMS[topic_key]):
        text = SPECIAL.get(topic_key, "true" if key.kind == "boolean" else "7")
        set_later[name] = text
        server = config_of(**set_later)
        value = key.parse(text)
        found = topic_value(server, {}, topic_key)
        assert found == (value * factor if factor != 1 else value)
        assert type(found) is type(value)
        assert topic_value(server, {topic_key: "no value at all"}, topic_key) == topic_value(
            server, {}, topic_key
        )
    own = SPECIAL.get(topic_key, "true" if key.kind == "boolean" else "8")
    assert topic_value(config_of(), {topic_key: own}, topic_key) == key.parse(own)
    assert topic_value(config_of(), {}, topic_key) == key.default


SPECIAL = {
    "cleanup.policy": "compact",
    "compression.type": "lz4",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "segment.bytes": "1048577",
}


@pytest.mark.parametrize("kind", KINDS)
def test_group_kinds_share_key_names(kind):
    rows = [(key.name, key.kind, key.default) for key in _of_every_kind(kind)]
    assert rows == [
        (f"{kind}.session.timeout.ms", "int", 45_000),
        (f"{kind}.heartbeat.interval.ms", "int", 5_000),
        (f"{kind}.assignment.interval.ms", "int", 1_000),
        (f"{kind}.assignor.offload.enable", "boolean", True),
    ]
    bounds = [[key.check(value) for value in (-1, 0, 1)] for key in _of_every_kind(kind)[:3]]
    least = {0: "Value must be at least 0", 1: "Value must be at least 1"}
    assert bounds == [[least[1], least[1], None]] * 2 + [[least[0], None, None]]
    assert all(key.name in GROUP_CONFIGS for key in _of_every_kind(kind))
    assert broker_synonym(f"{kind}.session.timeout.ms") == f"group.{kind}.session.timeout.ms"


def change(name, operation, value=None):
    return AlterableConfig(name=name, config_operation=operation, value=value)


def altered(*changes, node="1", validate_only=False):
    resource = AlterConfigsResource(resource_type=8, resource_name=node, configs=list(changes))
    return outcome(lambda: alter_loggers(resource, 1, validate_only=validate_only))


LEVELS = [
    ("DEBUG", logging.DEBUG, "DEBUG"),
    ("ERROR", logging.ERROR, "ERROR"),
    ("FATAL", logging.CRITICAL, "FATAL"),
    ("INFO", logging.INFO, "INFO"),
    ("TRACE", logging.DEBUG, "DEBUG"),
    ("WARN", logging.WARNING, "WARN"),
]


def test_kafka_log_levels_are_set_and_reset(monkeypatch):
    logger = logging.getLogger("tests.node.config.levels")
    beside = logging.getLogger("tests.node.config.beside")
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    monkeypatch.setattr(logging.root, "level", logging.WARNING)
    for word, number, told in LEVELS:
        assert altered(change(logger.name, ConfigOperation.SET, word)) == "ok"
        assert logger.level == number
        assert logger_levels()[logger.name] == told
        assert logger_levels()[beside.name] == "WARN"
        assert altered(change(logger.name, ConfigOperation.DELETE)) == "ok"
        assert logger.level == logging.NOTSET
        assert altered(change(ROOT, ConfigOperation.SET, word)) == "ok"
        assert logging.root.level == number
        assert logger_levels()[ROOT] == logger_levels()[logger.name] == told
        logging.root.setLevel(logging.WARNING)
    logger.setLevel(15)
    assert logger_levels()[logger.name] == "Level 15"
    names = list(logger_levels())
    assert names == [ROOT, *sorted(names[1:])]


def test_levels_change_atomically_on_own_node(monkeypatch):
    logger = logging.getLogger("tests.node.config.levels")
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    good = change(logger.name, ConfigOperation.SET, "ERROR")
    assert altered(good, validate_only=True) == "ok"
    assert "does not exist" in altered(good, change("no.such", ConfigOperation.SET, "INFO"))
    assert altered(good, node="x") == ("INVALID_REQUEST: Node id must be an integer, but it is: x")
    assert altered(good, node="2") == (
        "INVALID_REQUEST: Unexpected node id. Expected 1, but received 2"
    )
    assert logger.level == logging.NOTSET


def test_unsupported_logger_operations_are_refused():
    told = "INVALID_REQUEST: {} is not allowed for the BROKER_LOGGER resource"
    for operation, word in (
        (ConfigOperation.APPEND, "APPEND operation"),
        (ConfigOperation.SUBTRACT, "SUBTRACT operation"),
        (9, "Unknown operation type 9"),
    ):
        assert altered(change(ROOT, operation, "INFO")) == told.format(word)


def test_listener_specific_key_causes_no_warning():
    assert warning_of("listener.name.a.ssl.client.auth") is None
    assert warning_of("listener.name.a.plain.sasl.jaas.config") is None
    assert warning_of("config.providers.a.class") is None
    assert warning_of("num.partitions") is None


@pytest.mark.parametrize("of_one_broker", [True, False])
def test_provider_names_may_have_gaps(of_one_broker):
    check_broker_configs({"config.providers": "a,,b"}, of_one_broker=of_one_broker)
    with pytest.raises(KafkaError, match="values must not be empty"):
        check_broker_configs({"metric.reporters": "a,,b"}, of_one_broker=of_one_broker)
