"""Tools of Kafka 1.1 with `--zookeeper` in front of Apache Kafka 4.3: none of them speaks its protocol, the mirror
does.
"""

import json
import subprocess
import sys

import pytest

from tests.cluster.processes import until
from tests.interop import apache_kafka, old_clients
from tests.interop.conftest import trimaran
from zkcompat.zookeeper.server_process import start_zookeeper

VERSION = "1.1.1"
SECONDS = 60.0


@pytest.fixture(scope="module")
def zookeeper(kafka, tmp_path_factory):
    """A ZooKeeper with a mirror that obeys, in front of Apache Kafka."""
    folder = tmp_path_factory.mktemp("obeying")
    server = start_zookeeper(folder / "zookeeper")
    settings = folder / "mirror.properties"
    settings.write_text("trimaran.zk.legacy.admin.enable=true\n")
    command = [sys.executable, "-m", "trimaran", "zk", "mirror", "-B", kafka.controller_bootstrap]
    mirror = subprocess.Popen(
        [*command, "-z", server.connect, "--state", str(folder / "mirror"), "-c", str(settings)]
    )
    yield server.connect
    mirror.terminate()
    mirror.wait(20)
    server.stop()


def tool(zookeeper, main, *arguments):
    return old_clients.run(VERSION, main, "--zookeeper", zookeeper, *arguments)


def topics_tool(zookeeper, *arguments):
    return tool(zookeeper, "kafka.admin.TopicCommand", *arguments)


def is_there(zookeeper, path):
    return trimaran("zk", "get", path, "-z", zookeeper, check=False).returncode == 0


def described(kafka, topic):
    """By Kafka's own word; nothing while there is none."""
    found = trimaran("topics", "describe", topic, "-o", "json", "-b", kafka.bootstrap, check=False)
    if found.returncode:
        return {}
    return {row["partition"]: row for row in json.loads(found.stdout)["partitions"]}


def test_a_topic_is_administered(kafka, zookeeper, tmp_path):
    until(lambda: is_there(zookeeper, "/brokers/ids/12"), "the mirror shows the brokers", SECONDS)
    topic = "by-old-tools"
    create = ("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1")
    topics_tool(zookeeper, *create, "--config", "retention.ms=86400000")
    until(lambda: len(described(kafka, topic)) == 2, "it is created", SECONDS)
    until(
        lambda: is_there(zookeeper, f"/brokers/topics/{topic}/partitions/1/state"), "shown", SECONDS
    )
    topics_tool(zookeeper, "--alter", "--topic", topic, "--partitions", "3")
    until(lambda: len(described(kafka, topic)) == 3, "it has more partitions", SECONDS)

    entity = ("--entity-type", "topics", "--entity-name", topic)
    main = "kafka.admin.ConfigCommand"
    tool(zookeeper, main, "--alter", *entity, "--add-config", "segment.bytes=2000000")
    describe = ("--bootstrap-server", kafka.bootstrap, "--describe", *entity)
    until(
        lambda: "segment.bytes=2000000" in apache_kafka.tool("configs", *describe).stdout,
        "its config is set",
        SECONDS,
    )

    target = 12 if described(kafka, topic)[0]["replicas"] == [11] else 11
    move = {"topic": topic, "partition": 0, "replicas": [target]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    main = "kafka.admin.ReassignPartitionsCommand"
    tool(zookeeper, main, "--reassignment-json-file", str(plan), "--execute")
    until(lambda: not is_there(zookeeper, "/admin/reassign_partitions"), "it has moved", SECONDS)
    assert described(kafka, topic)[0]["replicas"] == [target]

    tool(zookeeper, "kafka.admin.PreferredReplicaLeaderElectionCommand")
    path = "/admin/preferred_replica_election"
    until(lambda: not is_there(zookeeper, path), "leaders are elected", SECONDS)

    topics_tool(zookeeper, "--delete", "--topic", topic)
    until(lambda: not described(kafka, topic), "it is deleted", SECONDS)
    until(lambda: not is_there(zookeeper, f"/admin/delete_topics/{topic}"), "nobody waits", SECONDS)


def test_quotas(kafka, zookeeper):
    entity = ("--entity-type", "users", "--entity-name", "old")
    main = "kafka.admin.ConfigCommand"
    tool(zookeeper, main, "--alter", *entity, "--add-config", "consumer_byte_rate=4096")
    describe = ("--bootstrap-server", kafka.bootstrap, "--describe", *entity)
    until(
        lambda: "consumer_byte_rate=4096" in apache_kafka.tool("configs", *describe).stdout,
        "the quorum has it",
        SECONDS,
    )
