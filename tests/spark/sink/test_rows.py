"""Columns of a query as records: which are taken, and what their Arrow buffers become."""

from array import array

import pyarrow as pa
import pytest

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import decode_records
from trimaran.log.batches.rows import BatchIdentity, OpenBatch
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.options import OptionError
from trimaran.spark.sink.rows import NO_PARTITION, check_schema, rows_of

NOW = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def records_of(batch, topic="t"):
    rows = rows_of(batch, topic, NOW)
    open_batch = OpenBatch(1 << 20)
    order = array("i", range(rows.size))
    open_batch.add(rows.writer, order, 0, rows.size, rows.timestamps)
    return decode_records(BatchView(open_batch.seal(BatchIdentity(), 0).data))


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ([("value", "string")], None, "there is no column topic"),
        ([("topic", "string")], None, "the required column value is missing"),
        ([("value", "int")], "t", "column value is of type int; it must be string or binary"),
        ([("value", "binary"), ("key", "bigint")], "t", "column key is of type bigint"),
        ([("value", "binary"), ("topic", "int")], None, "column topic is of type int"),
        ([("value", "binary"), ("partition", "bigint")], "t", "must be int"),
        ([("value", "binary"), ("timestamp", "bigint")], "t", "must be timestamp or double"),
        (
            [("value", "binary"), ("headers", "map<string,binary>")],
            "t",
            "column headers is of type",
        ),
        ([("value", "binary"), ("value", "binary")], "t", "two columns are called value"),
    ],
)
def test_wrong_columns_are_refused(columns, topic, message):
    with pytest.raises(OptionError, match=message):
        check_schema(columns, topic)


def test_columns_of_other_names_are_not_read():
    check_schema([("value", "string"), ("topic", "int"), ("offset", "bigint")], "t")
    batch = pa.record_batch({"value": pa.array(["a"]), "offset": pa.array([5])})
    assert [record.value for record in records_of(batch)] == [b"a"]


@pytest.mark.parametrize("large", [False, True])
def test_all_columns_become_records(large):
    text, data = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    batch = pa.record_batch(
        {
            "key": pa.array(["a", None, "", "ö"], text),
            "value": pa.array([None, b"", b"xyz", b"v"], data),
            "timestamp": pa.array([1_000_999, None, -999, 5_000_000], pa.timestamp("us", "UTC")),
            "headers": pa.array([None, [], [("h", b"1"), ("h", None)], [("ö", b"")]], HEADERS),
        }
    )
    for part, first in ((batch, 0), (batch.slice(1), 1), (batch.slice(2, 1), 2)):
        found = [(r.key, r.value, r.timestamp_ms, r.headers) for r in records_of(part)]
        assert (
            found
            == [
                (b"a", None, 1000, ()),
                (None, b"", NOW, ()),
                (b"", b"xyz", 0, (("h", b"1"), ("h", None))),
                ("ö".encode(), b"v", 5000, (("ö", b""),)),
            ][first : first + part.num_rows]
        )


def test_seconds_are_a_timestamp():
    batch = pa.record_batch({"value": pa.array([b""] * 2), "timestamp": pa.array([1.5, None])})
    assert [record.timestamp_ms for record in records_of(batch)] == [1500, NOW]


def test_partitions_and_topics_are_those_of_the_columns():
    batch = pa.record_batch(
        {
            "value": pa.array([b""] * 4),
            "partition": pa.array([None, 3, -1, 0], pa.int32()),
            "topic": pa.array(["x", "y", "x", "z"]),
        }
    )
    rows = rows_of(batch.slice(1), None, NOW)
    assert [rows.topics[number] for number in rows.topic_of] == ["y", "x", "z"]
    assert list(rows.partitions) == [3, -1, 0]
    named = rows_of(batch, "t", NOW)
    assert (named.topics, list(named.topic_of)) == (["t"], [0] * 4)
    assert list(named.partitions) == [NO_PARTITION, 3, -1, 0]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("topic", pa.array(["a", None]), "row 1 of a batch has a null topic"),
        (
            "timestamp",
            pa.array([0, -1000], pa.timestamp("us", "UTC")),
            "row 1 of a batch has the timestamp 1969",
        ),
        ("headers", pa.array([[], [(None, b"1")]], HEADERS), "a header without a key"),
        ("headers", pa.array([[], [None]], HEADERS), "a header without a key"),
    ],
)
def test_row_that_cannot_be_a_record_is_named(column, values, message):
    batch = pa.record_batch({"value": pa.array([b"", b""]), column: values})
    with pytest.raises(WriteFailed, match=message):
        rows_of(batch, None if column == "topic" else "t", NOW)


def test_key_of_a_row_is_shown():
    batch = pa.record_batch({"value": pa.array([b""]), "key": pa.array(["k" * 100])})
    rows = rows_of(batch, "t", NOW)
    assert rows.key_at(0, batch) == f", key '{'k' * 80}'"
    assert rows.key_at(0, batch.select(["value"])) == ""
