"""Directories of Apache Kafka 2.8, 3.9 and 4.3 as Spark reads them: the records that Kafka's own consumer was given at
both isolation levels, and what Kafka's own decoders print of groups, offsets and transactions.
"""

import base64
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.interop import printed_coordinators
from tests.interop.fixtures.kafkas import OneNode, libraries
from tests.interop.fixtures.make import Writer, write_first
from tests.interop.old_clients import number

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

VERSIONS = ("2.8.2", "3.9.1", "4.3.0")
LEVELS = ("read_uncommitted", "read_committed")
PROGRAM = Path(__file__).with_name("Drain.java")
GROUP_RECORDS = 40
COMMIT_EVERY = 10


def drained(version, bootstrap, level):
    """The lines of Kafka's own consumer of that version."""
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


@pytest.fixture(scope="module", params=VERSIONS)
def stopped(request, tmp_path_factory):
    """Version, log directory of a stopped node, and what the consumer had before, by level.

    Plain, compacted and transactional topics with aborts and one open transaction, of each codec and format.
    """
    version = request.param
    node = OneNode(version, tmp_path_factory.mktemp(f"kafka-{version}"))
    with node.running() as bootstrap:
        write_first(Writer(version, bootstrap), node)
        for protocol in ("classic", "consumer") if number(version) >= (4,) else ("classic",):
            commit_in_a_group(bootstrap, protocol)
        given = {level: drained(version, bootstrap, level) for level in LEVELS}
    return version, node.data, given


@pytest.fixture(scope="module")
def spark():
    from spark.session import session

    made = session(app_name="interop")
    yield made
    made.stop()


def text(value):
    return "-" if value is None else base64.b64encode(value).decode()


def line(row):
    headers = ",".join(f"{one.key}={text(one.value)}" for one in row.headers or ())
    place = (row.topic, row.partition, row.offset, row.ms, row.timestampType)
    return "\t".join([*map(str, place), text(row.key), text(row.value), headers])


@pytest.mark.parametrize("level", LEVELS)
def test_the_records_that_kafkas_consumer_is_given(stopped, spark, level):
    _, directory, given = stopped
    source = spark.read.format("kafka_log").options(
        **{"kafka.isolation.level": level, "includeHeaders": "true"},
        end="log_end",
        splitBytes="400",
    )
    rows = source.load(str(directory)).selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    assert sorted(map(line, rows)) == given[level]


def test_levels_differ(stopped):
    """By what was aborted and what lies behind an open transaction: else the comparison says little."""
    _, _, given = stopped
    assert 300 < len(given["read_committed"]) < len(given["read_uncommitted"])
    assert set(given["read_committed"]) < set(given["read_uncommitted"])


def level_rows(spark, directory, level):
    """As dicts with times in ms and lists sorted."""
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
    """Each of theirs is one of ours, in what it tells; there are no others."""
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
