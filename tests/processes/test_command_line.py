"""A user's commands on one cluster, from `up` to `purge`, each checked by its output."""

import json
from pathlib import Path

import pytest

from tests.clients.confluent import Confluent
from tests.cluster.processes import LocalCluster, trimaran, until
from trimaran.errors.user_error import Exit
from trimaran.local.state_file import is_alive

ROLES = ["controller"] * 3 + ["broker"] * 3
# Kafka's default delays a new group's first rebalance by three seconds to wait for more members; none come here.
OPTIONS = ("--override", "group.initial.rebalance.delay.ms=0")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("cli"), *OPTIONS) as cluster:
        yield cluster


def test_up_and_ps_print_data_for_scripts(cluster):
    shown = cluster.json("ps")
    for found in (cluster.started, shown):
        assert {"bootstrap", "controller_bootstrap", "zookeeper", "nodes"} <= found.keys()
        assert [node["role"] for node in found["nodes"]] == ROLES
        for node in found["nodes"]:
            assert {"id", "role", "address", "pid", "dir", "state"} <= node.keys()
            assert is_alive(node["pid"], node["started"])
    assert found["bootstrap"].count(":") == found["controller_bootstrap"].count(":") == 3
    states = [node["state"] for node in shown["nodes"]]
    assert sorted(states[:3]) == ["follower", "follower", "leader"]
    assert states[3:] == ["active"] * 3


def test_second_up_is_refused(cluster):
    done = cluster.run("up", "-d", check=False)
    assert done.returncode == Exit.NO
    assert "already up" in done.stderr


def test_topics_records_and_groups_are_listed(cluster):
    cluster.run("topics", "create", "words", "-p", 3, "-r", 3, "--config", "retention.ms=7200000")
    assert sorted(cluster.partitions("words")) == [0, 1, 2]
    assert [t["topic"] for t in cluster.json("topics", "list")] == ["words"]
    described = cluster.json("topics", "describe", "words")["partitions"]
    assert [(len(p["isr"]), p["elr"], p["offline"]) for p in described] == [(3, [], [])] * 3
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
        for words in ((), ("--dry-run",)):
            busy = cluster.run("groups", "delete", "readers", *words, check=False)
            assert (busy.returncode, "has members" in busy.stderr) == (Exit.REFUSED, True)
    assert [g["group"] for g in cluster.json("groups", "list")] == ["readers"]
    refused = cluster.run("groups", "describe", "nobody", check=False)
    assert refused.returncode in {Exit.OK, Exit.REFUSED}


def _collected(seen, member):
    seen += member.poll()
    return len(seen)


def test_offsets_are_reset_and_groups_deleted(cluster):
    cluster.run("topics", "create", "ledger", "-p", 2, "-r", 2)
    cluster.run("produce", "ledger", stdin="".join(f"{n}\n" for n in range(50)))

    def reset(*words):
        return cluster.json("groups", "reset-offsets", "audit", "--to", *words)

    def lags():
        rows = cluster.json("groups", "describe", "audit")["offsets"]
        return {row["partition"]: row["lag"] for row in rows}

    assert len(reset("end", "-t", "ledger", "--execute")) == 2
    ends = {row["partition"]: row["committed"] for row in reset("start")}
    assert (sum(ends.values()), lags()) == (50, {0: 0, 1: 0})
    reset("-2", "-t", "ledger:0", "--execute")
    assert lags() == {0: min(2, ends[0]), 1: 0}
    reset("@-1h", "--execute")
    assert lags() == ends
    tried = cluster.run("groups", "delete-offsets", "audit", "-t", "ledger", "--dry-run").stderr
    assert tried == "would delete 2 offsets; nothing was changed\n"
    tried = cluster.run("groups", "delete", "audit", "--dry-run").stderr
    assert tried == "would delete group audit: 2 offsets; nothing was changed\n"
    assert lags() == ends
    cluster.run("groups", "delete-offsets", "audit", "-t", "ledger:1")
    assert lags() == {0: ends[0]}
    cluster.run("groups", "delete", "audit")
    assert "audit" not in {row["group"] for row in cluster.json("groups", "list")}
    last = cluster.run("consume", "ledger", "-e", "--offset", "-1").stdout
    assert len(last.splitlines()) == sum(end > 0 for end in ends.values())


def test_added_partitions_and_broker_states_are_shown(cluster):
    cluster.run("topics", "create", "growing", "-p", 1, "-r", 2)
    cluster.run("topics", "alter", "growing", "-p", 3, "--dry-run")
    assert sorted(cluster.partitions("growing")) == [0]
    cluster.run("topics", "alter", "growing", "-p", 3)
    assert sorted(cluster.partitions("growing")) == [0, 1, 2]
    brokers = cluster.json("brokers", "list")
    assert {row["state"] for row in brokers} == {"active"}
    assert sum(row["replicas"] for row in brokers) >= 6


def test_configs_of_every_resource_kind_are_altered(cluster):
    cluster.run("topics", "create", "tuned", "-p", 1, "-r", 3)
    broker = next(n["id"] for n in cluster.started["nodes"] if n["role"] == "broker")
    cluster.run("configs", "set", "topic/tuned", "retention.ms=5000", "cleanup.policy+=compact")
    cluster.run("configs", "set", f"broker/{broker}", "message.max.bytes=1100000")
    cluster.run("configs", "set", "broker", "log.retention.ms=7000000")
    cluster.run("configs", "set", "group/readers", "consumer.session.timeout.ms=50000")

    def value(resource, name):
        found = {row["name"]: row for row in cluster.json("configs", "get", resource)}
        return found[name]["value"], found[name]["source"] if name in found else None

    until(lambda: len(cluster.json("configs", "get", "topic/tuned")) >= 2, "the topic's configs")
    assert value("topic/tuned", "retention.ms") == ("5000", "topic")
    assert value("topic/tuned", "cleanup.policy") == ("delete,compact", "topic")
    until(lambda: cluster.json("configs", "get", "broker"), "the default of brokers")
    assert value("broker", "log.retention.ms") == ("7000000", "dynamic_default_broker")
    until(
        lambda: (
            next(
                (row["value"], row["source"])
                for row in cluster.json("configs", "get", f"broker/{broker}", "message.max.bytes")
            )
            == ("1100000", "dynamic_broker")
        ),
        "the broker's own config",
    )
    assert len(cluster.json("configs", "get", "topic/tuned", "--all")) > 20

    checked = cluster.run(
        "configs", "set", "topic/tuned", "retention.ms=x", "--dry-run", check=False
    )
    assert checked.returncode == Exit.REFUSED
    assert "INVALID_CONFIG" in checked.stderr
    cluster.run("configs", "delete", "topic/tuned", "retention.ms", "cleanup.policy")
    until(
        lambda: (
            not {"retention.ms", "cleanup.policy"}
            & {
                row["name"]
                for row in cluster.json("configs", "get", "topic/tuned")
                if row["source"] == "topic"
            }
        ),
        "the configs are gone",
    )
    gone = cluster.run("configs", "get", "broker/4711", check=False)
    assert gone.returncode == Exit.REFUSED
    assert "broker 4711 is not live" in gone.stderr


def test_features_are_listed_and_changed(cluster):
    levels = {row["feature"]: row["level"] for row in cluster.json("features", "list")}
    assert levels["metadata.version"] > 0
    downgrade = ("features", "downgrade", "eligible.leader.replicas.version=0", "--dry-run")
    assert "would change" in cluster.run(*downgrade).stderr
    refused = cluster.run("features", "upgrade", "metadata.version=999", check=False)
    assert refused.returncode == Exit.REFUSED
    assert [line.split(":")[0].strip() for line in refused.stderr.splitlines()] == [
        "error",
        "why",
        "fix",
    ]


def test_plan_moves_topic_to_other_brokers(cluster, tmp_path):
    cluster.run("topics", "create", "moved", "-p", 2, "-r", 2)
    brokers = sorted(n["id"] for n in cluster.started["nodes"] if n["role"] == "broker")
    current, plan = tmp_path / "current.json", tmp_path / "plan.json"
    two = [str(broker) for broker in brokers[1:]]
    too_few = cluster.run("reassign", "plan", "moved", "--to", two[0], check=False)
    assert too_few.returncode == Exit.REFUSED
    assert "INVALID_REPLICATION_FACTOR" in too_few.stderr
    made = cluster.run("reassign", "plan", "moved", "--to", *two, "--save-current", current)
    plan.write_text(made.stdout)
    cluster.run("reassign", "apply", plan)
    until(lambda: cluster.run("reassign", "verify", plan, check=False).returncode == 0, "the move")
    moved = cluster.json("partitions", "list", "--topic", "moved")
    assert all(set(row["replicas"]) == set(brokers[1:]) for row in moved)
    assert {partition["topic"] for partition in json.loads(current.read_text())["partitions"]} == {
        "moved"
    }
    until(
        lambda: cluster.run("topics", "list", "--under-replicated", check=False).returncode == 0,
        "all in step",
    )
    assert cluster.json("topics", "list", "--unavailable") == []
    at = cluster.run("topics", "list", "--at-min-isr", "-o", "json", check=False)
    assert at.returncode == (Exit.NO if json.loads(at.stdout) else Exit.OK)


def test_metadata_is_equal_on_disk_and_wire(cluster):
    def rows(*words):
        out = cluster.run("metadata", *words, "--type", "TopicRecord", "-o", "json").stdout
        return [json.loads(line) for line in out.splitlines()]

    tailed = rows("tail")
    assert "words" in [row["payload"]["name"] for row in tailed]
    assert rows("dump") == tailed
    assert "words" in cluster.run("metadata", "shell", "ls", "/image/topics/byName").stdout.split()
    later = cluster.run("metadata", "tail", "--start", tailed[-1]["offset"] + 1, "-o", "json")
    assert all(
        json.loads(line)["offset"] > tailed[-1]["offset"] for line in later.stdout.splitlines()
    )


def test_quorum_status_counts_every_node(cluster):
    status = cluster.json("quorum", "status")
    roles = sorted(replica["role"] for replica in status["replicas"])
    assert roles == ["follower"] * 2 + ["leader"] + ["observer"] * 3
    assert status["high_watermark"] > 0


def test_ongoing_moves_are_cancelled_after_dry_run(cluster, tmp_path):
    """A killed broker fetches no replicas, so the reassignment stays incomplete until it is cancelled."""
    victim, *others = sorted(n["id"] for n in cluster.started["nodes"] if n["role"] == "broker")
    plan = tmp_path / "plan.json"
    cluster.run("topics", "create", "stays", "-p", 1, "-r", 2)
    made = cluster.run("reassign", "plan", "stays", "--to", *map(str, others))
    stays = json.loads(made.stdout)
    plan.write_text(json.dumps(stays))
    cluster.run("reassign", "apply", plan)
    until(lambda: cluster.run("reassign", "verify", plan, check=False).returncode == 0, "the move")
    stays["partitions"][0]["replicas"] = [victim, others[0]]
    plan.write_text(json.dumps(stays))
    cluster.kill(victim)
    cluster.run("reassign", "apply", plan)
    tried = cluster.run("reassign", "cancel", plan, "--dry-run").stderr
    assert tried.endswith("1 reassignment would be cancelled; nothing was changed\n")
    assert [row["adding"] for row in cluster.json("reassign", "list")] == [[victim]]
    cluster.run("reassign", "cancel", plan)
    assert cluster.json("reassign", "list") == []
    cluster.restart(victim)


def test_chaos_accepts_id_name_or_leader(cluster):
    leader = cluster.active_controller()
    cluster.run("chaos", "kill", "leader")
    assert cluster.node(leader).state == "dead"
    assert cluster.run("ps", check=False).returncode == Exit.NO
    cluster.run("chaos", "restart", f"controller-{leader}")
    assert cluster.node(leader).state == "running"
    until(lambda: cluster.roles()[leader] == "follower", "it follows")
    cluster.run("chaos", "pause", 11)
    assert cluster.node(11).state == "paused"
    cluster.run("chaos", "resume", "broker-11")
    until(lambda: cluster.roles()[11] == "active", "it goes on")
    wrong = cluster.run("chaos", "kill", "broker-99", check=False)
    assert wrong.returncode == Exit.USAGE
    assert "11 (broker)" in wrong.stderr


def test_dry_run_of_chaos_and_down_changes_nothing(cluster):
    """A refused command fails in the same way with `--dry-run`."""
    before = cluster.json("ps")
    pid = cluster.node(11).pid
    for words, told in (
        (("chaos", "kill", 11), f"would kill broker-11 (pid {pid})"),
        (("chaos", "pause", 11), f"would pause broker-11 (pid {pid})"),
        (("chaos", "restart", 11), f"would restart broker-11 (pid {pid})"),
        (("chaos", "resume", "broker-11"), f"would resume broker-11 (pid {pid})"),
        (("chaos", "isolate", 11), "would isolate broker-11 from "),
        (("chaos", "partition", "1,11", "2,12"), "would cut 4 links between "),
        (("chaos", "heal"), "all nodes would reach each other again"),
        (("down",), f"broker-11 (pid {pid})"),
    ):
        assert told in cluster.run(*words, "--dry-run").stderr
    assert cluster.json("ps") == before
    wrong = [
        cluster.run("chaos", "partition", "1", "1", *dry_run, check=False)
        for dry_run in ((), ("--dry-run",))
    ]
    assert wrong[0].stderr == wrong[1].stderr
    assert {command.returncode for command in wrong} == {Exit.NO}


def test_dead_node_is_not_killed_again(cluster):
    cluster.run("chaos", "kill", 11)
    told = [
        cluster.run("chaos", "kill", 11, *dry_run, check=False) for dry_run in ((), ("--dry-run",))
    ]
    assert told[0].stderr == told[1].stderr
    assert "broker-11 is not running" in told[0].stderr
    assert (
        "would restart broker-11 (not running)"
        in cluster.run("chaos", "restart", 11, "--dry-run").stderr
    )
    cluster.run("chaos", "restart", 11)
    assert cluster.node(11).state == "running"
    until(lambda: cluster.roles()[11] == "active", "it is back")


def test_restart_of_node_that_cannot_start_fails(cluster):
    properties = Path(cluster.node(11).dir).with_suffix(".properties")
    before = properties.read_text()
    properties.write_text(before + "\nlog.dirs=/dev/null/none\n")
    try:
        failed = cluster.run("chaos", "restart", 11, check=False)
    finally:
        properties.write_text(before)
    assert failed.returncode != Exit.OK
    assert "broker-11 exited during startup; the other nodes go on" in failed.stderr
    cluster.run("chaos", "restart", 11)


def test_second_up_on_same_data_finds_everything(cluster):
    assert "already up" in cluster.run("up", "--dry-run", check=False).stderr
    assert (
        "would format and start broker-14 at a free port"
        in cluster.run("up", "--brokers", 4, "--dry-run").stderr
    )
    cluster.run("down")
    assert "would start broker-11 at 127.0.0.1:" in cluster.run("up", "--dry-run").stderr
    assert "is not running" in cluster.run("down", "--dry-run").stderr
    again = cluster.json("up", "-d", "--override", "num.partitions=7")
    assert again["bootstrap"] == cluster.bootstrap
    assert len(cluster.run("consume", "words", "-e").stdout.splitlines()) == 100
    assert (
        sum(row["committed"] for row in cluster.json("groups", "describe", "readers")["offsets"])
        == 100
    )
    cluster.run("topics", "create", "by-default")
    assert len(cluster.partitions("by-default")) == 7


def test_voters_and_brokers_are_fixed_at_first_start(cluster):
    cluster.run("down")
    for options in (("--controllers", 5), ("--brokers", 1)):
        done = cluster.run("up", "-d", *options, check=False)
        assert done.returncode == Exit.USAGE
    wrong = cluster.run("up", "-d", "--override", "num.partitions=many", check=False)
    assert wrong.returncode == Exit.USAGE
    assert "num.partitions=many" in wrong.stderr


def test_listener_of_other_kind_is_reported(cluster):
    cluster.run("up", "-d")
    brokers, controllers = cluster.state.bootstrap, cluster.state.controller_bootstrap
    for words in (("quorum", "status", "-B", brokers), ("metadata", "ls", "-B", brokers)):
        wrong = trimaran(*words, check=False)
        assert wrong.returncode == Exit.USAGE
        assert "is a broker's listener, and this command asks controllers" in wrong.stderr
    wrong = trimaran("topics", "list", "-b", controllers, check=False)
    assert wrong.returncode == Exit.USAGE
    assert "is a controller's listener, and this command asks brokers" in wrong.stderr
    cluster.run("down")


def test_supervisor_that_cannot_start_is_explained(cluster):
    log = cluster.data / "supervisor.log"
    kept = log.rename(log.with_suffix(".old"))
    log.mkdir()
    try:
        failed = cluster.run("up", "-d", check=False)
    finally:
        log.rmdir()
        kept.rename(log)
    assert failed.returncode == Exit.NO
    assert f"cannot use {log}" in failed.stderr
    assert "Is a directory" in failed.stderr


def test_purge_leaves_nothing(cluster):
    cluster.run("up", "-d")
    pids = [(node.pid, node.started) for node in cluster.state.nodes]
    unsaid = cluster.run("purge", check=False, stdin="")
    assert unsaid.returncode == Exit.USAGE
    assert "--yes" in unsaid.stderr
    assert cluster.data.exists()
    report = cluster.data / "report" / "index.html"
    report.parent.mkdir()
    report.write_text("mine")
    asked = cluster.run("purge", "--dry-run")
    assert "would keep what is not its own: report" in asked.stderr
    assert cluster.json("ps")["nodes"], "it runs on"
    assert "kept what is not its own: report" in cluster.run("purge", "-y").stderr
    assert report.read_text() == "mine"
    report.unlink()
    report.parent.rmdir()
    assert list(cluster.data.iterdir()) == []
    cluster.data.rmdir()
    assert not any(is_alive(*pid) for pid in pids)
    assert trimaran("ps", "--data", cluster.data, check=False).returncode == Exit.USAGE
