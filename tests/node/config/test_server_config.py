import pytest

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import parse
from trimaran.settings.properties import PropertySetting

BASE = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093,2@localhost:9094",
    "listeners": "CONTROLLER://localhost:9093",
}


def config(**changes):
    keys = BASE | {key.replace("_", "."): value for key, value in changes.items()}
    return parse(
        {
            key: PropertySetting(value, f"node.properties:{i}")
            for i, (key, value) in enumerate(keys.items(), 1)
            if value is not None
        }
    )


def test_controller_needs_no_security_protocol_map():
    assert config().controller_listeners[0].security_protocol == 0


def test_values_have_declared_types_and_kafkas_defaults():
    found = config(num_partitions="7")
    assert found["num.partitions"] == 7
    assert found["broker.session.timeout.ms"] == 9000
    assert found["log.retention.ms"] is None
    assert found["auto.create.topics.enable"] is True


def test_unknown_key_is_kept_with_hint():
    found = config(num_partitons="7")
    assert "did you mean num.partitions?" in found.warnings["num.partitons"]


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"node_id": "one"}, "node.id", "Not a number of type INT"),
        ({"node_id": "-2"}, "node.id", "at least 0"),
        ({"process_roles": "zookeeper"}, "process.roles", "broker, controller"),
        ({"process_roles": None}, "process.roles", "not set"),
        ({"node_id": None}, "node.id", "not set"),
        ({"controller_quorum_voters": None}, "controller.quorum.voters", "not set"),
        ({"controller_quorum_voters": "1-localhost"}, "controller.quorum.voters", "id@host:port"),
        ({"node_id": "3"}, "controller.quorum.voters", "not among the voters"),
        ({"listeners": "PLAINTEXT://localhost:9092"}, "listeners", "must listen"),
        ({"listeners": "localhost:9092"}, "listeners", "NAME://host:port"),
        ({"auto_create_topics_enable": "yes"}, "auto.create.topics.enable", "true or false"),
        ({"num_partitions": "9999999999"}, "num.partitions", "Not a number of type INT"),
        ({"trimaran_log_fsync": "sometimes"}, "trimaran.log.fsync", "one of: commit, none"),
    ],
)
def test_invalid_setting_is_named(changes, key, why):
    with pytest.raises(ConfigError) as caught:
        config(**changes)
    assert caught.value.key == key
    assert why in caught.value.why


def test_invalid_value_is_reported_with_its_line():
    with pytest.raises(ConfigError) as caught:
        config(node_id="one")
    assert caught.value.origin == "node.properties:2"


def test_unreachable_advertised_address_is_refused():
    with pytest.raises(ConfigError, match="clients cannot connect"):
        config(process_roles="broker", node_id="11", listeners="PLAINTEXT://0.0.0.0:9092")
