"""Several log directories, served by us and by Apache Kafka in turn; Kafka's `kafka-log-dirs` describes both."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.cluster.processes import until
from tests.interop import apache_kafka
from tests.interop.conftest import trimaran
from tests.interop.test_replication_throttle import (
    RATE,
    RATE_MAX,
    RATE_MIN,
    RECORD_BYTES,
    RECORDS,
    Growth,
)
from tests.librdkafka import Producer

pytestmark = pytest.mark.interop
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
MOVED_BYTES = RECORDS * RECORD_BYTES
VALUES = sorted(f"value {number}" for number in range(400))


def log_dirs(bootstrap):
    """Returns the partitions of `t` by the last letter of their directory, as the tool prints them; future replicas are
    omitted.
    """
    arguments = ("--bootstrap-server", bootstrap, "--describe", "--topic-list", "t")
    command = apache_kafka.java(LOG_DIRS, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    [found] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    [broker] = found["brokers"]
    assert {log_dir["error"] for log_dir in broker["logDirs"]} == {None}
    return {
        log_dir["logDir"][-1]: sorted(
            each["partition"] for each in log_dir["partitions"] if not each["isFuture"]
        )
        for log_dir in broker["logDirs"]
    }


def read(bootstrap):
    arguments = ("--bootstrap-server", bootstrap, "--topic", "t", "--from-beginning")
    limits = ("--max-messages", "400", "--timeout-ms", "30000")
    text = apache_kafka.tool("console-consumer", *arguments, *limits).stdout
    return sorted(text.split("\n")[:-1])


def planned(tmp_path):
    """Formats one node with two directories; returns it."""
    plan = apache_kafka.plan(tmp_path, controllers=0, brokers=1)
    plan.settings["log.dirs"] = f"{tmp_path}/a,{tmp_path}/b"
    node = plan.brokers[0]
    plan.write_properties(node)
    file = str(plan.file(node))
    trimaran(
        "storage", "format", "-t", trimaran("storage", "random-uuid").stdout.strip(), "-c", file
    )
    return plan


@contextmanager
def us(plan):
    """Serves the node by ours."""
    file = str(plan.file(plan.brokers[0]))
    running = subprocess.Popen([sys.executable, "-m", "trimaran", "server", "start", "-c", file])
    try:
        plan.wait_ready()
        yield
    finally:
        running.terminate()
        running.wait(30)


def test_both_serve_the_same_two_directories(tmp_path):
    plan = planned(tmp_path)
    with us(plan):
        server = ("--bootstrap-server", plan.bootstrap)
        apache_kafka.tool("topics", *server, "--create", "--topic", "t", "--partitions", "4")
        producer = Producer({"bootstrap.servers": plan.bootstrap, "acks": "all"})
        for number in range(400):
            producer.produce("t", f"value {number}", partition=number % 4)
        assert producer.flush(30) == 0
        placed = log_dirs(plan.bootstrap)
        assert {key: len(partitions) for key, partitions in placed.items()} == {"a": 2, "b": 2}
    plan.start()
    try:
        plan.wait_ready()
        assert log_dirs(plan.bootstrap) == placed
        assert read(plan.bootstrap) == VALUES
    finally:
        plan.stop()
    with us(plan):
        assert log_dirs(plan.bootstrap) == placed
        assert read(plan.bootstrap) == VALUES


def test_throttled_move_between_directories_keeps_its_rate(tmp_path):
    """Kafka's tool moves the replicas, and also removes the throttle."""
    plan = planned(tmp_path)
    with us(plan):
        server = ("--bootstrap-server", plan.bootstrap)
        apache_kafka.tool("topics", *server, "--create", "--topic", "t", "--partitions", "1")
        producer = Producer({"bootstrap.servers": plan.bootstrap, "acks": "all"})
        for _ in range(MOVED_BYTES // RECORD_BYTES):
            producer.produce("t", bytes(RECORD_BYTES), partition=0)
            producer.poll(0)
        assert producer.flush(60) == 0
        [other] = [key for key, partitions in log_dirs(plan.bootstrap).items() if not partitions]
        where = {"replicas": [plan.brokers[0].id], "log_dirs": [str(tmp_path / other)]}
        moves = tmp_path / "moves.json"
        moves.write_text(
            json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, **where}]})
        )
        reassign = (*server, "--reassignment-json-file", str(moves))
        growth = Growth(tmp_path / other, "t")
        growth.start()
        try:
            throttle = ("--replica-alter-log-dirs-throttle", str(RATE))
            text = apache_kafka.tool("reassign-partitions", *reassign, "--execute", *throttle)
            assert f"replica-alter-dir throttle limit was set to {RATE} B/s" in text.stdout
            until(lambda: log_dirs(plan.bootstrap)[other] == ["t-0"], "the log has moved", 120.0)
        finally:
            growth.stop()
        print(f"{growth.rate():,.0f} B/s of {RATE:,}")
        assert RATE_MIN <= growth.rate() <= RATE_MAX
        text = apache_kafka.tool("reassign-partitions", *reassign, "--verify").stdout
        assert "completed successfully" in text
        assert "Clearing broker-level throttles" in text
        broker = str(plan.brokers[0].id)
        described = ("--describe", "--entity-type", "brokers", "--entity-name", broker)
        assert (
            "io.max.bytes.per.second"
            not in apache_kafka.tool("configs", *server, *described).stdout
        )
