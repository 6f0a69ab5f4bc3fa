"""`config check|explain|effective|diff|init`: reports about properties files without a node."""

import json
import re

import pytest

from tests.certificates import Certificates
from tests.node.oauth.provider import key_set
from trimaran.cli import config_files
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.settings.node_config import parse_config
from trimaran.settings.properties import read_file

NODE = {
    "process.roles": "broker",
    "node.id": "11",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes the file of a valid node, with `settings` in place of some of its keys."""

    def write_(name="node.properties", **settings):
        path = tmp_path / name
        lines = NODE | settings.pop("also", {}) | settings
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    return write_


@pytest.fixture
def printed_json(capsys):
    """Returns the JSON that a command prints."""

    def told_(command, *arguments, **options):
        capsys.readouterr()
        code = command(*arguments, **options, output="json")
        return code, json.loads(capsys.readouterr().out)

    return told_


def checked(printed_json, file):
    code, rows = printed_json(config_files.check, config=file)
    return code, [(row["level"], row["key"], row["origin"].rpartition(":")[2]) for row in rows]


def test_all_errors_are_reported_at_once(printed_json, write):
    also = {"num.netwrk.threads": "2", "num.partitions": "0", "log.preallocate": "perhaps"}
    code, rows = printed_json(config_files.check, config=write(also=also))
    assert code == Exit.NO
    assert [(row["level"], row["key"]) for row in rows] == [
        ("warning", "num.netwrk.threads"),
        ("error", "num.partitions"),
        ("error", "log.preallocate"),
    ]
    assert rows[0]["why"].endswith("did you mean num.network.threads?")
    assert rows[1]["origin"].endswith("node.properties:7")
    assert rows[1]["why"] == "Value must be at least 1"


def test_valid_file_has_no_errors(printed_json, write):
    assert checked(printed_json, write()) == (Exit.OK, [])
    assert checked(printed_json, write(also={"num.io.threads": "4"})) == (
        Exit.OK,
        [("warning", "num.io.threads", "6")],
    )


def test_contradicting_settings_are_reported(printed_json, write):
    also = {"listeners": "CONTROLLER://localhost:9093"}
    assert checked(printed_json, write(also=also)) == (Exit.NO, [("error", "listeners", "5")])


def test_missing_files_and_secrets_are_reported(printed_json, write, tmp_path):
    tls = {"listeners": "SSL://localhost:9092", "security.inter.broker.protocol": "SSL"}
    tls["listener.security.protocol.map"] = "CONTROLLER:PLAINTEXT,SSL:SSL"
    tls |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{tmp_path}/none.pem"}
    assert checked(printed_json, write(also=tls)) == (
        Exit.NO,
        [("error", "ssl.keystore.location", "9")],
    )
    (tmp_path / "none.pem").write_text("".join(Certificates().server))
    assert checked(printed_json, write(also=tls))[0] == Exit.OK
    vault = {"config.providers": "env", "broker.rack": "${env:NO_SUCH_VARIABLE}"}
    vault["config.providers.env.class"] = (
        "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    )
    code, (only,) = printed_json(config_files.check, config=write(also=vault))
    assert code == Exit.NO
    assert "broker.rack" in only["why"]


def test_oauthbearer_keys_in_files_are_read(printed_json, write, tmp_path):
    url, keys = "sasl.oauthbearer.jwks.endpoint.url", tmp_path / "keys.json"
    oauth = {"listeners": "CLIENTS://localhost:9092,INSIDE://localhost:9094"}
    oauth["listener.security.protocol.map"] = (
        "CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,INSIDE:PLAINTEXT"
    )
    oauth |= {"inter.broker.listener.name": "INSIDE", "sasl.enabled.mechanisms": "OAUTHBEARER"}
    oauth[url] = f"file://{keys}"
    code, rows = printed_json(config_files.check, config=write(also=oauth))
    assert code == Exit.NO
    both, unread = rows
    assert "sasl.oauthbearer.expected.audience" in both["key"]
    assert "sasl.oauthbearer.expected.issuer is not set" in both["why"]
    assert "sasl.oauthbearer.allow.unverified.issuer=true" in both["fix"]
    assert (unread["key"], unread["why"]) == (url, "No such file or directory")

    oauth |= {"sasl.oauthbearer.expected.audience": "a", "sasl.oauthbearer.expected.issuer": "i"}
    keys.write_text("{}")
    code, (wrong,) = printed_json(config_files.check, config=write(also=oauth))
    assert (code, wrong["why"]) == (Exit.NO, "it is not a JSON Web Key Set")
    keys.write_bytes(key_set())
    assert checked(printed_json, write(also=oauth)) == (Exit.OK, [])
    oauth[url] = "https://no-such-host.invalid/keys"  # the provider is not reached
    assert checked(printed_json, write(also=oauth)) == (Exit.OK, [])


def test_errors_of_several_parts_are_reported_together(printed_json, write):
    also = {"listeners": "SSL://localhost:9092", "security.inter.broker.protocol": "SSL"}
    also["listener.security.protocol.map"] = "CONTROLLER:PLAINTEXT,SSL:SSL"
    also |= {"trimaran.metrics.listener": "here"}
    also |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/none.pem"}
    code, rows = printed_json(config_files.check, config=write(also=also))
    assert code == Exit.NO
    assert [row["key"] for row in rows] == ["ssl.keystore.location", "trimaran.metrics.listener"]


@pytest.mark.parametrize(
    ("also", "key"),
    [
        ({"authorizer.class.name": AUTHORIZER, "super.users": "alice"}, "super.users"),
        ({"trimaran.metrics.listener": "here"}, "trimaran.metrics.listener"),
    ],
)
def test_check_finds_errors_of_node_start(printed_json, write, also, key):
    code, (error,) = printed_json(config_files.check, config=write(also=also))
    assert (code, error["key"]) == (Exit.NO, key)


def test_explain_describes_a_key(printed_json):
    _, (key,) = printed_json(config_files.explain, "num.io.threads")
    assert (key["of"], key["type"], key["default"]) == ("node", "int", "8")
    assert key["set"].startswith("while it runs")
    assert (key["acts"], key["environment"]) == (False, "KAFKA_NUM_IO_THREADS")
    assert "It has no effect here" in key["doc"]
    _, (topic,) = printed_json(config_files.explain, "retention.ms")
    assert topic["default_by"] == "log.retention.ms, log.retention.minutes, log.retention.hours"
    _, both = printed_json(config_files.explain, "compression.type")
    assert [side["of"] for side in both] == ["node", "topic"]
    _, (listener,) = printed_json(config_files.explain, "listener.name.tls.ssl.keystore.location")
    assert (listener["of"], listener["key"]) == ("listener", "ssl.keystore.location")
    assert listener["set"].startswith("while it runs")


def test_every_key_is_explained(printed_json):
    unexplained = [key for key in SERVER_CONFIGS if not printed_json(config_files.explain, key)[1]]
    assert unexplained == []


def test_mistyped_key_is_explained_with_similar_key():
    with pytest.raises(UserError) as error:
        config_files.explain("retentin.ms")
    assert error.value.why.startswith("did you mean retention.ms")
    assert error.value.exit_code == Exit.NO


def test_each_value_has_its_origin(printed_json, write, monkeypatch):
    monkeypatch.setenv("KAFKA_LOG_RETENTION_MS", "77")
    also = {"num.partitions": "3", "trimaran.dev.mode": "true", "ssl.key.password": "hush"}
    file = write(also=also | {"my.plugin.secret": "hush"})
    _, rows = printed_json(config_files.effective, config=file, override=["num.partitions=5"])
    found = {row["key"]: (row["value"], row["origin"]) for row in rows}
    assert found["node.id"] == ("11", f"{file}:2")
    assert found["log.retention.ms"] == ("77", "environment KAFKA_LOG_RETENTION_MS")
    assert found["num.partitions"] == ("5", "--override")
    assert found["trimaran.log.fsync"] == ("none", "trimaran.dev.mode")
    assert "num.network.threads" not in found
    assert "hush" not in str(rows)
    _, every = printed_json(config_files.effective, config=file, every=True)
    assert {row["key"] for row in every} >= set(SERVER_CONFIGS)
    assert next(row for row in every if row["key"] == "broker.rack")["origin"] == "default"


def test_variable_stays_as_written(printed_json, write, monkeypatch):
    monkeypatch.setenv("RACK", "hush")
    also = {"config.providers": "env", "broker.rack": "${env:RACK}"}
    also["config.providers.env.class"] = (
        "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    )
    _, rows = printed_json(config_files.effective, config=write(also=also))
    assert {row["key"]: row["value"] for row in rows}["broker.rack"] == "${env:RACK}"
    assert "hush" not in str(rows)


def test_only_differences_in_meaning_count(printed_json, write):
    one = write("a", also={"num.partitions": "1", "log.preallocate": "TRUE"})
    other = write("b", also={"log.preallocate": "true"})
    assert printed_json(config_files.diff, one, other) == (Exit.OK, [])
    changed = write("c", also={"node.id": "12", "ssl.key.password": "hush"})
    code, rows = printed_json(config_files.diff, one, changed)
    assert code == Exit.NO
    assert [(row["key"], row["first"], row["second"]) for row in rows] == [
        ("log.preallocate", "TRUE", "false"),
        ("node.id", "11", "12"),
        ("ssl.key.password", None, "(hidden)"),
    ]


@pytest.mark.parametrize("roles", ["controller", "broker", "broker,controller"])
@pytest.mark.parametrize("every", [False, True])
def test_generated_file_is_valid_for_node(printed_json, tmp_path, capsys, roles, every):
    capsys.readouterr()
    config_files.init(
        roles=roles,
        node_id=5,
        controllers="localhost:9093,b:9093",
        log_dirs=str(tmp_path),
        every=every,
    )
    file = tmp_path / "node.properties"
    file.write_text(capsys.readouterr().out)
    assert checked(printed_json, file) == (Exit.OK, [])
    config = parse_config(read_file(file))
    assert config["process.roles"] == roles.split(",")
    assert config["log.dirs"] == [str(tmp_path)]
    commented = re.findall(r"^#([^ =]+)=(.*)$", file.read_text(), re.MULTILINE)
    assert len(commented) > (200 if every else 30)
    assert [
        key
        for key, text in commented
        if SERVER_CONFIGS[key].default != (SERVER_CONFIGS[key].parse(text) if text else None)
        and SERVER_CONFIGS[key].default not in ("", [])
    ] == []


@pytest.mark.parametrize(("roles", "host"), [("boss", "localhost"), ("controller", "elsewhere")])
def test_invalid_generated_file_is_not_written(roles, host):
    with pytest.raises(UserError) as error:
        config_files.init(roles=roles, node_id=5, controllers="localhost:9093", host=host)
    assert error.value.exit_code == Exit.USAGE
