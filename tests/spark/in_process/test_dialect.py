"""Parts of Spark SQL that DuckDB would evaluate differently if they were not translated."""

from datetime import datetime

import pyarrow as pa
import pytest

from trimaran.spark.in_process.database import TooLarge, database

duckdb = pytest.importorskip("duckdb")
sqlglot = pytest.importorskip("sqlglot")


@pytest.fixture(scope="module")
def opened():
    with database() as made:
        yield made


@pytest.fixture(scope="module")
def rows(opened):
    columns = {
        "n": pa.array([1, 2, 3], pa.int64()),
        "text": pa.array(["a", None, "é"]),
        "key": pa.array([b"k1", None, b"\xff\x00k"]),
        "ids": pa.array([[3, 1], [], None], pa.list_(pa.int32())),
    }
    return opened.table(pa.table(columns))


def answers(opened, rows, sql):
    """Returns the rows of a query of the fixture, as tuples."""
    found = opened.query(sql, {"rows": rows}).toArrow().to_pylist()
    return [tuple(row.values()) for row in found]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        # the value of the row with the largest key, even if it is null
        ("SELECT max_by(text, -n), min_by(text, abs(n - 2)) FROM {rows}", [("a", None)]),
        # nulls come first, or last in descending order
        ("SELECT text FROM {rows} ORDER BY text", [(None,), ("a",), ("é",)]),
        ("SELECT text FROM {rows} ORDER BY text DESC", [("é",), ("a",), (None,)]),
        # the results are integers, also as operands
        ("SELECT floor(7 / 2) % 2, ceil(n / 2) FROM {rows} WHERE n = 1", [(1, 1)]),
        ("SELECT n / 2 FROM {rows} WHERE n = 3", [(1.5,)]),
        ("SELECT sum(n), count_if(n > 1) FROM {rows}", [(6, 2)]),
        ("SELECT sum(n), count_if(n > 1) FROM {rows} WHERE n > 9", [(None, 0)]),
        ("SELECT count_if(n > 1) OVER () FROM {rows} WHERE n = 2", [(1,)]),
        # lengths: bytes of a value, characters of a text
        ("SELECT length(key), length(text) FROM {rows} WHERE n = 3", [(3, 1)]),
        ("SELECT substring(key, 1, 2) FROM {rows} WHERE n = 3", [(b"\xff\x00",)]),
        ("SELECT CAST(key AS STRING) FROM {rows} WHERE n = 1", [("k1",)]),
        ("SELECT CAST(n AS STRING) FROM {rows} WHERE n = 1", [("1",)]),
        # times have no zone
        ("SELECT timestamp_millis(1500)", [(datetime.fromisoformat("1970-01-01T00:00:01.5"),)]),
        ("SELECT unix_millis(timestamp_millis(-1))", [(-1,)]),
        ("SELECT CAST(NULL AS TIMESTAMP) IS NULL", [(True,)]),
        # the rank is the position of a row; no position is interpolated
        ("SELECT percentile_approx(n, array(0.01, 0.5, 0.99)) FROM {rows}", [([1, 2, 3],)]),
        ("SELECT percentile(n, 0.5) FROM {rows} WHERE n < 3", [(1.5,)]),
        ("SELECT n, explode(ids) FROM {rows}", [(1, 3), (1, 1)]),
        ("SELECT size(ids) FROM {rows} ORDER BY n", [(2,), (0,), (None,)]),
        ("SELECT ids[0] FROM {rows} WHERE n = 1", [(3,)]),
        ("SELECT concat('p', n, text) FROM {rows} WHERE n < 3 ORDER BY n", [("p1a",), (None,)]),
        ("SELECT concat_ws('-', 'p', text) FROM {rows} WHERE n = 2", [("p",)]),
        ("SELECT xxhash64(key) = xxhash64(key, text) FROM {rows} WHERE n = 1", [(False,)]),
        ("SELECT log2(8), CAST(pow(2, floor(log2(9))) AS BIGINT)", [(3.0, 8)]),
        ("SELECT sort_array(from_json('[2, 1]', 'array<int>'))", [([1, 2],)]),
        ("SELECT get_json_object('{\"a\": 5}', '$.a')", [("5",)]),
        ("SELECT /*+ BROADCAST(r) */ r.n FROM {rows} r WHERE r.n = 1", [(1,)]),
    ],
)
def test_translated_query_means_what_spark_means(opened, rows, sql, expected):
    sql = sql if "{rows}" in sql else f"{sql} FROM {{rows}} LIMIT 1"
    assert answers(opened, rows, sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT substring(text, 2, 1) FROM {rows}",
        "SELECT from_json(text, 'a int') FROM {rows}",
    ],
)
def test_query_without_translation_is_refused(opened, rows, sql):
    with pytest.raises(sqlglot.errors.SqlglotError):
        answers(opened, rows, sql)


def test_groups_are_changed_one_by_one(opened, rows):
    def counted(group):
        return pa.table({"text": group["text"].slice(0, 1), "rows": [group.num_rows]})

    schema = [("text", pa.string()), ("rows", pa.int64())]
    doubled = opened.query(
        "SELECT text FROM {rows} UNION ALL SELECT text FROM {rows}", {"rows": rows}
    )
    made = opened.map_groups(doubled, "text", counted, schema).toArrow().to_pylist()
    assert sorted((row["text"], row["rows"]) for row in made if row["text"]) == [("a", 2), ("é", 2)]
    none = opened.query("SELECT text FROM {rows} WHERE n > 9", {"rows": rows})
    assert opened.map_groups(none, "text", counted, schema).toArrow().num_rows == 0


def test_query_beyond_memory_is_too_large(opened, monkeypatch):
    def fail(_):
        raise duckdb.OutOfMemoryException("full")

    monkeypatch.setattr(opened, "_connection", type("Full", (), {"sql": staticmethod(fail)}))
    with pytest.raises(TooLarge, match="2GiB"):
        opened.arrow("SELECT 1")
