"""Apache Kafka 4.4's own tools and JVM clients, unmodified, against our brokers, controllers and directories."""

import json
import re
import subprocess
import sys
import time

import pytest

from tests.interop import apache_kafka
from tests.librdkafka import Producer


def tool(name, *arguments, **options):
    return apache_kafka.tool(name, *arguments, **options).stdout


def test_metadata_quorum_describes_our_status(ours):
    text = tool(
        "metadata-quorum", "--bootstrap-controller", ours.controllers, "describe", "--status"
    )
    assert re.search(r"LeaderId:\s+[123]\b", text), text
    assert _ids(text, "CurrentVoters") == {1, 2, 3}
    assert _ids(text, "CurrentObservers") == {11, 12, 13}


def _ids(text, name):
    listed = re.search(rf"{name}:\s+(\[.*\])", text)
    assert listed, text
    return {node["id"] for node in json.loads(listed.group(1))}


def test_metadata_quorum_describes_our_replication_by_broker(ours):
    text = tool(
        "metadata-quorum", "--bootstrap-server", ours.bootstrap, "describe", "--replication"
    )
    rows = [line.split() for line in text.splitlines()[1:] if line.strip()]
    assert sorted(row[-1] for row in rows) == ["Follower"] * 2 + ["Leader"] + ["Observer"] * 3, text


@pytest.mark.client("Java", "administration", version=apache_kafka.VERSION)
def test_topics_are_created_described_altered_and_deleted(ours):
    server = ("--bootstrap-server", ours.bootstrap)
    tool(
        "topics",
        *server,
        "--create",
        "--topic",
        "by-tool",
        "--partitions",
        "3",
        "--replication-factor",
        "3",
    )
    text = tool("topics", *server, "--describe", "--topic", "by-tool")
    assert "PartitionCount: 3" in text
    assert "ReplicationFactor: 3" in text
    assert len(re.findall(r"Leader: 1[123]\b", text)) == 3, text
    assert len(re.findall(r"Elr: \tLastKnownElr: ?$", text, re.MULTILINE)) == 3, text
    tool("topics", *server, "--alter", "--topic", "by-tool", "--partitions", "5")
    tool(
        "configs",
        *server,
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        "by-tool",
        "--add-config",
        "retention.ms=60000",
    )
    assert "retention.ms=60000" in tool(
        "configs", *server, "--describe", "--entity-type", "topics", "--entity-name", "by-tool"
    )
    assert "PartitionCount: 5" in tool("topics", *server, "--describe", "--topic", "by-tool")
    tool("topics", *server, "--delete", "--topic", "by-tool")
    assert "by-tool" not in tool("topics", *server, "--list")


@pytest.mark.client("Java", "classic groups", version=apache_kafka.VERSION)
def test_jvm_producer_and_group_exchange_records(ours):
    server = ("--bootstrap-server", ours.bootstrap)
    tool(
        "topics",
        *server,
        "--create",
        "--topic",
        "jvm",
        "--partitions",
        "3",
        "--replication-factor",
        "3",
    )
    lines = [f"line {i}" for i in range(500)]
    producer = (
        "--bootstrap-server",
        ours.bootstrap,
        "--topic",
        "jvm",
        "--command-property",
        "acks=all",
    )
    tool("console-producer", *producer, stdin="\n".join(lines) + "\n")
    text = tool(
        "console-consumer", *server, "--topic", "jvm", "--group", "jvm-group", "--from-beginning",
        "--max-messages", "500", "--timeout-ms", "30000",
    )  # fmt: skip
    assert sorted(text.split("\n")[:-1]) == sorted(lines)
    described = tool("consumer-groups", *server, "--describe", "--group", "jvm-group")
    rows = [line.split() for line in described.splitlines() if line.startswith("jvm-group")]
    # A partition without any of the 500 records that the consumer read may have no commit, and therefore no row.
    assert sum(int(row[3]) for row in rows) == 500, described
    assert {row[5] for row in rows} == {"0"}, described


@pytest.mark.client("Java", "records", version=apache_kafka.VERSION)
def test_jvm_performance_producer_is_idempotent_with_acks_all(ours):
    server = ("--bootstrap-server", ours.bootstrap)
    tool(
        "topics",
        *server,
        "--create",
        "--topic",
        "perf",
        "--partitions",
        "3",
        "--replication-factor",
        "3",
    )
    text = tool(
        "producer-perf-test", "--topic", "perf", "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={ours.bootstrap}", "acks=all", "enable.idempotence=true",
    )  # fmt: skip
    assert "20000 records sent" in text


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_dump_log_reads_our_segments(ours, codec):
    topic = f"dump-{codec}"
    ours.run("topics", "create", topic, "-p", "1", "-r", "3")
    producer = Producer(
        {"bootstrap.servers": ours.bootstrap, "compression.type": codec, "linger.ms": 20}
    )
    for i in range(1000):
        producer.produce(topic, f"value {i}", f"key {i}", headers=[("h", b"x")], partition=0)
    assert producer.flush(30) == 0
    files = sorted(ours.directory("broker-11").glob(f"{topic}-0/*.log"))
    text = tool(
        "dump-log", "--files", ",".join(map(str, files)), "--deep-iteration", "--print-data-log"
    )
    assert len(re.findall(r"payload: value \d+", text)) == 1000
    assert "isvalid: false" not in text
    index = sorted(ours.directory("broker-11").glob(f"{topic}-0/*index"))
    checked = apache_kafka.tool(
        "dump-log", "--files", ",".join(map(str, index)), "--index-sanity-check"
    )
    assert "passed sanity check" in checked.stdout, checked


def test_dump_log_decodes_our_metadata_log(ours):
    files = sorted(ours.directory("controller-1").glob("__cluster_metadata-0/*.log"))
    text = tool("dump-log", "--files", ",".join(map(str, files)), "--cluster-metadata-decoder")
    for expected in (
        "LeaderChange",
        "REGISTER_BROKER_RECORD",
        "FEATURE_LEVEL_RECORD",
        "PARTITION_RECORD",
    ):
        assert expected in text
    assert "isvalid: false" not in text


def test_dump_log_decodes_our_committed_offsets(ours):
    directories = [
        d for d in ours.directory("broker-11").glob("__consumer_offsets-*") if any(d.glob("*.log"))
    ]
    files = ",".join(str(f) for d in directories for f in d.glob("*.log") if f.stat().st_size)
    text = tool("dump-log", "--files", files, "--offsets-decoder")
    assert "jvm-group" in text


def test_directory_formatted_by_us_boots_kafka(tmp_path):
    """We format a directory with a properties file; Apache Kafka then serves it with the same file."""
    from tests.interop.conftest import trimaran

    plan = apache_kafka.plan(tmp_path, controllers=0, brokers=1)
    node = plan.brokers[0]
    plan.write_properties(node)
    cluster_id = trimaran("storage", "random-uuid").stdout.strip()
    trimaran("storage", "format", "-t", cluster_id, "-c", str(plan.file(node)))
    plan.start()
    try:
        plan.wait_ready()
        described = tool("cluster", "cluster-id", "--bootstrap-server", plan.bootstrap)
        assert cluster_id in described
    finally:
        plan.stop()


def test_api_versions_are_all_known_to_tool(ours):
    text = tool("cluster", "api-versions", "--bootstrap-server", ours.bootstrap)
    assert text.count("(id: 1") == 3, text


def test_dump_log_decodes_our_snapshots(tmp_path):
    from tests.interop.conftest import trimaran

    override = ("--override", "metadata.log.max.record.bytes.between.snapshots=1000")
    trimaran("up", "-d", "--controllers", "1", "--brokers", "1", *override, data=tmp_path)
    try:
        trimaran("topics", "create", "in-a-snapshot", "-p", "3", data=tmp_path)
        directory = tmp_path / "controller-1" / "__cluster_metadata-0"
        deadline = time.monotonic() + 20
        first = "0" * 20  # the snapshot of formatting, with the voters only
        while not (found := [f for f in directory.glob("*.checkpoint") if first not in f.name]):
            assert time.monotonic() < deadline, "no snapshot was written"
    finally:
        trimaran("down", data=tmp_path)
    text = tool("dump-log", "--files", str(found[-1]), "--cluster-metadata-decoder")
    for expected in ("SnapshotHeader", "FEATURE_LEVEL_RECORD", "SnapshotFooter"):
        assert expected in text
    assert "isvalid: false" not in text


def test_same_file_and_directory_serve_both_in_turn(tmp_path):
    """Kafka formats the directory, then we serve it, then Kafka, all with the same properties file, and with the same
    bytes.
    """
    plan = apache_kafka.plan(tmp_path, controllers=0, brokers=1)
    plan.write_properties(plan.brokers[0])
    plan.format()
    server = ("--bootstrap-server", plan.bootstrap)
    command = [
        sys.executable,
        "-m",
        "trimaran",
        "server",
        "start",
        "-c",
        str(plan.file(plan.brokers[0])),
    ]
    us = subprocess.Popen(command)
    try:
        plan.wait_ready()
        tool("topics", *server, "--create", "--topic", "shared", "--partitions", "2")
        producer = Producer({"bootstrap.servers": plan.bootstrap, "acks": "all"})
        for i in range(100):
            producer.produce("shared", f"value {i}", partition=i % 2)
        assert producer.flush(30) == 0
    finally:
        us.terminate()
        us.wait(30)
    plan.start()
    try:
        plan.wait_ready()
        text = tool(
            "console-consumer", *server, "--topic", "shared", "--from-beginning", "--max-messages", "100",
            "--timeout-ms", "30000",
        )  # fmt: skip
        assert sorted(text.split("\n")[:-1]) == sorted(f"value {i}" for i in range(100))
    finally:
        plan.stop()
