"""Consumer groups of third-party clients against real processes: two members, commits, kill -9 of their coordinator,
and resumption.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from queue import Queue

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.cluster.processes import LocalCluster
from tests.librdkafka import AdminClient, Consumer, Producer
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

PARTITIONS = 4
CLIENTS = ["confluent", "kafka_python", "aiokafka_client"]
WAIT_SECONDS = 60


class Cluster:
    def __init__(self, data, initial_delay_ms):
        delay = f"group.initial.rebalance.delay.ms={initial_delay_ms}"
        self._local = LocalCluster(data, "--controllers", "1", "--override", delay)
        self.run, self.bootstrap = self._local.run, self._local.bootstrap
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run("down")

    def create(self, topic):
        self.admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(WAIT_SECONDS)

    def produce(self, topic, count):
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for i in range(count):
            producer.produce(topic, value=str(i), partition=i % PARTITIONS)
        assert producer.flush(WAIT_SECONDS) == 0

    def coordinator(self, group):
        with BlockingClient(self.bootstrap) as client:
            request = FindCoordinatorRequest(coordinator_keys=[group])
            (found,) = client.call(None, request).coordinators
        return found.node_id

    def committed(self, group, topic):
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        asked = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        found = consumer.committed(asked, timeout=WAIT_SECONDS)
        consumer.close()
        return [partition.offset for partition in found]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    # Two members begin together: neither reads before the other has its share.
    with Cluster(tmp_path_factory.mktemp("groups"), initial_delay_ms=3000) as cluster:
        yield cluster


class Member:
    """A client's process; the `(partition, offset)` of every record that it reads goes to `records`."""

    def __init__(self, client, bootstrap, group, topic, name, records):
        command = [sys.executable, "-m", f"tests.broker.groups.members.{client}"]
        self.process = subprocess.Popen(
            [*command, bootstrap, group, topic, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._records = records
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        for line in self.process.stdout:
            partition, offset = line.split()
            self._records.put((int(partition), int(offset)))

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(WAIT_SECONDS) == 0
        self._thread.join()
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._thread.join()
        self.process.stdin.close()
        self.process.stdout.close()


def consume(client, cluster, group, topic, count, members):
    """Reads `count` records with this many `members`, which then commit and leave."""
    records = Queue()
    running = [
        Member(client, cluster.bootstrap, group, topic, f"{client}-{i}", records)
        for i in range(members)
    ]
    try:
        found = [records.get(timeout=WAIT_SECONDS) for _ in range(count)]
        for member in running:
            member.stop()
    finally:
        for member in running:
            if member.process.returncode is None:
                member.kill()
    assert records.empty(), "more records than there are"
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_members_survive_coordinator_and_resume_at_commits(cluster, client):
    group, topic = f"group-{client}", f"topic-{client}"
    cluster.create(topic)
    cluster.produce(topic, 100)
    expected = [(p, o) for p in range(PARTITIONS) for o in range(25)]
    assert sorted(consume(client, cluster, group, topic, 100, members=2)) == expected
    assert cluster.committed(group, topic) == [25] * PARTITIONS
    node = str(cluster.coordinator(group))
    cluster.run("chaos", "kill", node)
    assert cluster.committed(group, topic) == [25] * PARTITIONS
    assert str(cluster.coordinator(group)) != node
    cluster.run("chaos", "restart", node)
    cluster.produce(topic, 20)
    resumed = [(p, o) for p in range(PARTITIONS) for o in range(25, 30)]
    assert sorted(consume(client, cluster, group, topic, 20, members=2)) == resumed
    assert cluster.committed(group, topic) == [30] * PARTITIONS
