"""Apache Kafka's tools move partitions and elect leaders in our cluster (KIP-455, KIP-460)."""

import json
import re

import pytest

from tests.cluster.processes import until
from tests.interop import apache_kafka


def tool(name, *arguments, **options):
    return apache_kafka.tool(name, *arguments, **options).stdout


def describe(ours, topic):
    """Returns (leader, replicas, ISR) by partition."""
    text = tool("topics", "--bootstrap-server", ours.bootstrap, "--describe", "--topic", topic)
    rows = re.findall(r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)", text)
    return {
        int(index): (int(leader), replicas, set(isr.split(",")))
        for index, leader, replicas, isr in rows
    }


@pytest.fixture
def topic(ours):
    server = ("--bootstrap-server", ours.bootstrap)
    tool("topics", *server, "--create", "--topic", "moves", "--replica-assignment", "11:12,12:13")
    lines = "\n".join(f"line {i}" for i in range(500)) + "\n"
    tool("console-producer", *server, "--topic", "moves", stdin=lines)
    yield "moves"
    tool("topics", *server, "--delete", "--topic", "moves")


def plan(path, *partitions):
    listed = [
        {"topic": "moves", "partition": index, "replicas": replicas}
        for index, replicas in partitions
    ]
    path.write_text(json.dumps({"version": 1, "partitions": listed}))
    return path


def reassign(ours, path, *options):
    return tool(
        "reassign-partitions", "--bootstrap-server", ours.bootstrap,
        "--reassignment-json-file", str(path), *options,
    )  # fmt: skip


def test_partitions_move_with_their_records(ours, topic, tmp_path):
    path = plan(tmp_path / "plan.json", (0, [13, 12]), (1, [11]))
    assert "Successfully started" in reassign(ours, path, "--execute")

    def moved():
        return reassign(ours, path, "--verify").count("is completed") == 2

    until(moved, "both partitions are where they should be", 60.0)
    found = describe(ours, topic)
    assert found[0] == (13, "13,12", {"12", "13"})
    assert found[1] == (11, "11", {"11"})
    text = tool(
        "console-consumer", "--bootstrap-server", ours.bootstrap, "--topic", topic,
        "--from-beginning", "--max-messages", "500", "--timeout-ms", "30000",
    )  # fmt: skip
    assert len(set(text.splitlines())) == 500
    gone = ours.directory("broker-12") / "moves-1"
    until(lambda: not gone.exists(), "the removed replica's log is deleted")


def test_without_moves_nothing_is_cancelled_or_listed(ours, topic, tmp_path):
    path = plan(tmp_path / "plan.json", (0, [13, 12]))
    assert "None of the specified partition moves are active" in reassign(ours, path, "--cancel")
    listed = tool("reassign-partitions", "--bootstrap-server", ours.bootstrap, "--list")
    assert "No partition reassignments found" in listed


def test_preferred_leader_is_elected_by_kafkas_tool(ours, topic, tmp_path):
    """A different order of replicas changes the preferred leader, but moves no data."""
    reassign(ours, plan(tmp_path / "plan.json", (0, [12, 11])), "--execute")
    assert describe(ours, topic)[0] == (11, "12,11", {"11", "12"})
    election = ("--bootstrap-server", ours.bootstrap, "--topic", topic, "--partition", "0")
    text = tool("leader-election", *election, "--election-type", "preferred")
    assert "Successfully completed leader election (PREFERRED) for partitions moves-0" in text
    assert describe(ours, topic)[0][0] == 12
    text = tool("leader-election", *election, "--election-type", "unclean")
    assert "Valid replica already elected for partitions moves-0" in text
