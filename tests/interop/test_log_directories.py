"""Several log directories, served by us and by Apache Kafka in turn; its `kafka-log-dirs` describes both."""

import json
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from tests.interop import apache_kafka
from tests.interop.conftest import trimaran

pytestmark = pytest.mark.interop
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
VALUES = sorted(f"value {number}" for number in range(400))


def log_dirs(bootstrap):
    """Partitions of `t` by the last letter of their directory, as the tool prints them."""
    arguments = ("--bootstrap-server", bootstrap, "--describe", "--topic-list", "t")
    command = apache_kafka.java(LOG_DIRS, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    [found] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    [broker] = found["brokers"]
    assert {one["error"] for one in broker["logDirs"]} == {None}
    return {
        one["logDir"][-1]: sorted(each["partition"] for each in one["partitions"])
        for one in broker["logDirs"]
    }


def read(bootstrap):
    arguments = ("--bootstrap-server", bootstrap, "--topic", "t", "--from-beginning")
    limits = ("--max-messages", "400", "--timeout-ms", "30000")
    text = apache_kafka.tool("console-consumer", *arguments, *limits).stdout
    return sorted(text.split("\n")[:-1])


def test_kafka_and_we_serve_the_same_two_directories(tmp_path):
    plan = apache_kafka.plan(tmp_path, controllers=0, brokers=1)
    plan.settings["log.dirs"] = f"{tmp_path}/a,{tmp_path}/b"
    node = plan.brokers[0]
    plan.write_properties(node)
    file = str(plan.file(node))
    trimaran(
        "storage", "format", "-t", trimaran("storage", "random-uuid").stdout.strip(), "-c", file
    )
    command = [sys.executable, "-m", "trimaran", "server", "start", "-c", file]
    us = subprocess.Popen(command)
    try:
        plan.wait_ready()
        server = ("--bootstrap-server", plan.bootstrap)
        apache_kafka.tool("topics", *server, "--create", "--topic", "t", "--partitions", "4")
        producer = Producer({"bootstrap.servers": plan.bootstrap, "acks": "all", "log_level": 0})
        for number in range(400):
            producer.produce("t", f"value {number}", partition=number % 4)
        assert producer.flush(30) == 0
        placed = log_dirs(plan.bootstrap)
        assert {key: len(partitions) for key, partitions in placed.items()} == {"a": 2, "b": 2}
    finally:
        us.terminate()
        us.wait(30)
    plan.start()
    try:
        plan.wait_ready()
        assert log_dirs(plan.bootstrap) == placed
        assert read(plan.bootstrap) == VALUES
    finally:
        plan.stop()
    us = subprocess.Popen(command)
    try:
        plan.wait_ready()
        assert log_dirs(plan.bootstrap) == placed
        assert read(plan.bootstrap) == VALUES
    finally:
        us.terminate()
        us.wait(30)
