"""The effect of a container's environment; tests/interop/test_container.py runs a real one."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cluster.processes import trimaran
from trimaran import container
from trimaran.errors.user_error import UserError
from trimaran.node.config.server import parse
from trimaran.node.runtime.ports import HOST, port_of, reserve
from trimaran.settings.properties import PropertySetting

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
CONTROLLER = {
    "KAFKA_PROCESS_ROLES": "controller",
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENERS": "CONTROLLER://127.0.0.1:9093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}


def texts(environ, tmp_path):
    found = container.settings_of(environ, tmp_path / "server.properties")
    return {key: setting.value for key, setting in found.items()}


def config_of(environ, tmp_path):
    settings = texts(environ, tmp_path) | {"log.dirs": str(tmp_path / "data")}
    return parse({key: PropertySetting(value, "") for key, value in settings.items()})


def test_container_without_variables_is_whole_cluster(tmp_path):
    config = config_of({"PATH": "/bin"}, tmp_path)
    assert config.is_broker
    assert config.is_controller
    container.format_new(config, {})
    identity = (tmp_path / "data" / "meta.properties").read_text()
    container.format_new(config, {})  # as when the container restarts
    assert (tmp_path / "data" / "meta.properties").read_text() == identity


def test_one_variable_replaces_the_whole_default(tmp_path):
    assert texts({"KAFKA_NODE_ID": "7", "KAFKA_A___B__C_D": "x"}, tmp_path) == {
        "log.dirs": "/var/lib/kafka/data",
        "trimaran.metrics.listener": "127.0.0.1:9404",
        "node.id": "7",
        "a-b_c.d": "x",
    }


def test_variables_go_over_a_mounted_file(tmp_path):
    (tmp_path / "server.properties").write_text("node.id=1\nprocess.roles=broker\n")
    found = texts({"KAFKA_NODE_ID": "7"}, tmp_path)
    assert (found["node.id"], found["process.roles"]) == ("7", "broker")


def test_advertising_container_listens_on_all_addresses(tmp_path):
    environ = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a.b:9092,SSL://[::1]:9094"}
    assert texts(environ, tmp_path)["listeners"] == "PLAINTEXT://0.0.0.0:9092,SSL://0.0.0.0:9094"


def test_node_of_many_needs_cluster_id(tmp_path):
    voters = {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093,2@b:9093,3@c:9093"}
    config = config_of(CONTROLLER | voters, tmp_path)
    with pytest.raises(UserError, match="CLUSTER_ID is not set"):
        container.format_new(config, {})
    container.format_new(config, {"CLUSTER_ID": CLUSTER_ID})
    assert f"cluster.id={CLUSTER_ID}" in (tmp_path / "data" / "meta.properties").read_text()


def test_node_with_remote_quorum_founds_none(tmp_path):
    """Otherwise two quorums would have the same cluster id."""
    there = {"KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "there:9093"}
    container.format_new(config_of(CONTROLLER | there, tmp_path), {"CLUSTER_ID": CLUSTER_ID})
    assert not list((tmp_path / "data").rglob("*0000.checkpoint"))
    here = {"KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "127.0.0.1:9093"}
    config = config_of(CONTROLLER | here | {"KAFKA_NODE_ID": "2"}, tmp_path / "other")
    container.format_new(config, {"CLUSTER_ID": CLUSTER_ID})
    assert list((tmp_path / "other" / "data").rglob("*0000.checkpoint"))


@pytest.mark.cluster
@pytest.mark.slow
def test_container_serves_and_ends_by_sigterm(tmp_path):
    with reserve() as one, reserve() as two, reserve() as three:
        client, controller, metrics = (f"{HOST}:{port_of(held)}" for held in (one, two, three))
    environ = {
        **os.environ,
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NODE_ID": "1",
        "KAFKA_LISTENERS": f"PLAINTEXT://{client},CONTROLLER://{controller}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": controller,
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRIMARAN_METRICS_LISTENER": metrics,
        "KAFKA_LOG_DIRS": str(tmp_path),
    }
    command = [sys.executable, "-m", "trimaran.container"]
    assert subprocess.run([*command, "--healthy"], env=environ, check=False).returncode == 1
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as node:
        lines = (json.loads(line)["message"] for line in node.stderr)
        assert "[KafkaServer id=1] started" in lines  # lines are read up to this one
        assert subprocess.run([*command, "--healthy"], env=environ, check=False).returncode == 0
        trimaran("topics", "create", "t", "-b", client)
        trimaran("produce", "t", "-b", client, stdin="hello\n")
        assert trimaran("consume", "t", "-e", "-b", client).stdout == "hello\n"
        node.send_signal(signal.SIGTERM)
        node.stderr.read()
    assert node.returncode == 0


JAAS = """// the users of a compose file
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin"
    password="admin-secret"
    user_admin="admin-secret"
    user_alice="alice-secret";
};
"""


@pytest.mark.cluster
@pytest.mark.slow
def test_compose_example_with_sasl_serves_its_users(tmp_path):
    """The environment is that of Kafka's example single-node/sasl_plaintext, with other ports and files. The host name
    of its only controller cannot be resolved.
    """
    (tmp_path / "broker_jaas.conf").write_text(JAAS)
    with reserve() as one, reserve() as two, reserve() as three, reserve() as four:
        outside, inside, controller, metrics = map(port_of, (one, two, three, four))
    sasl = "SASL_PLAINTEXT"
    environ = {
        **os.environ,
        "KAFKA_NODE_ID": "1",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"CONTROLLER:PLAINTEXT,{sasl}:{sasl},{sasl}_HOST:{sasl}",
        "KAFKA_ADVERTISED_LISTENERS": f"{sasl}_HOST://localhost:{outside},{sasl}://broker.invalid:{inside}",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@broker.invalid:{controller}",
        "KAFKA_LISTENERS": f"CONTROLLER://:{controller},{sasl}_HOST://:{outside},{sasl}://:{inside}",
        "KAFKA_INTER_BROKER_LISTENER_NAME": sasl,
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "CLUSTER_ID": CLUSTER_ID,
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={tmp_path}/broker_jaas.conf",
        "KAFKA_TRIMARAN_METRICS_LISTENER": f"{HOST}:{metrics}",
    }
    client = tmp_path / "client.properties"
    client.write_text(
        f"security.protocol={sasl}\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="alice" password="alice-secret";\n'
    )
    words = ("-b", f"localhost:{outside}", "--command-config", str(client))
    command = [sys.executable, "-m", "trimaran.container"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as node:
        lines = (json.loads(line)["message"] for line in node.stderr)
        assert "[KafkaServer id=1] started" in lines
        try:
            trimaran("topics", "create", "t", *words)
            trimaran("produce", "t", *words, stdin="hello\n")
            assert trimaran("consume", "t", "-e", *words).stdout == "hello\n"
        finally:
            node.send_signal(signal.SIGTERM)
            node.stderr.read()
    assert node.returncode == 0
