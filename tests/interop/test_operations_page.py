"""docs/operations.md, followed on a local cluster: a rolling restart, and the replacement of a broker's disk and of a
voter's. A client writes meanwhile, and no acknowledged record is lost.
"""

import json
import re
import shutil
import subprocess
import sys
import threading

import pytest
from confluent_kafka import TopicPartition

from tests.cluster.processes import LocalCluster, until
from tests.interop import manual
from tests.interop.conftest import trimaran
from tests.librdkafka import Consumer, Producer

PAGE = "operations.md"
TOPIC, PARTITIONS = "orders", 4
SECONDS = 120.0
OF_BENCH = {"-n 1000000": "-n 2000", "--rate 5000": "--rate 500 -n 1000"}


class Writing:
    """A client that continuously writes with acks=all."""

    def __init__(self, bootstrap):
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.acknowledged, self.failed = set(), []
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _write(self):
        producer = Producer({"bootstrap.servers": self._bootstrap})
        number = 0
        while not self._stop.wait(0.02):
            number += 1

            def on_delivery(error, message, number=number):
                if error is None:
                    self.acknowledged.add(number)
                else:
                    self.failed.append(str(error))

            producer.produce(
                TOPIC, f"{number}", partition=number % PARTITIONS, on_delivery=on_delivery
            )
            producer.poll(0)
        assert producer.flush(SECONDS) == 0

    def wait_for_more(self):
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) > before + 10, "it goes on", SECONDS)


def read(bootstrap, count):
    """Returns the numbers of all records."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found = set()
    while len(found) < count:
        message = consumer.poll(SECONDS)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None
        found.add(int(message.value()))
    consumer.close()
    return found


class Operator:
    """Types the page's commands at one node after another."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.node = None
        self.controllers = []  # processes unknown to the supervisor
        self.cluster_id = ""

    def follow(self, heading, node=None, **places):
        self.node = None if node is None else self.cluster.node(node)
        places["ctrl-1:9093"] = self.cluster.controllers
        other = next(node for node in self.cluster.state.nodes if node != self.node)
        places["/var/lib/trimaran/"] = f"{other.dir}/"
        if self.node is not None:
            is_broker = self.node.role == "broker"
            places["broker.properties" if is_broker else "2.properties"] = (
                f"{self.node.dir}.properties"
            )
            places["broker-11:9404"] = self.node.metrics
        for step in manual.steps(PAGE, heading, places):
            self.typed(*step.words)

    def typed(self, program, *words):
        match program, words[:2]:
            case "systemctl", _:
                self.cluster.restart(self.node.name)
            case "curl", _:
                until(lambda: self.succeeds(program, *words), "it may be given work", SECONDS)
            case "sed", _:
                self.cluster_id = subprocess.check_output([program, *words], text=True).strip()
            case "trimaran", ("partitions", "list"):
                until(lambda: self.finds_nothing(*words), "all are in sync", SECONDS)
            case "trimaran", ("controller", "start"):
                self.start(words)
            case "trimaran", _:
                self.trimaran(
                    *(self.cluster_id if word == "CLUSTER_ID" else word for word in words)
                )
            case _:
                pytest.fail(f"{PAGE} has a command that nobody knows: {program}")

    @staticmethod
    def succeeds(*command):
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def finds_nothing(self, *words):
        """Whether a command finds nothing; exit code 1 means that it found something."""
        done = trimaran(*words, "-o", "json", data=self.cluster.data, check=False)
        return done.returncode == 0 and json.loads(done.stdout) == []

    def trimaran(self, *words):
        """Runs a command, which finds the local cluster by itself."""
        command = [sys.executable, "-m", "trimaran", *words]
        print("$", *words)
        return subprocess.check_output(command, cwd=self.cluster.data.parent, text=True)

    def start(self, words):
        path = self.cluster.data / "replaced.log"
        command = [sys.executable, "-m", "trimaran", *words]
        with path.open("wb") as log:
            self.controllers.append(subprocess.Popen(command, stdout=log, stderr=log))
        until(lambda: re.search("started", path.read_text()), "it has started", SECONDS)

    def lose_disk(self, name):
        self.cluster.kill(name)
        shutil.rmtree(self.cluster.node(name).dir)

    def close(self):
        for process in self.controllers:
            process.terminate()
            assert process.wait(60) == 0


def by_turns(cluster):
    """Yields the brokers, then the controllers, with the active one last."""
    nodes = sorted(cluster.state.nodes, key=lambda one: (one.role == "controller", one.id))
    active = cluster.active_controller()
    return [node.name for node in sorted(nodes, key=lambda one: one.id == active)]


def test_procedures_of_the_page_work(tmp_path):
    with LocalCluster(tmp_path / ".trimaran", "--metrics") as cluster:
        cluster.run("topics", "create", TOPIC, "-p", str(PARTITIONS), "-r", "3")
        cluster.wait_for_topic(TOPIC)
        operator = Operator(cluster)
        with Writing(cluster.bootstrap) as writing:
            for name in by_turns(cluster):
                operator.follow("Restart all nodes, one after the other", name)
                writing.wait_for_more()
            assert writing.failed == []
            operator.lose_disk("broker-12")
            operator.follow("A broker's disk is replaced", "broker-12")
            writing.wait_for_more()
            if cluster.active_controller() == 2:
                cluster.run("chaos", "kill", "2")
                # this node loses its disk below, while it is running
                cluster.run("chaos", "restart", "2")
            operator.lose_disk("controller-2")
            operator.follow("A voter is replaced", "controller-2")
            writing.wait_for_more()
            voters = {
                row["id"]: row["lag"]
                for row in cluster.json("quorum", "status")["replicas"]
                if row["role"] != "observer"
            }
            assert set(voters) == {1, 2, 3}
        assert writing.failed == []
        assert read(cluster.bootstrap, len(writing.acknowledged)) >= writing.acknowledged
        operator.follow("How fast it is", **OF_BENCH)
        operator.close()
