"""Apache Kafka's tool throttles a reassignment in our cluster (KIP-73): it takes as long as the rate implies, and the
throttle is then removed.
"""

import json
import threading
import time

import pytest

from tests.cluster.processes import until
from tests.interop import apache_kafka

TOPIC = "throttled"
RECORDS, RECORD_BYTES = 60_000, 1000
RATE = 4_000_000
# The bytes of one window arrive before the first pause, and a fetch may exceed them.
RATE_MAX = RATE * 1.3
# The tool takes some seconds to set the throttle, and the machine may be busy.
RATE_MIN = RATE * 0.6


class Growth(threading.Thread):
    """Measures the size of a topic in a directory until it is stopped."""

    def __init__(self, directory, topic):
        super().__init__()
        self._directory = directory
        self._topic = topic
        self._stopped = threading.Event()
        self._seen = []

    def run(self):
        while not self._stopped.wait(0.05):
            logs = self._directory.glob(f"{self._topic}-*/*.log")
            self._seen.append((time.monotonic(), sum(log.stat().st_size for log in logs)))

    def stop(self):
        self._stopped.set()
        self.join()

    def rate(self):
        """Returns the bytes per second from the first growth to the last."""
        end = self._seen[-1][1]
        began = max(at for at, size in self._seen if size == 0)
        ended = min(at for at, size in self._seen if size == end)
        return end / (ended - began)


def tool(name, *arguments, **options):
    return apache_kafka.tool(name, *arguments, **options).stdout


@pytest.fixture
def filled(ours):
    server = ("--bootstrap-server", ours.bootstrap)
    tool("topics", *server, "--create", "--topic", TOPIC, "--replica-assignment", "11,11")
    tool(
        "producer-perf-test", "--topic", TOPIC, "--num-records", str(RECORDS),
        "--record-size", str(RECORD_BYTES), "--throughput", "-1",
        "--bootstrap-server", ours.bootstrap,
    )  # fmt: skip
    yield
    tool("topics", *server, "--delete", "--topic", TOPIC)


def reassign(ours, plan, *options):
    return tool(
        "reassign-partitions", "--bootstrap-server", ours.bootstrap,
        "--reassignment-json-file", str(plan), *options,
    )  # fmt: skip


def throttles(ours):
    """Returns all throttle configs of the topic and the brokers."""
    server = ("--bootstrap-server", ours.bootstrap, "--describe")
    text = tool("configs", *server, "--entity-type", "topics", "--entity-name", TOPIC)
    text += tool("configs", *server, "--entity-type", "brokers", "--entity-name", "11")
    text += tool("configs", *server, "--entity-type", "brokers", "--entity-name", "12")
    return [line.split()[0] for line in text.splitlines() if ".throttled." in line]


def test_throttled_reassignment_keeps_its_rate(ours, filled, tmp_path):
    partitions = [{"topic": TOPIC, "partition": index, "replicas": [11, 12]} for index in (0, 1)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    growth = Growth(ours.directory("broker-12"), TOPIC)
    growth.start()
    text = reassign(ours, plan, "--execute", "--throttle", str(RATE))
    assert f"The inter-broker throttle limit was set to {RATE} B/s" in text
    assert len(throttles(ours)) == 6

    def done():
        found = ours.run("topics", "describe", TOPIC, "-o", "json").stdout
        return all(len(partition["isr"]) == 2 for partition in json.loads(found)["partitions"])

    until(done, "the new replicas are in sync", 120.0)
    growth.stop()
    print(f"{growth.rate():,.0f} B/s of {RATE:,}")
    assert RATE_MIN <= growth.rate() <= RATE_MAX
    text = reassign(ours, plan, "--verify")
    assert text.count("is completed") == 2
    assert "Clearing broker-level throttles" in text
    assert "Clearing topic-level throttles" in text
    assert throttles(ours) == []
