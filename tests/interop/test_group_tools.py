"""Kafka 4.4's tools for share groups and streams groups, features, clusters and metrics of clients print the same on
our cluster as on Apache Kafka's. Ids, addresses and times are replaced.
"""

import json
import re
import time

import pytest

from tests.interop import apache_kafka, java_programs
from tests.interop.warm_tools import warm_tools

TOPIC, GROUP, STREAMS = "tool-lines", "tool-workers", "tool-words"
STABLE_SECONDS_MAX = 120
VARYING = (
    (r"127\.0\.0\.1:\d+ +\(\d+\)", "COORDINATOR"),  # the address and node of a group's coordinator
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"(?<= )[A-Za-z0-9_-]{22}(?= )", "UUID"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"Epoch: \d+", "Epoch: N"),
    (
        r"(?<=fixed-)(StreamThread-)?\d+",
        r"\1N",
    ),  # members have random ids, so the assignment of tasks varies
    (r"Cluster ID: .+", "Cluster ID: UUID"),
    (r"Local controller \d+", "Local controller N"),
)
# Members have acknowledged five of the records from offset 20 on. The start offset moves past them in the leader's
# memory, and is stored, so that the coordinator describes it, with the leader's next write: the release of the other
# 15, if it comes later. The lag is exact from the beginning.
TRAILING = re.compile(rf"^({GROUP} {TOPIC} 0(?: \S+)?) (?:20|25) (?=15$)")


class Cluster:
    """The addresses of a cluster, and the tools that are run on it."""

    def __init__(self, tools, bootstrap):
        self._tools, self.bootstrap = tools, bootstrap

    def tool(self, name, *words):
        """Runs one of the tools until it ends; returns its result. Verifiable clients end with their JVM only."""
        server = ("--bootstrap-server", self.bootstrap)
        if name.startswith("verifiable"):
            return apache_kafka.tool(name, *server, *words, check=False)
        line = (*server, *words) if name == "features" else (*words, *server)
        return self._tools.run(name, *line)


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    if reason := java_programs.why_not():
        pytest.skip(reason)
    with warm_tools(tmp_path_factory.mktemp("tools")) as found:
        yield found


@pytest.fixture(scope="module")
def on_us(tools, ours):
    return Cluster(tools, ours.bootstrap)


@pytest.fixture(scope="module")
def on_kafka(tools, kafka):
    return Cluster(tools, kafka.bootstrap)


def said(cluster, name, *words):
    """Returns the lines that a tool prints, sorted, with single spaces, and without values that vary."""
    done = cluster.tool(name, *words)
    text = done.stdout + "".join(
        line for line in done.stderr.splitlines(keepends=True) if "Exception" in line
    )
    for pattern, shown in VARYING:
        text = re.sub(pattern, shown, text)
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


def without_trailing(lines):
    """Replaces the start offset, which may have either of two values until the next write."""
    return [TRAILING.sub(r"\1 TRAILING ", line) for line in lines]


def events(text):
    """Returns names and fields of the lines of a verifiable client, and its counts of records."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    named = {(line["name"], *sorted(line.keys() - {"timestamp"})) for line in lines}
    acknowledged = sum(
        line["count"]
        for line in lines
        if line["name"] == "offsets_acknowledged" and line["success"]
    )
    return named, acknowledged


def of_share_groups(cluster):
    """Reads records with two consumers of a share group; returns what they and the tools print."""
    told = []
    cluster.tool("topics", "--create", "--topic", TOPIC, "--partitions", "1")
    group = ("--entity-type", "groups", "--entity-name", GROUP)
    config = ("--alter", *group, "--add-config", "share.auto.offset.reset=earliest")
    told.append(said(cluster, "configs", *config))
    twenty = ("--topic", TOPIC, "--max-messages", "20", "--acks", "-1")
    cluster.tool("verifiable-producer", *twenty)
    words = ("--topic", TOPIC, "--group-id", GROUP, "--max-messages", "20")
    told.append(events(cluster.tool("verifiable-share-consumer", *words).stdout))
    cluster.tool("verifiable-producer", *twenty)
    words = ("--topic", TOPIC, "--group", GROUP, "--max-messages", "5", "--timeout-ms", "30000")
    shown = (
        "--formatter-property",
        "print.offset=true",
        "--formatter-property",
        "print.delivery=true",
    )
    printed = cluster.tool("console-share-consumer", *words, *shown).stdout.splitlines()
    told.append([re.sub(r"\d+", "N", line) for line in printed])
    described = (
        ("--list",),
        ("--list", "--state"),
        ("--describe", "--group", GROUP, "--state", "--verbose"),
        ("--describe", "--group", GROUP, "--members", "--verbose"),
        ("--describe", "--group", GROUP),
        ("--describe", "--all-groups", "--offsets", "--verbose"),
        ("--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest", "--dry-run"),
        ("--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-latest", "--execute"),
        ("--describe", "--group", GROUP, "--offsets", "--verbose"),
        ("--delete-offsets", "--group", GROUP, "--topic", TOPIC),
        ("--delete-offsets", "--group", GROUP, "--topic", "none"),
        ("--describe", "--group", GROUP, "--offsets"),
        ("--delete", "--group", GROUP),
        ("--describe", "--group", GROUP),
        ("--delete", "--group", "none"),
    )
    told += [
        (words, without_trailing(said(cluster, "share-groups", *words))) for words in described
    ]
    return told


def of_streams_groups(cluster, classes, folder):
    """Describes a streams group of two static members with standby tasks, while it runs and afterwards."""
    told = []
    for topic in ("lines", "counts", "sums"):
        cluster.tool("topics", "--create", "--topic", topic, "--partitions", "3")
    group = ("--entity-type", "groups", "--entity-name", STREAMS)
    config = "streams.num.standby.replicas=1,streams.initial.rebalance.delay.ms=3000"
    told.append(said(cluster, "configs", "--alter", *group, "--add-config", config))
    arguments = (cluster.bootstrap, STREAMS, folder, "streams", "fixed", 1)
    line = java_programs.command(classes, "Topologies", *arguments)
    describe = ("--describe", "--group", STREAMS)
    with java_programs.running(line, folder / "application.log"):
        until_stable(cluster)
        lines = (
            ("--list", "--state"),
            (*describe, "--state", "--verbose"),
            (*describe, "--members"),
            (*describe, "--members", "--verbose"),
            ("--delete", "--group", STREAMS),
        )
        told += [(words, said(cluster, "streams-groups", *words)) for words in lines]
    listed = {}
    for topic in cluster.tool("topics", "--list").stdout.split():
        if topic.startswith(STREAMS):
            words = ("--describe", "--entity-type", "topics", "--entity-name", topic)
            listed[topic] = said(cluster, "configs", *words)
    told.append(listed)
    return told


def until_stable(cluster):
    deadline = time.monotonic() + STABLE_SECONDS_MAX
    words = ("--describe", "--group", STREAMS, "--members", "--verbose")
    state = ("--describe", "--group", STREAMS, "--state")
    while True:
        text = cluster.tool("streams-groups", *words).stdout
        rows = [line for line in text.splitlines() if line.startswith(STREAMS)]
        has_tasks = rows and all("STANDBY: " in row or "ACTIVE: " in row for row in rows)
        if has_tasks and "Stable" in cluster.tool("streams-groups", *state).stdout:
            return
        assert time.monotonic() < deadline, text


def of_the_rest(cluster):
    name = ("--name", "tool-metrics")
    told = [
        (words, said(cluster, "client-metrics", *words))
        for words in (
            ("--alter", *name, "--metrics", "org.apache.kafka.", "--interval", "10000"),
            ("--describe", *name),
            ("--list",),
            ("--delete", *name),
            ("--describe",),
        )
    ]
    features = said(cluster, "features", "describe")  # the Kafka of this run has static voters
    told.append([line for line in features if not line.startswith("Feature: kraft.version")])
    told.append(said(cluster, "features", "version-mapping", "--release-version", "4.4-IV2"))
    told.append(said(cluster, "features", "downgrade", "--feature", "share.version=9"))
    told.append(said(cluster, "cluster", "cluster-id"))
    told.append(said(cluster, "groups", "--list", "--share"))
    return told


def test_tools_of_share_groups_print_the_same(on_us, on_kafka):
    assert of_share_groups(on_us) == of_share_groups(on_kafka)


def test_tools_of_streams_groups_print_the_same(on_us, on_kafka, tmp_path):
    classes = java_programs.compiled("Topologies", tmp_path)
    found = []
    for name, cluster in (("ours", on_us), ("kafka", on_kafka)):
        folder = tmp_path / name
        folder.mkdir()
        found.append(of_streams_groups(cluster, classes, folder))
    assert found[0] == found[1]


def test_other_tools_print_the_same(on_us, on_kafka):
    assert of_the_rest(on_us) == of_the_rest(on_kafka)


def test_acknowledgements_of_all_records_are_reported(on_us):
    """A verifiable share consumer that is stopped has reported as many acknowledgements as there are records."""
    topic, group = "tool-all", "tool-all-workers"
    on_us.tool("topics", "--create", "--topic", topic, "--partitions", "3")
    reset = ("--add-config", "share.auto.offset.reset=earliest")
    on_us.tool("configs", "--alter", "--entity-type", "groups", "--entity-name", group, *reset)
    on_us.tool("verifiable-producer", "--topic", topic, "--max-messages", "300", "--acks", "-1")
    words = ("--topic", topic, "--group-id", group, "--max-messages", "300")
    done = on_us.tool("verifiable-share-consumer", *words)
    assert events(done.stdout)[1] == 300
