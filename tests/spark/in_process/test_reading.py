"""Views as Arrow tables, up to a bound."""

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tests.checks import check_each
from trimaran.spark.analyses import views
from trimaran.spark.data_source.columns import TIMESTAMP
from trimaran.spark.in_process import reading
from trimaran.spark.in_process.database import TooLarge, database
from trimaran.spark.in_process.reading import read_view, schema_of_view
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.spark.sources import VIEWS

MUCH = 1 << 20


def columns_of(view, path, *names):
    schema = schema_of_view(view, path)
    return StructType([schema[name] for name in names]) if names else schema


def test_columns_are_read_in_requested_order(small_cluster):
    table = read_view(
        "records",
        columns_of("records", small_cluster, "offset", "topic", "timestamp"),
        small_cluster,
        MUCH,
    )
    assert table.column_names == ["offset", "topic", "timestamp"]
    assert table["offset"].to_pylist() == list(range(100))
    assert table.schema.field("timestamp").type == pa.timestamp("us")
    assert TIMESTAMP.tz == "UTC"


def test_each_view_is_readable(small_cluster):
    def check(view):
        columns = columns_of(view, small_cluster)
        assert read_view(view, columns, small_cluster, MUCH).column_names == columns.names

    check_each(VIEWS, check)


def test_records_beyond_bound_are_not_begun(small_cluster):
    with pytest.raises(TooLarge, match=r"the records take [\d,]+ bytes, more than 100"):
        read_view("records", columns_of("records", small_cluster, "offset"), small_cluster, 100)


def test_table_that_grows_beyond_bound_ends(small_cluster):
    with pytest.raises(TooLarge, match="the table batches takes more than 50 bytes"):
        read_view("batches", columns_of("batches", small_cluster, "topic"), small_cluster, 50)


def test_tables_of_a_run_share_one_bound(small_cluster, monkeypatch):
    columns = {"topic": "string", "base_offset": "bigint"}
    with database() as opened:
        size = views.in_this_process(opened, small_cluster)("batches", columns).toArrow().nbytes
        monkeypatch.setattr(reading, "IN_PROCESS_BYTES", size + size // 2)
        load = views.in_this_process(opened, small_cluster)
        load("batches", columns)
        with pytest.raises(TooLarge, match="the table batches takes more than"):
            load("batches", columns)


def test_missing_data_is_named(tmp_path):
    with pytest.raises(DataUnreadable, match=r"meta\.properties"):
        read_view("records", columns_of("records", tmp_path, "offset"), tmp_path, MUCH)
