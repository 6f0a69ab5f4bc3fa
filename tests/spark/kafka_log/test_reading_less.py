"""Reads with conditions over any log: the twin reads everything, and then compares each row.

Logs have times out of order, times of the log, transactions that ended either way, and many segments; their indexes may
be damaged.
"""

import json
import shutil
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log.inspection.test_segment_lookup import DAMAGES
from tests.spark.data_source.test_conditions import UNKNOWN, leaves, truth
from tests.spark.directories import checkpoint, data_batches, make_node, write_partition
from tests.spark.kafka_log.test_read_committed import marker
from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.spark.data_source.conditions import NO_CONDITIONS, Conditions
from trimaran.spark.kafka_log.batches import read_batches
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.source import read_request_of

TIMES = [3, 4, 7, 0, 5, 5, 6, 2, 8, 1, 4, 9]  # the length of a batch in milliseconds


class Written(NamedTuple):
    """A node directory, and the offset after its last record."""

    node: object
    end: int


def batches():
    """Returns batches of three records, each fifth a marker, with times out of order."""
    made, offset = [], 0
    for number in range(60):
        producer = 7 + number % 3
        if number % 5 == 4:
            made.append(marker(offset, producer, "commit" if number % 2 else "abort"))
            offset += 1
            continue
        time = TIMES[number % 12]
        rows = [NewRecord(b"k", b"v" * (number % 3), time - i) for i in range(1 + number % 3)]
        data = bytearray(build_batch(rows, base_offset=offset))
        if number % 4 == 1:
            BatchView(data).stamp_append_time(time)
        if number % 4 == 2:
            data = build_batch(
                rows,
                base_offset=offset,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        made.append(bytes(data))
        offset += len(rows)
    for producer in (7, 8, 9):
        made.append(marker(offset, producer, "abort"))
        offset += 1
    return made, offset


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    node = make_node(tmp_path_factory.mktemp("less"), 1)
    made, end = batches()
    for topic in "ab":
        for partition in range(2):
            folder = write_partition(node, topic, partition, made, segment_bytes=900)
    assert len(list(folder.glob("*.log"))) > 4
    checkpoint(node, {(t, p): end for t in "ab" for p in range(2)})
    return Written(node, end)


NAMES = ("topic", "partition", "offset", "timestamp")


def rows_of(node, conditions=NO_CONDITIONS, level="records", **options):
    parsed = LogOptions.parse({"path": str(node), "level": level, **options})
    names = NAMES if level == "records" else (*NAMES[:2], "base_offset", "last_offset")
    reader = read_records if level == "records" else read_batches
    found = []
    for task in plan_log(parsed, conditions).tasks:
        for batch in reader(task, read_request_of(parsed, names)):
            found += batch.to_pylist()
    for row in found:
        row["value"] = None
        if level == "records":
            row["timestamp"] = round(row["timestamp"].timestamp() * 1_000_000)
    return found


NUMBERS = st.integers(-1, 130)
WANTED = {
    "topic": st.sampled_from("abc"),
    "partition": st.integers(-1, 2),
    "offset": NUMBERS,
    "timestamp": st.builds(lambda us: {"us": us}, st.integers(-3000, 10_000)),
}


def trees(columns):
    return st.recursive(
        leaves({name: WANTED.get(name, NUMBERS) for name in columns}),
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(["And", "Or"]), inner, inner),
            st.tuples(st.just("Not"), inner, st.none()),
        ),
        max_leaves=6,
    )


def matching(rows, tree):
    return [tuple(row.values()) for row in rows if truth(tree, row) in (True, UNKNOWN)]


@settings(max_examples=60)
@given(st.data())
def test_rows_are_those_of_a_full_read(written, tmp_path_factory, data):
    node = written.node
    damage = data.draw(st.sampled_from([None, *DAMAGES]))
    if damage is not None:
        node = tmp_path_factory.mktemp("less") / "node"
        shutil.copytree(written.node, node)
        suffix = data.draw(st.sampled_from(["*.index", "*.timeindex", "*index"]))
        for path in sorted(node.rglob(suffix)):
            path.write_bytes(damage(path.read_bytes(), data.draw))
    tree = data.draw(trees(NAMES))
    isolation = data.draw(st.sampled_from(["read_committed", "read_uncommitted"]))
    given_ = {
        "kafka.isolation.level": isolation,
        "splitBytes": data.draw(st.sampled_from(["300", "9999999"])),
    }
    conditions = Conditions.parse(json.dumps([tree]), "records")
    found = rows_of(node, conditions, **given_)
    assert matching(found, tree) == matching(rows_of(written.node, **given_), tree)


@settings(max_examples=40)
@given(tree=trees(("topic", "partition", "base_offset", "last_offset")))
def test_batches_are_those_of_a_full_read(written, tree):
    conditions = Conditions.parse(json.dumps([tree]), "batches")
    found = rows_of(written.node, conditions, "batches", includeControl="true")
    everything = rows_of(written.node, level="batches", includeControl="true")
    assert matching(found, tree) == matching(everything, tree)


def test_times_that_are_known_are_not_even_decoded(written):
    """Batches with one record or a time of the log are omitted above an upper bound, others are not."""
    late = ["LessThan", "timestamp", {"us": 1000}]
    found = rows_of(written.node, Conditions.parse(json.dumps([late]), "records"))
    everything = rows_of(written.node)
    assert matching(found, late) == matching(everything, late)
    assert len(matching(found, late)) < len(found) < len(everything)


def test_each_end_is_reached(written):
    """This holds wherever index entries and ends of batches are."""
    only = ["EqualTo", "partition", 0]
    everything = [
        row["offset"] for row in rows_of(written.node, subscribe="a,b") if not row["partition"]
    ]
    for end in range(written.end + 1):
        trees = json.dumps([only, ["EqualTo", "topic", "a"], ["LessThan", "offset", end]])
        found = [row["offset"] for row in rows_of(written.node, Conditions.parse(trees, "records"))]
        assert found == [offset for offset in everything[: len(everything) // 2] if offset < end]


def test_first_records_need_no_whole_segment(tmp_path):
    node = make_node(tmp_path, 1)
    folder = write_partition(node, "a", 0, data_batches(100), segment_bytes=1 << 20)
    [segment] = folder.glob("*.log")
    checkpoint(node, {("a", 0): 1000})
    for options, tree in (
        ({}, ["LessThan", "offset", 20]),
        ({"endingOffsets": '{"a":{"0":20}}'}, None),
        ({"endingTimestamp": "2000"}, None),
    ):
        parsed = LogOptions.parse({"path": str(node), **options})
        plan = plan_log(parsed, Conditions.parse(json.dumps([tree]), "records"))
        [[piece]] = plan.tasks
        assert (piece.start_position, piece.start_offset, piece.end_offset) == (0, 0, 20)
        assert piece.end_position < segment.stat().st_size / 10
        found = rows_of(node, Conditions.parse(json.dumps([tree]), "records"), **options)
        assert [row["offset"] for row in found] == list(range(20))


def test_late_times_among_early_offsets_need_no_range(tmp_path):
    node = make_node(tmp_path, 1)
    write_partition(node, "a", 0, data_batches(100), segment_bytes=1 << 20)
    checkpoint(node, {("a", 0): 1000})
    early, late = ["LessThan", "offset", 20], ["GreaterThan", "timestamp", {"us": 90_000_000}]
    parsed = LogOptions.parse({"path": str(node)})
    assert plan_log(parsed, Conditions.parse(json.dumps([early]), "records")).tasks
    assert plan_log(parsed, Conditions.parse(json.dumps([late]), "records")).tasks
    assert not plan_log(parsed, Conditions.parse(json.dumps([early, late]), "records")).tasks


@pytest.mark.parametrize("time", range(11))
def test_time_options_find_the_first_offset(written, time):
    """`endingTimestamp` ends a partition at its first record of that time or later."""
    in_a = [row for row in rows_of(written.node, includeControl="true") if row["topic"] == "a"]
    first = min((r["offset"] for r in in_a if r["timestamp"] >= time * 1000), default=written.end)
    found = rows_of(
        written.node,
        includeControl="true",
        subscribe="a",
        startingTimestamp=str(time),
        startingOffsetsByTimestampStrategy="latest",
    )
    assert found == [row for row in in_a if row["offset"] >= first]
    found = rows_of(written.node, includeControl="true", subscribe="a", endingTimestamp=str(time))
    assert found == [row for row in in_a if row["offset"] < first]
