"""docs/moving.md, followed step by step: a cluster of Apache Kafka 4.4 becomes one of ours, node by node, while clients
write and a group reads; then a broker moves back.
"""

import json
import signal
import subprocess
import sys

import pytest
from confluent_kafka.admin import NewTopic

from tests.cluster.processes import until
from tests.interop import apache_kafka, manual
from tests.interop.conftest import trimaran
from tests.librdkafka import AdminClient, Consumer, Producer

PAGE = "moving.md"
TOPIC, PARTITIONS = "orders", 4
RECORDS = 40  # records written at each step
SECONDS = 180.0  # a JVM starts within a minute on a busy machine


class Clients:
    """A producer and a consumer group that run throughout the test."""

    def __init__(self, bootstrap):
        settings = {"bootstrap.servers": bootstrap}
        topic = NewTopic(TOPIC, PARTITIONS, 2, config={"min.insync.replicas": "1"})
        admin = AdminClient(settings)
        admin.create_topics([topic])[TOPIC].result(SECONDS)
        self.producer = Producer({**settings, "enable.idempotence": True})
        self.consumer = Consumer(
            {
                **settings,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self.consumer.subscribe([TOPIC])
        self.written = 0
        self.failed = []

    def write_and_read(self):
        """Checks that newly written records are read once, in the order of their partition."""
        new = range(self.written, self.written + RECORDS)
        for number in new:
            self.producer.produce(
                TOPIC, f"{number}", partition=number % PARTITIONS, on_delivery=self._on_delivery
            )
        assert self.producer.flush(SECONDS) == 0
        assert self.failed == []
        self.written += RECORDS
        found = {partition: [] for partition in range(PARTITIONS)}
        for _ in new:
            message = self.consumer.poll(SECONDS)
            assert message is not None, found
            assert message.error() is None
            found[message.partition()].append(int(message.value()))
        for partition, numbers in found.items():
            assert numbers == [number for number in new if number % PARTITIONS == partition]
        self.consumer.commit(asynchronous=False)

    def _on_delivery(self, error, _):
        if error is not None:
            self.failed.append(str(error))


class Moving:
    """Types the page's commands at one node after another of a cluster."""

    def __init__(self, kafka):
        self.kafka = kafka
        self.ours = {}
        self.node = None

    def follow(self, heading, node=None):
        self.node = node
        places = {
            "kafka-1:9092": self.kafka.bootstrap,
            "kafka-1:9093": self.kafka.controller_bootstrap,
        }
        if node is not None:
            file = str(self.kafka.file(node))
            places |= {"broker.properties": file, "controller.properties": file}
        for step in manual.steps(PAGE, heading, places):
            program, *words = step.words
            self.typed(program, words)

    def typed(self, program, words):
        match program, words[:2]:
            case "kafka-server-stop.sh", _:
                self.kafka.kill(self.node, signal.SIGTERM)
            case "kafka-server-start.sh", _:
                self.kafka.start_node(self.node)
            case "kill", _:
                self.stop(self.ours.pop(self.node.id))
            case "trimaran", ["broker" | "controller", "start"]:
                self.start(words)
            case "trimaran", ["health", _]:
                trimaran(*words)
            case "trimaran", ["quorum", "status"]:
                until(lambda: self.has_no_lag(words), "every voter has caught up", SECONDS)
            case "trimaran", _:
                done = trimaran(*words)
                assert done.stdout + done.stderr
            case _:
                pytest.fail(f"{PAGE} has a command that nobody knows: {program}")

    def start(self, words):
        path = self.kafka.directory / f"ours-{self.node.id}.log"
        command = [sys.executable, "-m", "trimaran", *words]
        with path.open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.ours[self.node.id] = process
        said = f"[KafkaServer id={self.node.id}] started"

        def has_started():
            text = path.read_text()
            assert process.poll() is None, text
            return said in text

        until(has_started, said, SECONDS)

    def stop(self, process):
        process.terminate()
        assert process.wait(60) == 0

    def has_no_lag(self, words):
        done = trimaran(*words, "-o", "json", check=False)
        rows = json.loads(done.stdout)["replicas"] if done.returncode == 0 else []
        voters = [row for row in rows if row["role"] != "observer"]
        return len(voters) == len(self.kafka.controllers) and not any(row["lag"] for row in voters)

    def leader(self):
        controllers = self.kafka.controller_bootstrap
        status = trimaran("quorum", "status", "-B", controllers, "-o", "json")
        return json.loads(status.stdout)["leader_id"]

    def close(self):
        """Stops the brokers first, because their shutdown needs a controller."""
        for _, process in sorted(self.ours.items(), reverse=True):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def test_cluster_moves_and_broker_moves_back(tmp_path):
    with apache_kafka.running(tmp_path, controllers=3, brokers=2, heap="512m") as kafka:
        moving = Moving(kafka)
        try:
            clients = Clients(kafka.bootstrap)
            clients.write_and_read()
            moving.follow("Before", kafka.brokers[0])
            for node in kafka.brokers:
                moving.follow("A broker", node)
                clients.write_and_read()
            last = moving.leader()
            for node in sorted(kafka.controllers, key=lambda one: one.id == last):
                moving.follow("A controller", node)
                clients.write_and_read()
            assert set(moving.ours) == {node.id for node in kafka.nodes}
            moving.follow("Back", kafka.brokers[0])
            clients.write_and_read()
            clients.consumer.close()
        finally:
            moving.close()
