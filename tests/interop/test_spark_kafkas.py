"""Spark reads the directories and the running nodes of Apache Kafka 2.8, 3.9 and 4.4: it returns the records that
Kafka's own consumer gets at both isolation levels, and the groups, offsets and transactions that Kafka's own decoders
print.
"""

import base64
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.interop import printed_coordinators
from tests.interop.fixtures.kafkas import OneNode, libraries
from tests.interop.fixtures.make import Writer, write_first
from tests.interop.old_clients import number
from tests.librdkafka import Consumer
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import RECORD_SCHEMA, read_records
from trimaran.spark.kafka_log.source import read_request_of

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

VERSIONS = ("2.8.2", "3.9.1", "4.4.0")
LEVELS = ("read_uncommitted", "read_committed")
PROGRAM = Path(__file__).with_name("Drain.java")
GROUP_RECORDS = 40
COMMIT_EVERY = 10
FETCH_BYTES = 100  # less than the size of any batch; each must be returned nevertheless


def drained(version, bootstrap, level):
    """Returns the output lines of that version's own consumer."""
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Xmx256m"]
    done = subprocess.run(
        [*command, "-cp", f"{libraries(version)}/*", str(PROGRAM), bootstrap, level],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def commit_in_a_group(bootstrap, protocol):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["v2-lz4", "idempotent"])
    for turn in range(GROUP_RECORDS):
        [message] = consumer.consume(1, 60)
        assert message.error() is None
        if turn % COMMIT_EVERY == 0:
            consumer.commit(message=message, asynchronous=False)
    consumer.close()


def fetched(bootstrap, level):
    """Returns the lines of our readers from the running node, with one batch per response."""
    options = LogOptions.parse(
        {
            "kafka.bootstrap.servers": bootstrap,
            "kafka.isolation.level": level,
            "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
            "kafkaConsumer.pollTimeoutMs": "30000",
            "includeHeaders": "true",
        }
    )
    wanted = read_request_of(options, tuple(RECORD_SCHEMA.names))
    return sorted(
        line(record_of(row))
        for task in plan_log(options).tasks
        for batch in read_records(task, wanted)
        for row in batch.to_pylist()
    )


def record_of(row):
    """Returns a line as a Spark row."""
    headers = [SimpleNamespace(**header) for header in row["headers"] or ()]
    ms = round(row["timestamp"].timestamp() * 1000) if row["timestamp"] else -1
    return SimpleNamespace(**{**row, "headers": headers, "ms": ms})


@pytest.fixture(scope="module", params=VERSIONS)
def ran(request, tmp_path_factory):
    """Runs a node with plain, compacted and transactional topics of each codec and format, with aborts and one open
    transaction, then stops it. Yields the version, the log directory, and by isolation level the records that the
    consumer and our readers got.
    """
    version = request.param
    node = OneNode(version, tmp_path_factory.mktemp(f"kafka-{version}"))
    with node.running() as bootstrap:
        write_first(Writer(version, bootstrap), node)
        for protocol in ("classic", "consumer") if number(version) >= (4,) else ("classic",):
            commit_in_a_group(bootstrap, protocol)
        given = {level: drained(version, bootstrap, level) for level in LEVELS}
        live = {level: fetched(bootstrap, level) for level in LEVELS}
    return version, node.data, given, live


@pytest.fixture(scope="module")
def stopped(ran):
    return ran[:3]


@pytest.fixture(scope="module")
def spark():
    from trimaran.spark.sessions.session import session

    made = session(app_name="interop")
    yield made
    made.stop()


def text(value):
    return "-" if value is None else base64.b64encode(value).decode()


def line(row):
    headers = ",".join(f"{header.key}={text(header.value)}" for header in row.headers or ())
    place = (row.topic, row.partition, row.offset, row.ms, row.timestampType)
    return "\t".join([*map(str, place), text(row.key), text(row.value), headers])


@pytest.mark.parametrize("level", LEVELS)
def test_running_node_gives_same_records_as_consumer(ran, level):
    """There are messages of v0 and v1 in wrappers, and batches larger than the limit of a response."""
    _, _, given, live = ran
    assert live[level] == given[level]


@pytest.mark.parametrize("level", LEVELS)
def test_directory_gives_same_records_as_consumer(stopped, spark, level):
    _, directory, given = stopped
    source = spark.read.format("kafka_log").options(
        **{"kafka.isolation.level": level, "includeHeaders": "true"},
        end="log_end",
        splitBytes="400",
    )
    rows = source.load(str(directory)).selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    assert sorted(map(line, rows)) == given[level]


def test_isolation_levels_give_different_records(stopped):
    """The aborted records and those after an open transaction differ; otherwise the comparison would prove little."""
    _, _, given = stopped
    assert 300 < len(given["read_committed"]) < len(given["read_uncommitted"])
    assert set(given["read_committed"]) < set(given["read_uncommitted"])


def level_rows(spark, directory, level):
    """Returns the rows of a level as dicts, with times in ms and sorted lists."""
    source = spark.read.format("kafka_log").options(level=level, end="log_end")
    frame = source.load(str(directory))
    for column, kind in frame.dtypes:
        if kind == "timestamp":
            name = column.replace("_ts", "_ms")
            frame = frame.selectExpr(f"* EXCEPT ({column})", f"unix_millis({column}) AS {name}")
    rows = [row.asDict() for row in frame.collect()]
    for row in rows:
        if row.get("assignment") is not None:
            row["assignment"] = sorted(row["assignment"])
        if "partitions" in row:
            row["partitions"] = sorted(row["partitions"] or ())
    return rows


def assert_rows(ours, theirs):
    """Asserts that Kafka's rows equal ours in the fields that Kafka prints, and that there are no others."""
    by_offset = {row["offset"]: row for row in ours}
    assert sorted(by_offset) == [row["offset"] for row in theirs]
    for row in theirs:
        found = by_offset[row["offset"]]
        assert {name: found[name] for name in row} == row


def test_offsets_as_kafkas_decoder_prints_them(stopped, spark):
    version, directory, _ = stopped
    theirs = printed_coordinators.offsets(version, directory / "__consumer_offsets-0")
    assert len(theirs) >= GROUP_RECORDS // COMMIT_EVERY
    assert_rows(level_rows(spark, directory, "group_offsets"), theirs)


def test_transactions_as_kafkas_decoder_prints_them(stopped, spark):
    version, directory, _ = stopped
    theirs = printed_coordinators.transactions(version, directory / "__transaction_state-0")
    assert {row["state"] for row in theirs} >= {"Ongoing", "CompleteCommit", "CompleteAbort"}
    assert_rows(level_rows(spark, directory, "transactions"), theirs)


def test_groups_as_kafkas_decoder_prints_them(stopped, spark):
    version, directory, _ = stopped
    theirs = printed_coordinators.groups(version, directory / "__consumer_offsets-0")
    found = {}
    for row in level_rows(spark, directory, "group_members"):
        one = found.setdefault(row["offset"], {**row, "members": {}})
        if row["protocol"] == "classic" and row["member_id"] is not None:
            one["members"][row["member_id"]] = row
    assert sorted(found) == [row["offset"] for row in theirs]
    assert any(row.get("members") for row in theirs)
    for row in theirs:
        ours = found[row["offset"]]
        members = row.pop("members", {})
        assert {name: ours[name] for name in row} == row
        assert ours["members"].keys() == members.keys()
        for name, member in members.items():
            assert {key: ours["members"][name][key] for key in member} == member
