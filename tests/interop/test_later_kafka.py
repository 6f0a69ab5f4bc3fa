"""Our observers of Apache Kafka 4.4, with a record in the metadata log that they do not know: `kafka-cluster
unregister-controller` writes a record of type 29. Each observer continues, and reports the record in every output that
it could have changed.
"""

import json
import subprocess
import sys

import pytest

from tests.checks import check_each
from tests.cluster.processes import until
from tests.interop import apache_kafka
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

VERSION = "4.4.0"
CONTROLLERS = 2
TOOL = "org.apache.kafka.tools.ClusterTool"
SAID = "1 record of a later Kafka (type 29 version 0 at offset"
STALE = f"this may be stale: left out {SAID}"
LIVE = "kafka.controller.bootstrap.servers"
VALUES = "".join(f"{number}\n" for number in range(20))
PAGES = (
    "/", "/quorum", "/brokers", "/topics", "/topics/before", "/topics/before/0", "/groups", "/events", "/metadata",
    "/configs", "/charts", "/access",
)  # fmt: skip


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """Starts a cluster whose log has a topic, the unknown record, and another topic."""
    directory = tmp_path_factory.mktemp("kafka-4.4")
    with apache_kafka.running(
        directory, controllers=CONTROLLERS, brokers=1, heap="512m", version=VERSION
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
        command = apache_kafka.java(TOOL, *asked, "--id", str(follower), version=VERSION)
        subprocess.run(command, check=True, timeout=120)
        create(cluster, "after")
        yield cluster


def create(cluster, topic):
    trimaran("topics", "create", topic, "-p", "2", "-r", "1", "-b", cluster.bootstrap)


def directory_of(kafka):
    return str(kafka.controllers[0].directory)


def test_records_name_unknown_type_by_number(kafka):
    for command in (("tail", "-B", kafka.controller_bootstrap), ("dump", directory_of(kafka))):
        said = trimaran("metadata", *command, "-o", "jsonl").stdout
        rows = [json.loads(line) for line in said.splitlines()]
        types = [row["type"] for row in rows]
        assert types.count("UNKNOWN_29") == 1
        assert "TopicRecord" in types[types.index("UNKNOWN_29") :]


def test_log_dump_names_unknown_type_by_number(kafka):
    log = f"{directory_of(kafka)}/__cluster_metadata-0"
    assert "UNKNOWN_29 type=29 version=0" in trimaran("logs", "dump", "--decode", log).stdout
    assert "0 problems" in trimaran("logs", "dump", "--verify", log).stderr


def test_views_of_state_report_possible_staleness(kafka):
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

    def check(command):
        assert STALE in trimaran(*command).stderr

    check_each(commands, check)


def test_image_counts_unknown_record_and_continues(kafka):
    image = json.loads(trimaran("metadata", "image", "-B", kafka.controller_bootstrap).stdout)
    assert image["unknown_records"]["count"] == 1
    assert image["unknown_records"]["first_of_each_type"][0]["type"] == 29
    assert {"before", "after"} <= image["topics"].keys()


def test_logs_of_two_controllers_are_compared(kafka):
    both = [str(controller.directory) for controller in kafka.controllers]
    done = trimaran("metadata", "verify", *both)
    assert "0 problems" in done.stdout
    assert "left out 2 records of a later Kafka (type 29" in done.stderr


def test_mirror_continues_and_reports_unknown_record(kafka, tmp_path):
    zookeeper = start_zookeeper(tmp_path / "zookeeper")
    asked = ("-B", kafka.controller_bootstrap, "-z", zookeeper.connect)
    command = [sys.executable, "-m", "trimaran", "zk", "mirror", *asked]
    log = tmp_path / "mirror.log"
    with log.open("w") as output:
        mirror = subprocess.Popen(
            [*command, "--state", str(tmp_path / "mirror")], stderr=output, stdout=output
        )
    try:
        status = ("zk", "status", "-z", zookeeper.connect)
        until(lambda: SAID in trimaran(*status, check=False).stdout, "zk status says so", 60)
        assert "the tree may be stale by" in trimaran(*status).stderr
        done = trimaran("zk", "verify", *asked)
        assert ", 0 missing, 0 extra, 0 different" in done.stdout
        assert STALE in done.stderr
        assert f"The metadata log has {SAID}" in log.read_text()
        assert mirror.poll() is None
    finally:
        mirror.terminate()
        mirror.wait(20)
        zookeeper.stop()


def test_console_pages_report_unknown_record(kafka):
    cluster = ConsoleCluster(kafka.bootstrap, kafka.controller_bootstrap)
    with console_before(cluster) as browser:

        def check(path):
            until(lambda: SAID in browser.get(path).body, f"{path} says so", 60)

        check_each(PAGES, check)


@pytest.mark.parametrize("where", ["files", "live"])
def test_spark_reads_the_records_of_its_topics(kafka, where):
    live = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "before"}
    directory = str(kafka.brokers[0].directory)
    files = {"path": directory, "subscribe": "before", "end": "log_end"}
    options = LogOptions.parse(files if where == "files" else live)
    wanted = read_request_of(options, ("value",))
    found = [
        row["value"].decode()
        for task in plan_log(options)
        for batch in read_records(task, wanted)
        for row in batch.to_pylist()
    ]
    assert sorted(found, key=int) == VALUES.split()


@pytest.mark.parametrize("where", ["files", "live"])
def test_spark_tables_report_unknown_record(kafka, where):
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

    assert [row["type"] for row in rows("records")].count("UNKNOWN_29") == 1
    assert [
        row["value"][: len(SAID)] for row in rows("image") if row["kind"] == "unknown_records"
    ] == [SAID]
    counted = {name: rows(name) for name, table in TABLES.items() if UNKNOWN in table.columns}
    assert len(counted) == 9
    found = {row["topic"]: row["unknown_records"] for row in counted["topic_history"]}
    assert (found["before"], found["after"]) == (0, 1)
    assert {row["unknown_records"] for row in counted["partition_history"]} == {1}, "they go on"
