"""Alternatives of a condition in one partition of a broker, each with its own offsets and times."""

import json

import pyarrow as pa
import pytest

from trimaran.spark.data_source.conditions import Conditions
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.source import read_request_of
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.plain import write_plain
from trimaran.testing import EmbeddedKafka

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

COUNT = 2500
BEGAN_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def brokers():
    with EmbeddedKafka({"log.retention.ms": "-1"}) as kafka:  # the times are old
        kafka.create_topic("t")
        given = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": "t"}
        times = pa.array([(BEGAN_MS + i) * 1000 for i in range(COUNT)], pa.timestamp("us", "UTC"))
        rows = pa.record_batch({"value": pa.array([b"v"] * COUNT), "timestamp": times})
        small = {"kafka.batch.size": "200"}
        write_plain(SinkOptions.parse({**given, **small}, streaming=False), iter([rows]))
        yield {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t"}


def offsets_of(brokers, tree):
    parsed = LogOptions.parse(brokers)
    plan = plan_log(parsed, Conditions.parse(json.dumps([tree]), "records"))
    wanted = read_request_of(parsed, ("offset",))
    tables = [pa.Table.from_batches([b]) for task in plan.tasks for b in read_records(task, wanted)]
    return sorted(row["offset"] for table in tables for row in table.to_pylist())


def since(offset):
    return ["GreaterThanOrEqual", "timestamp", {"us": (BEGAN_MS + offset) * 1000}]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (["LessThan", "offset", 5], [*range(5), *range(2000, COUNT)]),
        (["And", ["LessThan", "offset", 5], since(3)], [3, 4, *range(2000, COUNT)]),
    ],
)
def test_each_part_has_its_own_least_time(brokers, first, expected):
    """A part without a least time begins at its first offset; of several times, the least one is looked up."""
    later = ["And", ["GreaterThanOrEqual", "offset", 2000], since(2400)]
    assert offsets_of(brokers, ["Or", first, later]) == expected
