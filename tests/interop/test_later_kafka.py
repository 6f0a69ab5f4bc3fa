"""Our observers in front of the newest Kafka that Maven finds, whatever its number, at its default features and with
the registration of a controller removed. Each observer continues. Such a log may have metadata records of a type or
version that we do not know: each output that they could have changed then reports them, and no other does.
"""

import json
import re
import subprocess
import sys

import pytest

from tests.checks import check_each
from tests.cluster.processes import until
from tests.interop import apache_kafka, maven
from tests.interop.conftest import trimaran
from tests.trimaran.console.conftest import console_before
from trimaran.console.cluster import ConsoleCluster
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.source import read_request_of
from trimaran.spark.kafka_metadata.log_walk.fold import UNKNOWN
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_metadata.source import parse_options, plan_table
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

ARTIFACT = "org.apache.kafka:kafka-clients"
CONTROLLERS = 2
TOOL = "org.apache.kafka.tools.ClusterTool"
UNREGISTERED = "UnregisterControllerRecord"
UNKNOWN_TYPE = re.compile(r"UNKNOWN_\d+")
SAID = re.compile(r"\d+ records? of a later Kafka")
LIVE = "kafka.controller.bootstrap.servers"
VALUES = "".join(f"{number}\n" for number in range(20))
PAGES = (
    "/", "/quorum", "/brokers", "/topics", "/topics/before", "/topics/before/0", "/groups", "/events", "/metadata",
    "/configs", "/charts", "/access",
)  # fmt: skip


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """Starts a cluster whose log has a topic, a removed registration, and another topic."""
    directory = tmp_path_factory.mktemp("newest-kafka")
    version = maven.newest(ARTIFACT, apache_kafka.VERSION)
    with apache_kafka.running(
        directory, controllers=CONTROLLERS, brokers=1, heap="512m", version=version
    ) as cluster:
        create(cluster, "before")
        trimaran("produce", "before", "-b", cluster.bootstrap, stdin=VALUES)
        controllers = ("-B", cluster.controller_bootstrap)
        quorum = json.loads(trimaran("quorum", "status", *controllers, "-o", "json").stdout)
        follower = next(
            controller.id
            for controller in cluster.controllers
            if controller.id != quorum["leader_id"]
        )
        asked = ("unregister-controller", "--bootstrap-controller", cluster.controller_bootstrap)
        command = apache_kafka.java(TOOL, *asked, "--id", str(follower), version=version)
        subprocess.run(command, check=True, timeout=120)
        create(cluster, "after")
        yield cluster


@pytest.fixture(scope="module")
def types(kafka):
    """The types of the records in a controller's log, in its order."""
    return types_of("dump", directory_of(kafka))


@pytest.fixture(scope="module")
def reported(types):
    """Checks that a text reports unknown records, or that it does not if the log has none."""
    expected = any(UNKNOWN_TYPE.fullmatch(name) for name in types)

    def check(text):
        assert bool(SAID.search(text)) == expected, text

    return check


def create(cluster, topic):
    trimaran("topics", "create", topic, "-p", "2", "-r", "1", "-b", cluster.bootstrap)


def directory_of(kafka):
    return str(kafka.controllers[0].directory)


def types_of(*command):
    said = trimaran("metadata", *command, "-o", "jsonl").stdout
    return [json.loads(line)["type"] for line in said.splitlines()]


def test_removed_registration_is_named_by_all_readers(kafka, types):
    tailed = types_of("tail", "-B", kafka.controller_bootstrap)
    for names in (types, tailed):
        assert names.count(UNREGISTERED) == 1
        assert "TopicRecord" in names[names.index(UNREGISTERED) :]


def test_every_record_of_kafka_4_4_is_known(kafka, types):
    if kafka.version.startswith("4.4."):
        assert not [name for name in types if UNKNOWN_TYPE.fullmatch(name)]


def test_log_dump_reads_log_to_its_end(kafka):
    log = f"{directory_of(kafka)}/__cluster_metadata-0"
    assert UNREGISTERED in trimaran("logs", "dump", "--decode", log).stdout
    assert "0 problems" in trimaran("logs", "dump", "--verify", log).stderr


def test_views_of_state_report_possible_staleness(kafka, reported):
    live, directory = ("-B", kafka.controller_bootstrap), ("-p", directory_of(kafka))
    commands = [
        ("metadata", "image", *live),
        ("metadata", "image", directory_of(kafka)),
        *(("metadata", "ls", "/image", *where) for where in (live, directory)),
        *(("metadata", "find", "/image/topics", *where) for where in (live, directory)),
        ("metadata", "tree", "/image/features", *live),
        ("metadata", "cat", "/image/features/metadataVersion", *live),
        ("configs", "history", *live),
        ("partitions", "history", "before/0", *live),
    ]
    check_each(commands, lambda command: reported(trimaran(*command).stderr))


def test_image_has_all_topics_and_features(kafka, types):
    image = json.loads(trimaran("metadata", "image", "-B", kafka.controller_bootstrap).stdout)
    unknown = image.get("unknown_records", {"count": 0})["count"]
    assert unknown == sum(bool(UNKNOWN_TYPE.fullmatch(name)) for name in types)
    assert {"before", "after"} <= image["topics"].keys()
    described = json.loads(trimaran("features", "list", "-b", kafka.bootstrap, "-o", "json").stdout)
    finalized = {row["feature"]: row["level"] for row in described}
    assert finalized["metadata.version"] >= 33
    assert (finalized["share.version"], finalized["streams.version"]) >= (2, 1)


def test_logs_of_two_controllers_are_compared(kafka, reported):
    both = [str(controller.directory) for controller in kafka.controllers]
    done = trimaran("metadata", "verify", *both)
    assert "0 problems" in done.stdout
    reported(done.stderr)


def test_mirror_and_verify_of_newest_kafka(kafka, reported, tmp_path):
    zookeeper = start_zookeeper(tmp_path / "zookeeper")
    asked = ("-B", kafka.controller_bootstrap, "-z", zookeeper.connect)
    command = [sys.executable, "-m", "trimaran", "zk", "mirror", *asked]
    log = tmp_path / "mirror.log"
    with log.open("w") as output:
        mirror = subprocess.Popen(
            [*command, "--state", str(tmp_path / "mirror")], stderr=output, stdout=output
        )
    try:

        def is_mirrored():
            done = trimaran("zk", "verify", *asked, check=False)
            return ", 0 missing, 0 extra, 0 different" in done.stdout

        until(is_mirrored, "the tree is that of the image", 60)
        reported(trimaran("zk", "verify", *asked).stderr)
        reported(trimaran("zk", "status", "-z", zookeeper.connect).stdout)
        reported(log.read_text())
        assert mirror.poll() is None
    finally:
        mirror.terminate()
        mirror.wait(20)
        zookeeper.stop()


def test_console_pages_show_the_newest_kafka(kafka, reported):
    cluster = ConsoleCluster(kafka.bootstrap, kafka.controller_bootstrap)
    with console_before(cluster) as browser:

        def is_complete(path):
            answer = browser.get(path)
            assert answer.status == 200
            return "after" in answer.body

        until(lambda: is_complete("/topics"), "the topics are listed", 60)
        check_each(PAGES, lambda path: reported(browser.get(path).body))


@pytest.mark.parametrize("where", ["files", "live"])
def test_spark_reads_the_records_of_its_topics(kafka, where):
    live = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "before"}
    directory = str(kafka.brokers[0].directory)
    files = {"path": directory, "subscribe": "before", "end": "log_end"}
    options = LogOptions.parse(files if where == "files" else live)
    wanted = read_request_of(options, ("value",))
    found = [
        row["value"].decode()
        for task in plan_log(options).tasks
        for batch in read_records(task, wanted)
        for row in batch.to_pylist()
    ]
    assert sorted(found, key=int) == VALUES.split()


@pytest.mark.parametrize("where", ["files", "live"])
def test_spark_tables_count_unknown_records(kafka, types, where):
    source = (
        {"path": directory_of(kafka)} if where == "files" else {LIVE: kafka.controller_bootstrap}
    )

    def rows(table):
        options = parse_options({**source, "table": table})
        made = TABLES[table]
        columns = tuple(made.schema.names)
        batches = [
            batch
            for task in plan_table(made, options, columns)
            for batch in made.read(task, columns, options)
        ]
        return [row for batch in batches for row in batch.to_pylist()]

    read = {name: rows(name) for name in TABLES}
    names = [row["type"] for row in read["records"]]
    of_data = [name for name in types if not name.isupper() or UNKNOWN_TYPE.fullmatch(name)]
    assert names[: len(of_data)] == of_data  # the table has no control records
    unknown = sum(bool(UNKNOWN_TYPE.fullmatch(name)) for name in names)
    assert unknown or not any(row["kind"] == "unknown_records" for row in read["image"])
    counted = {name: read[name] for name, table in TABLES.items() if UNKNOWN in table.columns}
    assert len(counted) == 10  # all histories and the image
    assert {row["topic"] for row in counted["topic_history"]} >= {"before", "after"}
    assert {row["unknown_records"] for row in counted["partition_history"]} <= {0, unknown}
