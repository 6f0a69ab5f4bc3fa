"""The parsed content of complete node configuration files, and the exact text of each refusal."""

from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from tests.node.config.transcript import outcome, settings
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig, parse
from trimaran.node.config.server_keys import LISTENER_CONFIGS, SERVER_CONFIGS

FILES = sorted((Path(__file__).parent / "testdata" / "server").glob("*.txt"))
BASES = {
    "empty": {},
    "controller": {
        "process.roles": "controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://ctrl:9093",
        "controller.quorum.voters": "1@ctrl:9093",
    },
    "broker": {
        "process.roles": "broker",
        "node.id": "11",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://br:9092",
        "controller.quorum.voters": "1@ctrl:9093",
    },
    "both": {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://br:9092,CONTROLLER://ctrl:9093",
        "controller.quorum.voters": "1@ctrl:9093",
    },
}


def shown(config: ServerConfig, set_by_file: set[str]) -> str:
    """Returns all derived values, and the settings beyond the base."""
    roles = [name for name in ("broker", "controller") if getattr(config, f"is_{name}")]
    lines = [
        f"{' and '.join(roles)} {config.node_id}",
        f"quorum {config.quorum_bootstrap} {[voter.id for voter in config.voters]}",
        *_listeners("brokers", config.broker_listeners),
        *_listeners("advertised", config.advertised_broker_listeners),
        *_listeners("controllers", config.controller_listeners),
        *_listeners("advertised", config.advertised_controller_listeners),
        f"between brokers {config.inter_broker_listener_name}",
    ]
    if "log.dir" in config.explicit or "log.dirs" in config.explicit:
        cordoned = config.cordoned_directories(config["cordoned.log.dirs"])
        lines.append(
            f"logs {_paths(config.log_directories)}, metadata {config.metadata_directory}, "
            f"cordoned {_paths(cordoned)}"
        )
    lines += [f"{key}: {warning}" for key, warning in config.warnings.items()]
    given = [key for key, origin in config.origins.items() if not origin.startswith("base")]
    lines += [
        f"{key} = {config.explicit.get(key, '(of listeners)')} ({config.origins[key]})"
        for key in given
    ]
    lines += [f"{key} was {config.texts[key]!r}" for key in sorted(set_by_file - set(given))]
    return "\n".join(lines)


def _listeners(word, endpoints):
    return [
        f"{word} {endpoint.name} {endpoint.host}:{endpoint.port} {endpoint.security_protocol}"
        for endpoint in endpoints
    ]


def _paths(paths):
    return ",".join(map(str, paths)) or "none"


def handle(step):
    given = settings(step, BASES[step.command])
    in_file = {key for key, value in given.items() if value.origin.startswith("f:")}
    return outcome(lambda: shown(parse(given), in_file))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_node_files_match_each_transcript(path):
    check_transcript(path, handle)


def config(**more):
    base = BASES["both"] | {"listener.name.plaintext.ssl.client.auth": "required"}
    given = {key: (value, "f") for key, value in (base | more).items()}
    return parse({key: Text(*value) for key, value in given.items()})


class Text:
    def __init__(self, value, origin):
        self.value, self.origin = value, origin


def test_configuration_has_every_declared_key():
    found = config(**{"num.partitions": "7"})
    assert list(found) == list(SERVER_CONFIGS)
    assert len(found) == len(SERVER_CONFIGS)
    assert found["num.partitions"] == 7
    assert found["num.network.threads"] == SERVER_CONFIGS["num.network.threads"].default
    assert found.texts["num.partitions"] == "7"


def test_configuration_from_values_has_no_texts():
    values = {key: SERVER_CONFIGS[key].parse(text) for key, text in BASES["broker"].items()}
    found = ServerConfig(values, {}, {})
    assert (found.texts, found.origins, found.warnings) == ({}, {}, {})
    assert not found.is_set_for_listener("PLAINTEXT", "ssl.client.auth")


def test_development_switch_is_visible_in_texts():
    found = config(**{"trimaran.dev.mode": "true", "broker.session.timeout.ms": "7000"})
    assert found.texts["trimaran.log.fsync"] == "none"
    assert found.texts["broker.session.timeout.ms"] == "7000"


@pytest.mark.parametrize("key", ["voters", "bootstrap.servers"])
def test_number_with_thousands_of_digits_is_refused(key):
    digits = "9" * 5000
    text = f"{digits}@h:1" if key == "voters" else f"h:{digits}"
    none = {"controller.quorum.voters": ""} if key != "voters" else {}
    with pytest.raises(ConfigError, match="is written"):
        config(**{**none, f"controller.quorum.{key}": text})


def test_listener_value_precedes_node_and_default():
    found = config(
        **{"ssl.keystore.location": "/k", "listener.name.plaintext.ssl.key.password": ""}
    )
    assert found.of_listener("PLAINTEXT", "ssl.client.auth") == "required"
    assert found.of_listener("CONTROLLER", "ssl.client.auth") == "none"
    assert found.of_listener("CONTROLLER", "ssl.keystore.location") == "/k"
    assert found.of_listener("PLAINTEXT", "ssl.key.password") == ""
    only = "plain.sasl.jaas.config"
    assert only not in SERVER_CONFIGS
    assert found.of_listener("PLAINTEXT", only) is LISTENER_CONFIGS[only].default
    assert found.is_set_for_listener("PLAINTEXT", "ssl.client.auth")
    assert not found.is_set_for_listener("CONTROLLER", "ssl.client.auth")
    assert found.protocol_of("CONTROLLER") == "PLAINTEXT"


def test_only_known_listener_keys_are_altered():
    before = config(zzz="1")
    own = "listener.name.controller.ssl.client.auth"
    after = before.with_listener_configs({own: "requested", "num.partitions": "9", "zzz": "2"})
    assert after.of_listener("CONTROLLER", "ssl.client.auth") == "requested"
    assert after.of_listener("PLAINTEXT", "ssl.client.auth") == "required"
    assert after.origins == before.origins | {own: "altered while the node runs"}
    assert after.explicit == before.explicit
    assert (after.texts, after.warnings) == (before.texts, before.warnings)
    assert before.of_listener("CONTROLLER", "ssl.client.auth") == "none"
