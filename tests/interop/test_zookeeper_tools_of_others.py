"""Third-party tools that read and write ZooKeeper, unmodified from the package index, administer our cluster: Yelp's
kafka-utils, LinkedIn's kafka-tools, pykafka.
"""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.processes import until
from tests.interop import old_clients
from tests.interop.conftest import Ours, trimaran
from tests.interop.test_deployment import Environment

UTILS = "kafka-utils==4.1.0"
# kafka-tools does not declare its dependency on six.
TOOLS = ("kafka-tools==0.1.9", "six==1.17.0")
PYKAFKA = "pykafka==2.8.0"
# Kafka's scripts that kafka-tools calls.
SCRIPTS = {
    "kafka-reassign-partitions.sh": "kafka.admin.ReassignPartitionsCommand",
    "kafka-preferred-replica-election.sh": "kafka.admin.PreferredReplicaLeaderElectionCommand",
}
INTERNAL = "__consumer_offsets,__transaction_state"
SECONDS = 60.0
PRODUCE_AND_CONSUME = """
import json, sys
from pykafka import KafkaClient

zookeeper = sys.argv[1]
client = KafkaClient(zookeeper_hosts=zookeeper)
topic = client.topics["lines"]
with topic.get_sync_producer() as producer:
    producer.produce(b"from pykafka")
consumer = topic.get_balanced_consumer(
    consumer_group="of-pykafka", zookeeper_connect=zookeeper, consumer_timeout_ms=8000, auto_offset_reset=-2
)
found = [message.value.decode() for message in consumer]
consumer.commit_offsets()
consumer.stop()
print(json.dumps([sorted(client.brokers), found]))
"""


@pytest.fixture(scope="module")
def obeying(tmp_path_factory):
    """Starts three controllers, three brokers, a ZooKeeper, and a mirror that carries out old tools' writes."""
    data = tmp_path_factory.mktemp("obeying")
    option = ("--override", "trimaran.zk.legacy.admin.enable=true")
    state = json.loads(trimaran("up", "-d", "--zk", "-o", "json", *option, data=data).stdout)
    yield Ours(data, state)
    trimaran("down", data=data)


@pytest.fixture
def installed(tmp_path):
    """Creates a virtual environment with these packages; returns it."""

    def install(*packages):
        environment = Environment(tmp_path / "venv")
        environment.pip("install", *packages, PIP_CONSTRAINT="", PIP_BUILD_CONSTRAINT="")
        return environment.path / "bin"

    return install


def run(*command, **environ):
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def replicas(ours, topic):
    rows = json.loads(ours.run("topics", "describe", topic, "-o", "json").stdout)["partitions"]
    return {row["partition"]: row["replicas"] for row in rows}


def shown(ours, topic):
    """Returns the assignment in ZooKeeper."""
    found = ours.run("zk", "get", f"/brokers/topics/{topic}", "-o", "json", check=False)
    if found.returncode:
        return {}
    partitions = json.loads(json.loads(found.stdout)["text"])["partitions"]
    return {int(number): brokers for number, brokers in partitions.items()}


def topic_with(ours, name, replication_factor):
    count = ("--partitions", "3", "--replication-factor", str(replication_factor))
    ours.run("topics", "create", name, *count)
    until(lambda: len(shown(ours, name)) == 3, f"{name} is in ZooKeeper", SECONDS)


def test_kafka_utils_administers_our_cluster(obeying, installed, tmp_path):
    programs = installed(UTILS)
    brokers = json.dumps(obeying.bootstrap.split(","))
    cluster = f"{{broker_list: {brokers}, zookeeper: '{obeying.zookeeper}'}}"
    (tmp_path / "local.yaml").write_text(
        f"clusters: {{ours: {cluster}}}\nlocal_config: {{cluster: ours}}\n"
    )
    topic_with(obeying, "utils", 1)

    def manage(*words):
        where = ("--cluster-type", "local", "--discovery-base-path", tmp_path)
        return run(programs / "kafka-cluster-manager", *where, *words)

    assert "Topic partition imbalance count: 0" in manage("stats")
    manage(
        *("--apply", "--no-confirm", "set_replication_factor", "--topic", "utils", "2"),
    )
    until(lambda: {len(r) for r in replicas(obeying, "utils").values()} == {2}, "twice", SECONDS)
    until(lambda: shown(obeying, "utils") == replicas(obeying, "utils"), "it is shown", SECONDS)


def test_kafka_tools_administers_our_cluster(obeying, installed, tmp_path):
    programs = installed(*TOOLS)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name, main in SCRIPTS.items():
        command = shlex.join(old_clients.command("1.1.1", main))
        (scripts / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (scripts / name).chmod(0o755)
    topic_with(obeying, "tools", 2)
    gone, *others = sorted({broker for r in replicas(obeying, "tools").values() for broker in r})
    where = ("-z", obeying.zookeeper, "--tools-path", scripts, "-x", INTERNAL, "--ple-wait", "0")
    run(
        *(programs / "kafka-assigner", *where, "-e", "remove", "-b", gone, "-t", *others),
        JAVA_HOME=str(Path(shutil.which("java")).resolve().parents[1]),
    )
    until(
        lambda: all(set(r) == set(others) for r in replicas(obeying, "tools").values()),
        "all replicas are elsewhere",
        SECONDS,
    )
    until(lambda: shown(obeying, "tools") == replicas(obeying, "tools"), "it is shown", SECONDS)


def test_pykafka_produces_and_consumes(obeying, installed, tmp_path):
    programs = installed(PYKAFKA)
    topic_with(obeying, "lines", 1)
    obeying.run("produce", "lines", stdin="a line\n")
    program = tmp_path / "program.py"
    program.write_text(PRODUCE_AND_CONSUME)
    brokers, found = json.loads(run(programs / "python", program, obeying.zookeeper))
    assert len(brokers) == 3
    assert sorted(found) == ["a line", "from pykafka"]
