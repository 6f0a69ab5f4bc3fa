"""`-o kafka` prints the text of Apache Kafka 4.4's own tool, byte for byte, for Apache Kafka and for our cluster. Lines
are compared as a set if the tool's order is that of a hash table; times are omitted.
"""

import json
import re

import pytest

from tests.clients.confluent import Confluent
from tests.cluster.processes import until
from tests.interop import apache_kafka
from tests.interop.conftest import Ours, trimaran
from tests.librdkafka import Producer
from tests.trimaran import group_members
from trimaran.wire.blocking import BlockingClient

ANY_STATE = "stable,empty,dead,assigning,reconciling,notready"
TOPIC, GROUP, PAY = "text-orders", "text-readers", "text-pay"
CALL_SECONDS = 60


@pytest.fixture(scope="module", params=["kafka", "ours"])
def cluster(request):
    """Starts a cluster without ACLs, with a topic and records, a group with a member, and a finished transaction."""
    cluster = request.getfixturevalue(request.param)
    server = ("-b", cluster.bootstrap)
    trimaran(
        *("topics", "create", TOPIC, "-p", "3", "-r", "2", "--config", "retention.ms=100000"),
        *server,
    )
    trimaran("configs", "set", f"topic/{TOPIC}", "cleanup.policy=compact,delete", *server)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": PAY})
    producer.init_transactions(CALL_SECONDS)
    producer.begin_transaction()
    for number in range(30):
        producer.produce(TOPIC, f"value {number}", f"key {number}", partition=number % 3)
    producer.commit_transaction(CALL_SECONDS)
    return cluster


def controllers_of(cluster):
    return cluster.controllers if isinstance(cluster, Ours) else cluster.controller_bootstrap


def text_of_tool(cluster, name, *words, controllers=False):
    where = (
        ("--bootstrap-controller", controllers_of(cluster))
        if controllers
        else ("--bootstrap-server", cluster.bootstrap)
    )
    return apache_kafka.tool(name, *where, *words, timeout=180).stdout


def ours_of(cluster, *words, controllers=False):
    where = ("-B", controllers_of(cluster)) if controllers else ("-b", cluster.bootstrap)
    return trimaran(*words, "-o", "kafka", *where).stdout


def test_topics(cluster):
    described = text_of_tool(cluster, "topics", "--describe", "--topic", TOPIC)
    assert ours_of(cluster, "topics", "describe", TOPIC) == described
    listed = text_of_tool(cluster, "topics", "--list")
    assert ours_of(cluster, "topics", "list") == listed


def test_configs(cluster):
    entity = ("--entity-type", "topics", "--entity-name", TOPIC)
    for flag in ((), ("--all",)):
        told = text_of_tool(cluster, "configs", "--describe", *entity, *flag)
        assert ours_of(cluster, "configs", "get", f"topic/{TOPIC}", *flag) == told


def test_groups(cluster):
    client = Confluent(cluster.bootstrap)
    with client.member(GROUP, TOPIC) as member:
        seen = []

        def collected():
            seen.extend(member.poll())
            return len(seen) == 30

        until(collected, "30 records", 60)
        member.commit()
        for words in ((), ("--members",), ("--state",)):
            told = text_of_tool(cluster, "consumer-groups", "--describe", "--group", GROUP, *words)
            assert ours_of(cluster, "groups", "describe", GROUP, *words) == told
        listed = text_of_tool(cluster, "consumer-groups", "--list")
        assert sorted(ours_of(cluster, "groups", "list").split()) == sorted(listed.split())


@pytest.mark.parametrize(
    ("kind", "tool"), [("share", "share-groups"), ("streams", "streams-groups")]
)
def test_groups_whose_members_heartbeat(cluster, monkeypatch, kind, tool):
    """Compares each view of a group with a member and without one, and the lists by type and state."""
    monkeypatch.setattr(group_members, "TOPIC", TOPIC)
    group = f"text-{kind}"
    with BlockingClient(cluster.bootstrap) as client:
        beat = group_members.joined(client, kind, group)
        assert_same_views(cluster, group, tool, beat)
        assert_same_lists(cluster, kind, tool, beat)
        group_members.leave(client, kind, group)
        assert_same_views(cluster, group, tool, lambda: None)
        assert_same_lists(cluster, kind, tool, lambda: None)


def assert_same_views(cluster, group, tool, beat):
    for words in ((), ("--members",), ("--state",)):
        beat()
        told = text_of_tool(cluster, tool, "--describe", "--group", group, *words)
        mine = ours_of(cluster, "groups", "describe", group, *words)
        assert sorted(mine.splitlines()) == sorted(told.splitlines()), words


def assert_same_lists(cluster, kind, tool, beat):
    for theirs, ours in (((), ()), (("--state",), ("--state", ANY_STATE))):
        beat()
        told = text_of_tool(cluster, tool, "--list", *theirs)
        mine = ours_of(cluster, "groups", "list", "--type", kind, *ours)
        assert sorted(mine.splitlines()) == sorted(told.splitlines()), theirs


def without_times(text):
    """Replaces a time in milliseconds, and the column after it, which is the time since then."""
    return re.sub(r"\d{13}( *\t)\d+ *\t", r"TIME\1AGO\t", text)


def test_quorum(cluster):
    """The progress of replicas changes between two calls; columns, ids and directories are constant."""
    told = text_of_tool(cluster, "metadata-quorum", "describe", "--replication", controllers=True)
    ours = ours_of(cluster, "quorum", "replication", controllers=True)
    assert [_fixed(line) for line in ours.splitlines()] == [_fixed(o) for o in told.splitlines()]
    status = text_of_tool(cluster, "metadata-quorum", "describe", "--status", controllers=True)
    mine = ours_of(cluster, "quorum", "status", controllers=True)
    moving = r"(HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): +-?\d+"
    assert re.sub(moving, r"\1", mine) == re.sub(moving, r"\1", status)


def _fixed(line):
    """Returns the text without progress and times, with the same column widths."""
    cells = line.split("\t")
    return [cell if index in (0, 1, 6) else len(cell) for index, cell in enumerate(cells)][:3]


def test_transactions(cluster):
    words = ("describe", "--transactional-id", PAY)
    told = text_of_tool(cluster, "transactions", *words)
    assert without_times(ours_of(cluster, "transactions", "describe", PAY)) == without_times(told)
    listed = text_of_tool(cluster, "transactions", "list")
    assert sorted(ours_of(cluster, "transactions", "list").splitlines()) == sorted(
        listed.splitlines()
    )


def test_log_dirs(cluster):
    told = text_of_tool(cluster, "log-dirs", "--describe", "--topic-list", TOPIC)
    mine = ours_of(cluster, "log-dirs", "--topic", TOPIC)
    assert mine.splitlines()[0] == told.splitlines()[0]
    assert _replicas(mine) == _replicas(told)
    assert list(json.loads(mine.splitlines()[-1])) == list(json.loads(told.splitlines()[-1]))


def _replicas(text):
    found = json.loads(text.splitlines()[-1])
    return {
        (broker["broker"], log_dir["logDir"], log_dir["error"], *(str(p) for p in replica.items()))
        for broker in found["brokers"]
        for log_dir in broker["logDirs"]
        for replica in sorted(log_dir["partitions"], key=str)
    }


def test_reassignments(cluster, tmp_path):
    described = json.loads(
        trimaran("topics", "describe", TOPIC, "-o", "json", "-b", cluster.bootstrap).stdout
    )
    plan = {
        "version": 1,
        "partitions": [
            {"topic": TOPIC, "partition": p["partition"], "replicas": p["replicas"]}
            for p in described["partitions"]
        ],
    }
    plan["partitions"][0]["replicas"].reverse()
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    words = ("--reassignment-json-file", str(file), "--verify", "--preserve-throttles")
    told = text_of_tool(cluster, "reassign-partitions", *words)
    done = trimaran(
        "reassign", "verify", str(file), "-o", "kafka", "-b", cluster.bootstrap, check=False
    )
    assert done.stdout.rstrip("\n") == told.rstrip("\n")
