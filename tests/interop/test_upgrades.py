"""Clusters of Kafka's earlier levels are rolled to those of Kafka 4.4, and back where Kafka allows it, while clients
write and read: ours alone from 4.3, and mixed ones whose Kafka nodes begin as 3.9 and as 4.3. No step makes a partition
unavailable for longer than a move of its leader.
"""

import contextlib
import json
import signal

import pytest

from tests.interop import apache_kafka, java_programs
from tests.interop.available import GAP_SECONDS_MAX, Available
from tests.interop.conftest import trimaran
from tests.interop.controllers import controllers
from tests.interop.mixed_kills import topics_of
from tests.interop.mixed_quorum import caught_up, until
from tests.interop.mixed_traffic import PARTITIONS, Groups, Source, check, create_topics, share_lag
from tests.interop.test_mixed_clusters import INTERNAL, SETTINGS, check_equal_metadata

BROKERS = (11, 12, 13)
REPLICAS = "11:12:13"
LEVELS = {"3.9": 21, "4.3": 30, "4.4": 33}
NEWEST = {
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "group.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
}
# No leader is preferred again, so that a broker that restarts moves each of its leaders once.
QUIET = {**SETTINGS, "controlled.shutdown.enable": "true"}


class Upgraded:
    """The steps of an upgrade of `cluster`; `gaps` has the longest time without an answer by step."""

    def __init__(self, cluster, available):
        self._cluster, self._available = cluster, available
        self.bootstrap = cluster.bootstrap(*cluster.brokers)
        self.gaps = {}

    @contextlib.contextmanager
    def step(self, name):
        self._available.gap()
        yield
        self.wait_whole()
        gap = round(self._available.gap(), 1)
        self.gaps[name] = max(gap, self.gaps.get(name, 0.0))
        assert gap < GAP_SECONDS_MAX, f"{name}: {gap} s without an answer"

    def wait_whole(self):
        brokers = set(self._cluster.brokers)
        until(lambda: caught_up(self._cluster), "all controllers follow")
        until(
            lambda: all(
                set(partition.isrs) == brokers
                for topic in topics_of(self.bootstrap).values()
                for partition in topic.partitions.values()
            ),
            "all replicas are in sync",
        )

    def roll(self, nodes, version=None):
        """Restarts nodes one by one. With `version` they run that version of Kafka from now on."""
        for i in nodes:
            with self.step(f"restart of {i}"):
                self._cluster.kill(i, signal.SIGTERM)
                if version is not None:
                    self._cluster.versions[i] = version
                self._cluster.start(i)
                self._wait_registered(i)

    def _wait_registered(self, i):
        if i in self._cluster.brokers:
            until(lambda: self._lists(i), f"broker {i} answers")

    def _lists(self, i):
        done = trimaran("features", "list", "-b", self._cluster.address(i), check=False)
        return done.returncode == 0

    def levels(self):
        """Returns the finalized levels that each broker reports."""
        command = ("features", "list", "-o", "json", "-b")
        found = []
        for i in self._cluster.brokers:
            rows = json.loads(trimaran(*command, self._cluster.address(i)).stdout)
            found.append({row["feature"]: row["level"] for row in rows if row["level"]})
        return found

    def wait_for_levels(self, wanted):
        until(
            lambda: all(self.known(found) == wanted for found in self.levels()),
            f"each broker has {wanted}",
        )

    @staticmethod
    def known(levels):
        """Returns the levels of the features in `NEWEST`."""
        return {name: level for name, level in levels.items() if name in NEWEST}

    def change(self, wanted, *command):
        """Runs `kafka-features` or our command; waits until each broker reports the levels."""
        with self.step(" ".join(command[1:])):
            program, *arguments = command
            if program == "kafka":
                apache_kafka.tool("features", "--bootstrap-server", self.bootstrap, *arguments)
            else:
                trimaran("features", *arguments, "-b", self.bootstrap)
            self.wait_for_levels(wanted)

    def refuse(self, *arguments):
        """Checks that the cluster refuses a downgrade."""
        done = trimaran("features", "downgrade", *arguments, "-b", self.bootstrap, check=False)
        assert done.returncode == 5, done
        assert "metadata" in done.stderr, done


def start(cluster, *options):
    for i in cluster.kinds:
        cluster.format(i, "--initial-controllers", cluster.initial, *options)
        cluster.start(i)
    until(lambda: caught_up(cluster), "the quorum begins")
    cluster.start_brokers()
    create_topics(cluster.bootstrap(*BROKERS), INTERNAL, REPLICAS, ("available",))


def check_groups(cluster, root, classes):
    """Checks that groups of every kind work."""
    root.mkdir(exist_ok=True)
    source = Source(cluster.bootstrap(*BROKERS))
    with Groups(root, classes, cluster.bootstrap(*BROKERS)) as groups:
        source.send_for(5)
        source.close()
        copies = groups.wait_for(source.acked)
        groups.close()
        check(source, copies, groups.lines("ShareMembers"))


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    if reason := java_programs.why_not():
        pytest.skip(reason)
    return tmp_path_factory.mktemp("classes")


def raise_and_lower(upgraded, program):
    """Raises metadata.version by a level that adds nothing to the metadata, which Kafka therefore lowers again."""
    before = upgraded.known(upgraded.levels()[0])
    level = before["metadata.version"]
    option = ("--feature",) if program == "kafka" else ()
    for change, wanted in (("upgrade", level + 1), ("downgrade", level)):
        now = {**before, "metadata.version": wanted}
        upgraded.change(now, program, change, *option, f"metadata.version={wanted}")


def lower_and_raise(upgraded, program):
    """Lowers what Kafka 4.4 allows, and raises it again: the share group continues where it was. A metadata.version of
    4.4 cannot be lowered to 4.3, because its records have more fields.
    """
    upgraded.refuse("metadata.version=4.3")
    upgraded.refuse("metadata.version=4.3", "--unsafe")
    lower, names = dict(NEWEST), ("share.version", "streams.version")
    for name in names:
        while name in lower:
            lower[name] -= 1
            wanted = f"{name}={lower[name]}"
            if not lower[name]:
                del lower[name]
            option = ("--feature",) if program == "kafka" else ()
            upgraded.change(lower, program, "downgrade", *option, wanted)
    wanted = [f"{name}={NEWEST[name]}" for name in names]
    if program == "kafka":
        wanted = [word for level in wanted for word in ("--feature", level)]
    upgraded.change(NEWEST, program, "upgrade", *wanted)
    until(lambda: share_lag(upgraded.bootstrap) == 0, "the share group is as before")


def test_our_cluster_reaches_44_without_a_pause(tmp_path, classes):
    kinds, brokers = dict.fromkeys((1, 2, 3), "ours"), dict.fromkeys(BROKERS, "ours")
    with controllers(tmp_path, kinds, brokers, of_brokers=QUIET) as cluster:
        start(cluster, "--release-version", "4.3")
        with Available(cluster.bootstrap(*BROKERS), "available", PARTITIONS) as available:
            until(available.is_read, "records are read")
            upgraded = Upgraded(cluster, available)
            upgraded.roll((*kinds, *brokers))
            before = {**NEWEST, "metadata.version": 30, "share.version": 1}
            upgraded.wait_for_levels(before)
            raise_and_lower(upgraded, "ours")
            now = {**before, "metadata.version": 33}
            upgraded.change(now, "ours", "upgrade", "metadata.version=4.4")
            upgraded.change(NEWEST, "ours", "upgrade", "share.version=2")
            check_groups(cluster, tmp_path / "before", classes)
            lower_and_raise(upgraded, "ours")
            upgraded.roll((*kinds, *brokers))
        check_equal_at_end(cluster)
    print(f"{available.acked} records, {upgraded.gaps}")


def check_equal_at_end(cluster):
    high_watermark = until(lambda: caught_up(cluster), "all follow").high_watermark
    cluster.stop()
    assert check_equal_metadata(cluster, high_watermark) > 1000


@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
def test_kafkas_cluster_with_our_nodes_reaches_44(tmp_path, classes, version):
    kinds = {1: "kafka", 2: "kafka", 3: "ours"}
    brokers = dict(zip(BROKERS, ("kafka", "kafka", "ours"), strict=True))
    of_kafka = [i for i, kind in (kinds | brokers).items() if kind == "kafka"]
    versions = dict.fromkeys(of_kafka, version)
    release = version.rpartition(".")[0]
    with controllers(tmp_path, kinds, brokers, of_brokers=QUIET, versions=versions) as cluster:
        start(cluster, "--release-version", release)
        with Available(cluster.bootstrap(*BROKERS), "available", PARTITIONS) as available:
            until(available.is_read, "records are read")
            upgraded = Upgraded(cluster, available)
            assert {found["metadata.version"] for found in upgraded.levels()} == {LEVELS[release]}
            upgraded.roll(of_kafka, apache_kafka.VERSION)
            raise_and_lower(upgraded, "kafka")
            upgraded.change(NEWEST, "kafka", "upgrade", "--release-version", "4.4")
            check_groups(cluster, tmp_path / "before", classes)
            lower_and_raise(upgraded, "kafka")
        check_equal_at_end(cluster)
    print(f"{available.acked} records, {upgraded.gaps}")
