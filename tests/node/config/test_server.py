"""Parsing of a node's configuration: values, defaults, contradictions, origins of settings."""

from pathlib import Path

import pytest

from tests.quorum.config_of import CONTROLLER, Given, config_of
from trimaran.node.config.config_def import ConfigError, ConfigTypeId
from trimaran.node.config.server import parse
from trimaran.node.config.server_keys import DEV_MODE, SERVER_CONFIGS
from trimaran.wire.text.endpoint import Endpoint

BROKER = {
    "process.roles": "broker",
    "node.id": "11",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094",
}


def parsed(base, **changes):
    values = base | {key.replace("_", "."): value for key, value in changes.items()}
    return parse(
        {
            k: Given(v, f"f.properties:{n}")
            for n, (k, v) in enumerate(values.items(), 1)
            if v is not None
        }
    )


def wrong(base, **changes):
    with pytest.raises(ConfigError) as caught:
        parsed(base, **changes)
    return caught.value


@pytest.mark.parametrize(
    ("value", "wanted"), [("x", "a whole number"), ("-3", "a value that is allowed")]
)
def test_wrong_value_without_default_is_reported(value, wanted):
    assert wrong(BROKER, node_id=value).fix == (
        f"write {wanted}; node.id is: Id of this node, unique in the cluster."
    )


def test_unclean_election_interval_is_as_in_kafka():
    config = parsed(BROKER, unclean_leader_election_interval_ms="1")
    assert config["unclean.leader.election.interval.ms"] == 1


def test_values_are_typed_and_the_rest_are_defaults():
    config = config_of(num_partitions="3", delete_topic_enable="FALSE", log_dirs="/a, /b")
    assert (config["num.partitions"], config["delete.topic.enable"], config["log.dirs"]) == (
        3,
        False,
        ["/a", "/b"],
    )
    assert config["broker.session.timeout.ms"] == 9000
    assert config["advertised.listeners"] is None


def test_every_default_obeys_its_own_bounds():
    for key in SERVER_CONFIGS.values():
        if key.default is not None and not key.required:
            assert key.parse(key.text_of(key.default)) == key.default, key.name


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("num.partitions", "many"),
        ("num.partitions", "0"),
        ("num.partitions", "3.5"),
        ("num.partitions", "99999999999"),
        ("delete.topic.enable", "yes"),
        ("compression.type", "rar"),
        ("process.roles", "king"),
        ("node.id", "-1"),
        ("compression.gzip.level", "0"),
        ("metadata.log.segment.bytes", "1"),
    ],
)
def test_wrong_value_names_key_place_and_fix(key, text):
    error = wrong(CONTROLLER, **{key.replace(".", "_"): text})
    assert (error.key, error.value) == (key, text)
    assert error.origin.startswith("f.properties:")
    assert error.why
    assert error.fix
    for part in (key, text, error.origin):
        assert part in str(error)


def test_unknown_keys_warn_without_failing():
    config = parsed(
        CONTROLLER,
        num_partition="3",
        ssl_protocol="TLS",
        num_io_threads="8",
        zzz="1",
    )
    assert "did you mean num.partitions?" in config.warnings["num.partition"]
    assert "no effect here" in config.warnings["ssl.protocol"]
    assert "no effect here" in config.warnings["num.io.threads"]
    assert "unknown key zzz" in config.warnings["zzz"]
    assert config.warnings["zzz"].startswith("f.properties:")


def test_file_of_apache_kafka_parses():
    config = parsed(
        CONTROLLER,
        process_roles="broker,controller",
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        advertised_listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        inter_broker_listener_name="PLAINTEXT",
        listener_security_protocol_map=(
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        num_network_threads="3",
        log_dirs="/data",
    )
    assert config.advertised_broker_listeners == [Endpoint("PLAINTEXT", "localhost", 9092, 0)]
    assert config.advertised_controller_listeners == [Endpoint("CONTROLLER", "localhost", 9093, 0)]
    assert (config.is_broker, config.is_controller) == (True, True)


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_early_start_listeners_include_the_controllers():
    assert parsed(CONTROLLER, authorizer_class_name=AUTHORIZER)["early.start.listeners"] is None
    parsed(CONTROLLER, authorizer_class_name=AUTHORIZER, early_start_listeners="CONTROLLER")
    parsed(BROKER, authorizer_class_name=AUTHORIZER, early_start_listeners="PLAINTEXT")
    parsed(BROKER, authorizer_class_name=AUTHORIZER, early_start_listeners="CONTROLLER")
    parsed(CONTROLLER, early_start_listeners="")
    error = wrong(CONTROLLER, authorizer_class_name=AUTHORIZER, early_start_listeners="")
    assert error.key == "early.start.listeners"
    assert error.fix == "add CONTROLLER, or leave the key out"


def test_reported_types_of_lists_are_kafkas():
    told = {name: SERVER_CONFIGS[name].type_id for name in SERVER_CONFIGS}
    assert told["listener.security.protocol.map"] is ConfigTypeId.STRING
    assert told["max.connections.per.ip.overrides"] is ConfigTypeId.STRING
    assert told["log.dir"] is ConfigTypeId.LIST
    assert parsed(CONTROLLER, log_dir="/a,/b").log_directories == [Path("/a"), Path("/b")]


def test_controllers_default_to_plaintext():
    config = parsed(CONTROLLER, listener_security_protocol_map=None)
    assert config.controller_listeners == [Endpoint("CONTROLLER", "127.0.0.1", 0, 0)]
    assert "CONTROLLER" in str(
        wrong(CONTROLLER, listener_security_protocol_map="PLAINTEXT:PLAINTEXT")
    )
    assert (
        wrong(CONTROLLER, listener_security_protocol_map="CONTROLLER").key
        == "listener.security.protocol.map"
    )


@pytest.mark.parametrize(
    ("base", "changes", "key"),
    [
        (CONTROLLER, {"process_roles": None}, "process.roles"),
        (CONTROLLER, {"node_id": None}, "node.id"),
        (CONTROLLER, {"controller_listener_names": None}, "controller.listener.names"),
        (CONTROLLER, {"controller_quorum_voters": None}, "controller.quorum.voters"),
        (CONTROLLER, {"controller_quorum_voters": "2@h:1"}, "controller.quorum.voters"),
        (CONTROLLER, {"controller_quorum_voters": "h:1"}, "controller.quorum.voters"),
        (CONTROLLER, {"controller_quorum_voters": "1@h"}, "controller.quorum.voters"),
        (CONTROLLER, {"controller_quorum_voters": "1@h:70000"}, "controller.quorum.voters"),
        (CONTROLLER, {"listeners": "PLAINTEXT://h:1"}, "listeners"),
        (CONTROLLER, {"listeners": "CONTROLLER://h:1,PLAINTEXT://h:2"}, "listeners"),
        (CONTROLLER, {"listeners": "CONTROLLER"}, "listeners"),
        (CONTROLLER, {"broker_id": "7"}, "broker.id"),
        (CONTROLLER, {"early_start_listeners": "OTHER"}, "early.start.listeners"),
        (CONTROLLER, {"log_dir": ""}, "log.dir"),
        (
            CONTROLLER,
            {"listener_security_protocol_map": "CONTROLLER:TLS"},
            "listener.security.protocol.map",
        ),
        (BROKER, {"node_id": "1"}, "node.id"),
        (BROKER, {"listeners": "CONTROLLER://h:1"}, "listeners"),
        (BROKER, {"inter_broker_listener_name": "OTHER"}, "inter.broker.listener.name"),
        (BROKER, {"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners"),
        (BROKER, {"log_dirs": "/a,/b", "cordoned_log_dirs": "/a,/c"}, "cordoned.log.dirs"),
        (BROKER, {"log_dirs": "/a,/b", "cordoned_log_dirs": "*,/a"}, "cordoned.log.dirs"),
    ],
)
def test_contradictory_settings_are_refused(base, changes, key):
    assert wrong(base, **changes).key == key


def test_quorum_is_found_by_voters_or_bootstrap():
    assert parsed(BROKER).quorum_bootstrap == [("127.0.0.1", 9093), ("127.0.0.1", 9094)]
    config = parsed(
        BROKER, controller_quorum_voters=None, controller_quorum_bootstrap_servers="a:1,[::1]:2"
    )
    assert config.quorum_bootstrap == [("a", 1), ("::1", 2)]


def test_metadata_log_defaults_to_first_directory():
    assert str(config_of(log_dirs="/a,/b").metadata_directory) == "/a"
    assert str(config_of(log_dirs="/a,/b", metadata_log_dir="/b").metadata_directory) == "/b"


@pytest.mark.parametrize(
    ("names", "cordoned"),
    [("", []), ("/b", ["/b"]), ("/b/, /a", ["/a", "/b"]), ("*", ["/a", "/b"])],
)
def test_cordoned_directories_are_parsed(names, cordoned):
    config = config_of(log_dirs="/a,/b", cordoned_log_dirs=names)
    assert list(map(str, config.cordoned_directories(config["cordoned.log.dirs"]))) == cordoned


def test_dev_mode_is_one_visible_switch():
    config = config_of(trimaran_dev_mode="true", broker_session_timeout_ms="7000")
    assert (config["broker.session.timeout.ms"], config["controller.quorum.fetch.timeout.ms"]) == (
        7000,
        500,
    )
    assert config.origins["controller.quorum.fetch.timeout.ms"] == "trimaran.dev.mode"
    assert config["trimaran.log.fsync"] == "none"
    assert set(DEV_MODE) <= set(SERVER_CONFIGS)
    assert config_of()["trimaran.log.fsync"] == "commit"
