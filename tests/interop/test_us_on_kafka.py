"""Our mirror, readers and command line against a real Apache Kafka 4.4."""

import contextlib
import json
import shutil
import subprocess
import sys

import pytest

from tests.cluster.processes import until
from tests.interop import apache_kafka
from tests.interop.conftest import trimaran
from tests.librdkafka import Producer
from tests.trimaran.mistakes import told_of_mistakes
from trimaran.log.batches.records import decode_records
from trimaran.log.inspection.reader import scan_batches
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

assert_told = told_of_mistakes
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_our_reader_reads_segments_that_kafka_wrote(kafka, codec):
    topic = f"read-{codec}"
    server = ("--bootstrap-server", kafka.bootstrap)
    apache_kafka.tool(
        "topics",
        *server,
        "--create",
        "--topic",
        topic,
        "--partitions",
        "1",
        "--replication-factor",
        "2",
    )
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "compression.type": codec,
            "acks": "all",
            "linger.ms": 20,
        }
    )
    for i in range(1000):
        producer.produce(
            topic,
            f"value {i}",
            None if i % 10 == 0 else f"key {i}",
            headers=[("h", b"x")],
            partition=0,
        )
    assert producer.flush(30) == 0
    segment = next((kafka.brokers[0].directory / f"{topic}-0").glob("*.log"))
    records = [r for _, batch in scan_batches(segment) for r in decode_records(batch)]
    assert [r.value for r in records] == [b"value %d" % i for i in range(1000)]
    assert [r.offset for r in records] == list(range(1000))
    assert records[10].key is None
    assert records[11].key == b"key 11"


def test_metadata_dump_and_tail_decode_kafkas_log(kafka):
    directory = str(kafka.controllers[0].directory)
    dumped = [
        json.loads(line)
        for line in trimaran("metadata", "dump", directory, "-o", "json").stdout.splitlines()
    ]
    types = {row["type"] for row in dumped}
    assert {"RegisterBrokerRecord", "FeatureLevelRecord", "TopicRecord", "PartitionRecord"} <= types
    tailed = trimaran(
        "metadata", "tail", "-B", kafka.controller_bootstrap, "-o", "json"
    ).stdout.splitlines()
    assert len(tailed) > 5
    assert {json.loads(line)["type"] for line in tailed} >= {"TopicRecord"}


def test_our_commands_work_on_kafka(kafka):
    server = ("-b", kafka.bootstrap)
    trimaran("topics", "create", "by-us", "-p", "2", "-r", "2", *server)
    trimaran("produce", "by-us", *server, stdin="one\ntwo\nthree\n")
    assert sorted(trimaran("consume", "by-us", "-e", *server).stdout.split()) == [
        "one",
        "three",
        "two",
    ]
    described = json.loads(trimaran("topics", "describe", "by-us", "-o", "json", *server).stdout)
    assert [sorted(p["isr"]) for p in described["partitions"]] == [[11, 12], [11, 12]]
    assert [p["elr"] for p in described["partitions"]] == [[], []]
    status = json.loads(
        trimaran("quorum", "status", "-B", kafka.controller_bootstrap, "-o", "json").stdout
    )
    assert status["leader_id"] == 1
    trimaran("topics", "delete", "by-us", *server)


def test_mistakes_are_reported_as_on_ours(kafka, assert_told):
    trimaran("topics", "create", "t", "-p", "2", "-r", "2", "-b", kafka.bootstrap)
    assert_told(kafka.bootstrap, kafka.controller_bootstrap)


def test_our_bench_loads_kafka(kafka):
    server = ("-b", kafka.bootstrap, "-o", "json")
    trimaran("topics", "create", "bench", "-p", "4", "-r", "2", "-b", kafka.bootstrap)
    produced = json.loads(trimaran("bench", "produce", "bench", "-n", "50000", *server).stdout)
    consumed = json.loads(trimaran("bench", "consume", "bench", *server).stdout)
    assert [result["records"] for result in (produced, consumed)] == [50_000, 50_000]
    for options in (("--acks", "1", "--compression", "zstd"), ("--rate", "2000", "-c", "2")):
        words = ("bench", "produce", "bench", "-n", "1000", *options)
        found = json.loads(trimaran(*words, *server).stdout)
        assert found["records"] == 1000
        assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["max"]


def test_our_quotas_are_kafkas(kafka):
    """Checks that Kafka's tool shows our settings, and that we list Kafka's."""
    server, quota = ("-b", kafka.bootstrap), "controller_mutation_rate=2.5"
    trimaran("quotas", "set", "user=alice", "client-id=etl", quota, *server)
    trimaran("quotas", "set", "user", "producer_byte_rate=1048576", *server)
    trimaran("quotas", "set", "ip=10.0.0.7", "connection_creation_rate=3", "--dry-run", *server)
    shown = apache_kafka.tool(
        *("configs", "--bootstrap-server", kafka.bootstrap, "--describe"),
        *("--entity-type", "users", "--entity-name", "alice"),
        *("--entity-type", "clients", "--entity-name", "etl"),
    )
    assert quota in shown.stdout
    found = json.loads(trimaran("quotas", "list", "-o", "json", *server).stdout)
    assert [(row["entity"], row["quota"], row["value"]) for row in found] == [
        ("user", "producer_byte_rate", 1048576),
        ("user=alice client-id=etl", "controller_mutation_rate", 2.5),
    ]
    trimaran("quotas", "delete", "user", *server)
    trimaran("quotas", "delete", "user=alice", "client-id=etl", *server)
    assert json.loads(trimaran("quotas", "list", "-o", "json", *server).stdout) == []


def test_mirror_keeps_a_zookeeper_for_kafka(kafka, tmp_path):
    """Changes of topics by Kafka's tools are mirrored in ZooKeeper, znode by znode."""
    server = ("--bootstrap-server", kafka.bootstrap)
    zookeeper = start_zookeeper(tmp_path / "zookeeper")
    command = [sys.executable, "-m", "trimaran", "zk", "mirror", "-B", kafka.controller_bootstrap]
    mirror = subprocess.Popen(
        [*command, "-z", zookeeper.connect, "--state", str(tmp_path / "mirror")]
    )
    verify = ("zk", "verify", "-B", kafka.controller_bootstrap, "-z", zookeeper.connect)
    try:
        for name in ("mirrored", "short-lived"):
            apache_kafka.tool(
                "topics",
                *server,
                "--create",
                "--topic",
                name,
                "--partitions",
                "4",
                "--replication-factor",
                "2",
            )
        apache_kafka.tool("topics", *server, "--alter", "--topic", "mirrored", "--partitions", "6")
        config = (
            "--entity-type",
            "topics",
            "--entity-name",
            "mirrored",
            "--add-config",
            "retention.ms=60000",
        )
        apache_kafka.tool("configs", *server, "--alter", *config)
        apache_kafka.tool("topics", *server, "--delete", "--topic", "short-lived")
        done = trimaran(*verify)
        assert ", 0 missing, 0 extra, 0 different" in done.stdout
        assert (
            len(
                trimaran(
                    "zk", "tree", "/brokers/topics/mirrored/partitions", "-z", zookeeper.connect
                ).stdout.splitlines()
            )
            == 13
        )
        assert (
            trimaran(
                "zk", "get", "/brokers/topics/short-lived", "-z", zookeeper.connect, check=False
            ).returncode
            == 1
        )
        ids = trimaran("zk", "tree", "/brokers/ids", "-z", zookeeper.connect).stdout
        assert "/brokers/ids/11 (ephemeral)" in ids
        assert "/brokers/ids/12 (ephemeral)" in ids
    finally:
        mirror.terminate()
        mirror.wait(20)
        zookeeper.stop()


def test_our_tree_is_that_of_kafkas_metadata_shell(tmp_path):
    """Paths and texts are equal, byte for byte, for a log of the last Kafka whose shell was published."""
    version = apache_kafka.SHELL_VERSION
    with apache_kafka.running(tmp_path / "kafka", brokers=2, heap="512m", version=version) as kafka:
        trimaran("topics", "create", "in-the-tree", "-p", "2", "-r", "2", "-b", kafka.bootstrap)
        copied = tmp_path / "log"
        shutil.copytree(kafka.controllers[0].directory / "__cluster_metadata-0", copied)
    log = str(next(copied.glob("*.log")))

    said = []

    def is_said(ours, *command):
        """Whether Kafka's shell prints the text. It responds once it has applied any record (`waitUntilCaughtUp`), so a
        repeated command may print more.
        """
        asked = ("--snapshot", log, *command)
        lines = apache_kafka.tool("metadata-shell", *asked, version=version).stdout
        said[:] = [line for line in lines.split("\n") if line]
        return said == ours

    def expect(ours, *command):
        with contextlib.suppress(AssertionError):  # the next command may print more
            until(lambda: is_said(ours, *command), "its shell says the same", seconds=60)
        assert ours == said

    topic = "/image/topics/byName/in-the-tree"
    paths = trimaran("metadata", "find", "/image", "-p", log).stdout.split()
    assert topic in paths
    expect(paths, "find", "/image")
    files = [f"{topic}/0", f"{topic}/id", "/image/features/metadataVersion", "/image/provenance"]
    files += [path for path in paths if path.startswith("/image/cluster/") and path.count("/") > 3]
    for file in files:
        expect([trimaran("metadata", "cat", file, "-p", log).stdout.strip()], "cat", file)


def test_our_readings_of_kafkas_quorum_agree(kafka):
    """The state is read from the running quorum and from its directory, with the list of leaders."""
    live = json.loads(trimaran("metadata", "image", "-B", kafka.controller_bootstrap).stdout)
    directory = str(kafka.controllers[0].directory)
    at = ("--at", str(live["offset"]))
    assert json.loads(trimaran("metadata", "image", directory, *at).stdout) == live
    assert "0 problems" in trimaran("metadata", "verify", directory).stdout
    epochs = json.loads(trimaran("quorum", "history", directory, "-o", "json").stdout)
    assert {epoch["leader_id"] for epoch in epochs} == {kafka.controllers[0].id}
