"""The commands of a user on one cluster, from `up` to `purge`, each checked by what it prints."""

import json
import os
import signal

import pytest

from tests.clients.confluent import Confluent
from tests.local_cluster import LocalCluster, trimaran, until
from trimaran.errors import Exit
from trimaran.local.state_file import is_alive

ROLES = ["controller"] * 3 + ["broker"] * 3
# Kafka waits three seconds for a new group's further members; there are none here.
OPTIONS = ("--override", "group.initial.rebalance.delay.ms=0")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("cli"), *OPTIONS) as cluster:
        yield cluster


def test_up_and_ps_print_what_scripts_need(cluster):
    shown = cluster.json("ps")
    for found in (cluster.started, shown):
        assert {"bootstrap", "controller_bootstrap", "zookeeper", "nodes"} <= found.keys()
        assert [node["role"] for node in found["nodes"]] == ROLES
        for node in found["nodes"]:
            assert {"id", "role", "address", "pid", "dir", "state"} <= node.keys()
            assert is_alive(node["pid"], None)
    assert found["bootstrap"].count(":") == found["controller_bootstrap"].count(":") == 3
    states = [node["state"] for node in shown["nodes"]]
    assert sorted(states[:3]) == ["follower", "follower", "leader"]
    assert states[3:] == ["active"] * 3


def test_a_second_up_is_refused(cluster):
    done = cluster.run("up", "-d", check=False)
    assert done.returncode == Exit.NO
    assert "already up" in done.stderr


def test_topics_records_and_groups(cluster):
    cluster.run("topics", "create", "words", "-p", 3, "-r", 3, "--config", "retention.ms=100000")
    assert sorted(cluster.partitions("words")) == [0, 1, 2]
    assert [t["topic"] for t in cluster.json("topics", "list")] == ["words"]
    lines = [f"k{i}:value {i}" for i in range(100)]
    cluster.run("produce", "words", "-k", ":", stdin="\n".join(lines) + "\n")
    text = cluster.run("consume", "words", "-e").stdout
    assert sorted(text.splitlines()) == sorted(line.partition(":")[2] for line in lines)
    found = cluster.run("consume", "words", "-e", "-n", 3, "-o", "json").stdout.splitlines()
    assert [json.loads(row)["topic"] for row in found] == ["words"] * 3

    client = Confluent(cluster.bootstrap)
    with client.member("readers", "words") as member:
        seen = []
        until(lambda: _collected(seen, member) == 100, "100 records")
        member.commit()
        described = cluster.json("groups", "describe", "readers")
        assert described["state"] == "Stable"
        assert len(described["members"]) == 1
        assert sum(row["committed"] for row in described["offsets"]) == 100
        assert {row["lag"] for row in described["offsets"]} == {0}
    assert [g["group"] for g in cluster.json("groups", "list")] == ["readers"]
    refused = cluster.run("groups", "describe", "nobody", check=False)
    assert refused.returncode in {Exit.OK, Exit.REFUSED}


def _collected(seen, member):
    seen += member.poll()
    return len(seen)


def test_metadata_is_the_same_on_disk_and_on_the_wire(cluster):
    def rows(*words):
        out = cluster.run("metadata", *words, "--type", "TopicRecord", "-o", "json").stdout
        return [json.loads(line) for line in out.splitlines()]

    tailed = rows("tail")
    assert "words" in [row["payload"]["name"] for row in tailed]
    assert rows("dump") == tailed
    later = cluster.run("metadata", "tail", "--start", tailed[-1]["offset"] + 1, "-o", "json")
    assert all(
        json.loads(line)["offset"] > tailed[-1]["offset"] for line in later.stdout.splitlines()
    )


def test_quorum_status_counts_every_node(cluster):
    status = cluster.json("quorum", "status")
    roles = sorted(replica["role"] for replica in status["replicas"])
    assert roles == ["follower"] * 2 + ["leader"] + ["observer"] * 3
    assert status["high_watermark"] > 0


def test_chaos_takes_an_id_a_name_or_leader(cluster):
    leader = cluster.active_controller()
    cluster.run("chaos", "kill", "leader")
    assert cluster.node(leader).state == "dead"
    assert cluster.run("ps", check=False).returncode == Exit.NO
    cluster.run("chaos", "restart", f"controller-{leader}")
    until(lambda: cluster.roles()[leader] == "follower", "it follows")
    cluster.run("chaos", "pause", 11)
    assert cluster.node(11).state == "paused"
    cluster.run("chaos", "resume", "broker-11")
    until(lambda: cluster.roles()[11] == "active", "it goes on")
    wrong = cluster.run("chaos", "kill", "broker-99", check=False)
    assert wrong.returncode == Exit.USAGE
    assert "11 (broker)" in wrong.stderr


def test_a_supervisor_that_was_killed_leaves_nothing_that_down_cannot_stop(cluster):
    state = cluster.state
    os.kill(state.supervisor_pid, signal.SIGKILL)
    until(lambda: not state.is_up(), "the supervisor is gone")
    assert "trimaran down" in cluster.run("ps", check=False).stderr
    second = cluster.run("up", "-d", check=False)
    assert second.returncode == Exit.NO
    assert "still run" in second.stderr
    assert "broker-11" in second.stderr
    cluster.run("down")
    assert not any(is_alive(node.pid, node.started) for node in state.nodes)


def test_up_again_on_the_same_data_has_everything(cluster):
    again = cluster.json("up", "-d", "--override", "num.partitions=7")
    assert again["bootstrap"] == cluster.bootstrap
    assert len(cluster.run("consume", "words", "-e").stdout.splitlines()) == 100
    assert (
        sum(row["committed"] for row in cluster.json("groups", "describe", "readers")["offsets"])
        == 100
    )
    cluster.run("topics", "create", "by-default")
    assert len(cluster.partitions("by-default")) == 7


def test_what_a_cluster_consists_of_cannot_be_changed_later(cluster):
    cluster.run("down")
    for options in (("--controllers", 5), ("--brokers", 1), ("--zk",)):
        done = cluster.run("up", "-d", *options, check=False)
        assert done.returncode == Exit.USAGE
    wrong = cluster.run("up", "-d", "--override", "num.partitions=many", check=False)
    assert wrong.returncode == Exit.USAGE
    assert "num.partitions=many" in wrong.stderr


def test_purge_leaves_nothing(cluster):
    cluster.run("up", "-d")
    pids = [(node.pid, node.started) for node in cluster.state.nodes]
    cluster.run("purge", "-y")
    assert not cluster.data.exists()
    assert not any(is_alive(*pid) for pid in pids)
    assert trimaran("ps", "--data", cluster.data, check=False).returncode == Exit.USAGE
