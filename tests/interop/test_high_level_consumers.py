"""High-level consumers of Kafka 0.8.2 and 0.9: they find the cluster only through ZooKeeper, share partitions by
znodes, and store offsets in ZooKeeper, in Kafka, or in both.
"""

import contextlib
import json
import signal
import subprocess

import pytest

from tests.cluster.processes import until
from tests.interop import old_clients

VERSIONS = ("0.8.2.2", "0.9.0.1")
MAIN = "kafka.tools.ConsoleConsumer"
PARTITIONS = 4
# A JVM takes seconds to start on a busy machine, and a group rebalances a few times.
SECONDS = 90.0


class Consumer:
    """One member of a group, which writes its lines into a file."""

    def __init__(self, ours, version, topic, folder, name, *more, **settings):
        properties = folder / f"{name}.properties"
        settings = {
            "consumer.id": name,
            "zookeeper.session.timeout.ms": "6000",
            "rebalance.backoff.ms": "1000",
            "auto.commit.interval.ms": "1000",
            "offsets.channel.backoff.ms": "200",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.output = folder / f"{name}.out"
        arguments = ("--zookeeper", ours.zookeeper, "--topic", topic)
        with self.output.open("wb") as out, (folder / f"{name}.err").open("wb") as err:
            self.process = subprocess.Popen(
                old_clients.command(
                    version, MAIN, *arguments, "--consumer.config", str(properties), *more
                ),
                stdout=out,
                stderr=err,
            )

    def lines(self):
        return [line for line in self.output.read_text().splitlines() if line.startswith("line-")]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(SECONDS)


@contextlib.contextmanager
def group(ours, version, topic, folder):
    """Starts members, and ends the remaining ones on exit."""
    members = []

    def start(name, *more, **settings):
        settings = {"group_id": topic, **settings}
        members.append(Consumer(ours, version, topic, folder, name, *more, **settings))
        return members[-1]

    try:
        yield start
    finally:
        for member in members:
            member.process.kill()
            member.process.wait()


def below(ours, path):
    """Returns the znodes below a path: text by path."""
    found = json.loads(ours.run("zk", "tree", path, "-o", "json", check=False).stdout or "[]")
    return {entry["path"]: entry["text"] for entry in found}


def owners(ours, topic):
    """Returns the member that owns each partition."""
    root = f"/consumers/{topic}/owners/{topic}/"
    found = below(ours, f"/consumers/{topic}/owners")
    return {int(p.removeprefix(root)): t for p, t in found.items() if p.startswith(root)}


def owned_by(ours, topic, *names):
    """Whether every partition is owned, and each of these members owns some."""
    found = owners(ours, topic)
    shares = [{p for p, who in found.items() if f"{topic}_{name}-" in who} for name in names]
    return len(found) == PARTITIONS and all(shares) and sum(map(len, shares)) == PARTITIONS


def offsets(ours, topic):
    """Returns the sum of a group's offsets in ZooKeeper."""
    root = f"/consumers/{topic}/offsets/{topic}/"
    found = below(ours, f"/consumers/{topic}/offsets")
    return sum(int(text) for path, text in found.items() if path.startswith(root))


def in_kafka(ours, topic):
    """Returns the sum of a group's offsets in Kafka; 0 if there is no such group."""
    found = ours.run("groups", "describe", topic, "-o", "json", check=False)
    if found.returncode:
        return 0
    return sum(row["committed"] for row in json.loads(found.stdout)["offsets"])


def produce(ours, topic, first, count):
    """Produces lines with keys, so that every partition gets some."""
    lines = [f"line-{number}" for number in range(first, first + count)]
    ours.run("produce", topic, "-k", ":", stdin="".join(f"{line}:{line}\n" for line in lines))
    return lines


def create(ours, version, purpose):
    topic = f"high-level-{purpose}-{version}"
    ours.run("topics", "create", topic, "-p", str(PARTITIONS), "-r", "3")
    return topic


@pytest.mark.client("Java", "groups in ZooKeeper")
@pytest.mark.parametrize("version", VERSIONS)
def test_members_share_partitions_and_hand_them_over(ours, version, tmp_path):
    topic = create(ours, version, "shared")
    with group(ours, version, topic, tmp_path) as start:
        one = start("one")
        until(lambda: owned_by(ours, topic, "one"), "one owns everything", SECONDS)
        sent = produce(ours, topic, 0, 100)
        until(lambda: len(one.lines()) == 100, "one reads everything", SECONDS)
        until(lambda: offsets(ours, topic) == 100, "one commits", SECONDS)
        two, three = start("two"), start("three")
        until(lambda: owned_by(ours, topic, "one", "two", "three"), "all own some", SECONDS)
        sent += produce(ours, topic, 100, 100)
        members = (one, two, three)
        until(lambda: sum(len(m.lines()) for m in members) >= 200, "all is read", SECONDS)
        one.stop()
        until(lambda: owned_by(ours, topic, "two", "three"), "two members are left", SECONDS)
        sent += produce(ours, topic, 200, 100)
        until(lambda: sum(len(m.lines()) for m in members) >= 300, "the rest is read", SECONDS)
        two.stop()
        three.stop()
        assert sorted(line for member in members for line in member.lines()) == sorted(sent)
        assert all(member.lines() for member in members)
    assert offsets(ours, topic) == 300
    assert owners(ours, topic) == {}


@pytest.mark.client("Java", "groups in ZooKeeper")
@pytest.mark.parametrize("version", VERSIONS)
def test_killed_member_loses_its_partitions(ours, version, tmp_path):
    topic = create(ours, version, "killed")
    with group(ours, version, topic, tmp_path) as start:
        one, two = start("one"), start("two")
        until(lambda: owned_by(ours, topic, "one", "two"), "both own some", SECONDS)
        sent = produce(ours, topic, 0, 100)
        until(lambda: offsets(ours, topic) == 100, "both commit", SECONDS)
        one.stop(signal.SIGKILL)
        until(lambda: owned_by(ours, topic, "two"), "its session ends", SECONDS)
        sent += produce(ours, topic, 100, 50)
        until(lambda: offsets(ours, topic) == 150, "the other one reads", SECONDS)
        assert sorted(one.lines() + two.lines()) == sorted(sent)


@pytest.mark.client("Java", "groups in ZooKeeper")
@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_stored_in_kafka_or_both(ours, version, tmp_path):
    topic = create(ours, version, "both")
    sent = produce(ours, topic, 0, 40)
    kafka = {"offsets_storage": "kafka"}
    with group(ours, version, topic, tmp_path) as start:
        both = start("both", "--from-beginning", **kafka, dual_commit_enabled="true")
        until(lambda: in_kafka(ours, topic) == 40, "committed to Kafka", SECONDS)
        until(lambda: offsets(ours, topic) == 40, "and to ZooKeeper", SECONDS)
        both.stop()
        sent += produce(ours, topic, 40, 10)
        alone = start("alone", **kafka, dual_commit_enabled="false")
        until(lambda: in_kafka(ours, topic) == 50, "committed to Kafka", SECONDS)
        alone.stop()
        assert offsets(ours, topic) == 40
        assert sorted(both.lines() + alone.lines()) == sorted(sent)


@pytest.mark.client("Java", "groups in ZooKeeper")
@pytest.mark.parametrize("version", VERSIONS)
def test_group_is_migrated_to_kafka(ours, version, tmp_path):
    topic = create(ours, version, "migrated")
    sent = produce(ours, topic, 0, 60)
    with group(ours, version, topic, tmp_path) as start:
        before = start("before", "--from-beginning", offsets_storage="zookeeper")
        until(lambda: offsets(ours, topic) == 60, "committed to ZooKeeper", SECONDS)
        refused = ours.run("groups", "migrate-offsets", topic, "--execute", check=False)
        assert refused.returncode == 1
        assert "before" in refused.stderr
        before.stop()
        ours.run("groups", "migrate-offsets", topic, "--execute")
        assert in_kafka(ours, topic) == 60
        sent += produce(ours, topic, 60, 30)
        after = start("after", offsets_storage="kafka", dual_commit_enabled="false")
        until(lambda: in_kafka(ours, topic) == 90, "it goes on", SECONDS)
        after.stop()
        assert sorted(before.lines() + after.lines()) == sorted(sent)
