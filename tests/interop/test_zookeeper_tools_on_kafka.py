"""Tools of Kafka 0.8.2 to 2.8 with `--zookeeper` administer Apache Kafka 4.4 through the mirror, because none of them
speaks its protocol.
"""

import json
import subprocess
import sys

import pytest

from tests.cluster.processes import until
from tests.interop import apache_kafka, old_clients
from tests.interop.conftest import trimaran
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

VERSIONS = ("0.8.2.2", "1.1.1", "2.8.2")
SECONDS = 60.0


SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """Starts an Apache Kafka with an authorizer."""
    with apache_kafka.running(
        tmp_path_factory.mktemp("kafka"), brokers=2, settings=SETTINGS
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def zookeeper(kafka, tmp_path_factory):
    """Starts a ZooKeeper and a mirror of Apache Kafka that carries out the tools' writes."""
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


def tool(zookeeper, version, main, *arguments):
    return old_clients.run(version, main, "--zookeeper", zookeeper, *arguments)


def topics_tool(zookeeper, version, *arguments):
    return tool(zookeeper, version, "kafka.admin.TopicCommand", *arguments)


def set_config(zookeeper, version, topic, config):
    if version == "0.8.2.2":  # kafka-configs was introduced in 0.9
        topics_tool(zookeeper, version, "--alter", "--topic", topic, "--config", config)
        return
    entity = ("--entity-type", "topics", "--entity-name", topic)
    main = "kafka.admin.ConfigCommand"
    tool(zookeeper, version, main, "--alter", *entity, "--add-config", config)


def is_there(zookeeper, path):
    return trimaran("zk", "get", path, "-z", zookeeper, check=False).returncode == 0


def described(kafka, topic):
    """Returns the topic as Kafka reports it; none if it does not exist."""
    found = trimaran("topics", "describe", topic, "-o", "json", "-b", kafka.bootstrap, check=False)
    if found.returncode:
        return {}
    return {row["partition"]: row for row in json.loads(found.stdout)["partitions"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_is_administered_by_old_tools(kafka, zookeeper, tmp_path, version):
    until(lambda: is_there(zookeeper, "/brokers/ids/12"), "the mirror shows the brokers", SECONDS)
    topic = f"by-old-tools-{version}"
    create = ("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1")
    topics_tool(zookeeper, version, *create, "--config", "retention.ms=86400000")
    until(lambda: len(described(kafka, topic)) == 2, "it is created", SECONDS)
    until(
        lambda: is_there(zookeeper, f"/brokers/topics/{topic}/partitions/1/state"), "shown", SECONDS
    )
    topics_tool(zookeeper, version, "--alter", "--topic", topic, "--partitions", "3")
    until(lambda: len(described(kafka, topic)) == 3, "it has more partitions", SECONDS)

    set_config(zookeeper, version, topic, "segment.bytes=2000000")
    entity = ("--entity-type", "topics", "--entity-name", topic)
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
    tool(zookeeper, version, main, "--reassignment-json-file", str(plan), "--execute")
    until(lambda: not is_there(zookeeper, "/admin/reassign_partitions"), "it has moved", SECONDS)
    assert described(kafka, topic)[0]["replicas"] == [target]

    tool(zookeeper, version, "kafka.admin.PreferredReplicaLeaderElectionCommand")
    path = "/admin/preferred_replica_election"
    until(lambda: not is_there(zookeeper, path), "leaders are elected", SECONDS)

    topics_tool(zookeeper, version, "--delete", "--topic", topic)
    until(lambda: not described(kafka, topic), "it is deleted", SECONDS)
    until(lambda: not is_there(zookeeper, f"/admin/delete_topics/{topic}"), "nobody waits", SECONDS)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_quotas(kafka, zookeeper, version):
    entity = ("--entity-type", "users", "--entity-name", f"old-{version}")
    main = "kafka.admin.ConfigCommand"
    tool(zookeeper, version, main, "--alter", *entity, "--add-config", "consumer_byte_rate=4096")
    describe = ("--bootstrap-server", kafka.bootstrap, "--describe", *entity)
    until(
        lambda: "consumer_byte_rate=4096" in apache_kafka.tool("configs", *describe).stdout,
        "the quorum has it",
        SECONDS,
    )


@pytest.mark.parametrize("version", list(old_clients.AUTHORIZERS))
def test_acls(kafka, zookeeper, version):
    principal = f"User:of-old-{version}"
    acl = ("--allow-principal", principal, "--operation", "Read", "--topic", "orders")

    def by_kafka():
        listed = ("--bootstrap-server", kafka.bootstrap, "--list")
        return principal in apache_kafka.tool("acls", *listed).stdout

    old_clients.acls(version, zookeeper, "--add", *acl)
    until(by_kafka, "the quorum has it", SECONDS)
    assert principal in old_clients.acls(version, zookeeper, "--list")
    old_clients.acls(version, zookeeper, "--remove", "--force", *acl)
    until(lambda: not by_kafka(), "and has it no more", SECONDS)
