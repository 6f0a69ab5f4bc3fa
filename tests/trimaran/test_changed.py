"""Commands that change something say so only when it changed, and commands about the quorum ask brokers, too."""

import json

import pytest

from tests.certificates import Certificates
from trimaran.cli.app import run
from trimaran.errors.user_error import Exit
from trimaran.testing import EmbeddedKafka

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka(SETTINGS) as kafka:
        kafka.create_topic("t")
        yield kafka


@pytest.fixture
def called(kafka, capsys, monkeypatch):
    """Returns a function that runs a command and returns its output, its messages and its exit code."""
    monkeypatch.setattr("trimaran.cli.app._end_like_ctrl_c", lambda: None)  # this process continues

    def call(*words, address=True):
        with pytest.raises(SystemExit) as ended:
            run([*map(str, words), *(["-b", kafka.bootstrap] if address else [])])
        said = capsys.readouterr()
        return said.out, said.err, int(ended.value.code)

    return call


@pytest.mark.parametrize(
    ("words", "first", "second"),
    [
        (
            ("configs", "set", "topic/t", "retention.ms=5"),
            "changed topic/t: retention.ms\n",
            "topic/t: retention.ms is so already\n",
        ),
        (
            ("configs", "set", "topic/t", "retention.ms=5", "segment.ms=7"),
            "changed topic/t: segment.ms\ntopic/t: retention.ms is so already\n",
            "topic/t: retention.ms is so already\ntopic/t: segment.ms is so already\n",
        ),
        (
            ("configs", "delete", "topic/t", "segment.ms"),
            "changed topic/t: segment.ms\n",
            "topic/t: segment.ms is not set\n",
        ),
        (
            ("configs", "set", "broker", "log.retention.ms=9"),
            "changed broker: log.retention.ms\n",
            "broker: log.retention.ms is so already\n",
        ),
        (
            ("quotas", "set", "user=a", "producer_byte_rate=5"),
            "set producer_byte_rate=5 for user=a\n",
            "there is already producer_byte_rate=5 for user=a\n",
        ),
        (
            ("acls", "add", "User:a", "read,describe", "topic/t"),
            "allowed read,describe on topic/t to User:a\n",
            "already allowed read,describe on topic/t to User:a\n",
        ),
    ],
)
def test_repeated_change_reports_no_change(called, words, first, second):
    assert [called(*words)[1:] for _ in range(2)] == [(first, 0), (second, 0)]


def test_reassignment_to_same_replicas_moves_nothing(called, tmp_path):
    _, (row,) = None, json.loads(called("partitions", "list", "-t", "t", "-o", "json")[0])
    plan = tmp_path / "plan.json"
    moves = [{"topic": "t", "partition": 0, "replicas": row["replicas"]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    (broker,) = row["replicas"]
    assert called("reassign", "apply", plan)[1:] == (
        f"t-0: its replicas are {broker} already\n",
        0,
    )


@pytest.mark.parametrize("command", ["status", "replication"])
def test_quorum_is_shown_by_brokers(called, kafka, command, monkeypatch):
    found = called("quorum", command, "-o", "json")
    rows = json.loads(found[0])
    replicas = rows["replicas"] if command == "status" else rows
    assert ([row["role"] for row in replicas], found[1:]) == (["leader"], ("", 0))
    monkeypatch.setenv("TRIMARAN_BOOTSTRAP", kafka.bootstrap)
    out, said, code = called("quorum", command, "-o", "kafka", address=False)
    assert ("1" in out, said, code) == (True, "", 0)


def test_one_way_to_the_quorum_is_named(called):
    _, said, code = called("quorum", "status", "-B", "localhost:1")
    assert ("-b and -B cannot be combined" in said, code) == (True, Exit.USAGE)


@pytest.mark.parametrize("command", ["down", "purge"])
def test_ending_a_missing_cluster_succeeds(called, tmp_path, command):
    out, said, code = called(command, "--data", tmp_path / "none", address=False)
    assert (out, "nothing to" in said, code) == ("", True, 0)


def test_expiring_certificate_is_a_warning(called, tmp_path):
    """A node starts with such a certificate."""
    key, chain = Certificates().expired()
    store = tmp_path / "store.pem"
    store.write_text(key + chain)
    file = tmp_path / "node.properties"
    file.write_text(
        "process.roles=broker\nnode.id=11\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        "controller.listener.names=CONTROLLER\nlisteners=SSL://localhost:9092\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,SSL:SSL\n"
        f"inter.broker.listener.name=SSL\nssl.keystore.type=PEM\nssl.keystore.location={store}\n"
        f"log.dirs={tmp_path}/logs\n"
    )
    out, said, code = called("config", "check", "-c", file, "-o", "json", address=False)
    (row,) = json.loads(out)
    assert (row["level"], row["key"]) == ("warning", "ssl.keystore.location")
    assert (row["origin"].endswith("node.properties:9"), "expired 1 day ago" in row["why"]) == (
        True,
        True,
    )
    assert ("0 errors, 1 warning" in said, code) == (True, 0)
