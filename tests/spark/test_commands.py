"""`trimaran analyze` and `trimaran sql`, in the session of the other tests."""

import json
import time
from datetime import UTC, datetime

import pytest

from tests.spark.directories import checkpoint, data_batches, make_node, write_partition
from trimaran.cli.analyze import analyze, report_of, since_milliseconds
from trimaran.cli.sql import in_utc, sql
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.spark.analyses import engines
from trimaran.spark.in_process import reading

types = pytest.importorskip("pyspark.sql.types")
pytestmark = pytest.mark.usefixtures("query_loggers")


def in_spark(test):
    """Marks a test for which Spark runs."""
    return pytest.mark.spark(pytest.mark.slow(pytest.mark.usefixtures("spark")(test)))


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = 1_769_860_800_000


@pytest.fixture
def data(small_cluster):
    return small_cluster


def test_size_of_data_is_read_from_segments(data, monkeypatch):
    """Queries over much data are compiled."""
    assert not engines.is_much(data)
    monkeypatch.setattr(engines, "MUCH_BYTES", 100)
    assert engines.is_much(data)


def test_report_is_not_written_among_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours, others = tmp_path / "ours", tmp_path / "others"
    ours.mkdir()
    (ours / "cluster.json").write_text("{}")
    assert report_of(ours) == ours / "report"
    assert report_of(others) == tmp_path / "report"


# --- --since ---


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-01-31T12:00:00Z", NOON_MS),
        ("2026-01-31T13:00:00+01:00", NOON_MS),
        ("2026-01-31T12:00:00", NOON_MS),
        ("2026-01-31", NOON_MS - 12 * 3_600_000),
        ("90m", NOON_MS - 90 * 60_000),
        ("1.5h", NOON_MS - 90 * 60_000),
        ("30s", NOON_MS - 30_000),
        ("2d", NOON_MS - 2 * 86_400_000),
    ],
)
def test_time_or_age_is_parsed(text, told):
    assert since_milliseconds(text, NOW) == told


@pytest.mark.parametrize("text", ["", "6", "h", "-6h", "6 h", "6w", "1e9d", "99999999d", "noon"])
def test_text_that_is_no_time_is_refused(text):
    with pytest.raises(UserError) as error:
        since_milliseconds(text, NOW)
    assert error.value.exit_code == Exit.USAGE


def test_two_clusters_are_not_read_as_one(tmp_path):
    for node_id, cluster_id in ((1, "one"), (2, "another")):
        directory = make_node(tmp_path, node_id)
        MetaProperties(cluster_id, node_id, bytes(16)).save(directory)
    with pytest.raises(UserError, match="cannot be read together") as error:
        analyze(data=tmp_path)
    assert "another" in error.value.why


def verdicts(capsys, *names, **options):
    analyze(*names, json=True, **options)
    outcomes = json.loads(capsys.readouterr().out)
    return {
        outcome["name"]: "\n".join(v["text"] for v in outcome["verdicts"]) for outcome in outcomes
    }


def at(seconds):
    return datetime.fromtimestamp(seconds, UTC).isoformat()


class TestInEither:
    """The data is small: DuckDB reads it, unless a test names Spark."""

    pytestmark = pytest.mark.filterwarnings("ignore")

    def test_verdicts_as_json_and_nothing_else(self, data, capsys):
        analyze("D1", "partition-availability", data=data, json=True)
        captured = capsys.readouterr()
        throughput, availability = json.loads(captured.out)
        assert (throughput["number"], throughput["name"]) == ("D1", "throughput")
        assert throughput["rows"] > 0
        assert "100 records" in throughput["verdicts"][0]["text"]
        assert availability["name"] == "partition_availability"
        assert "100 records" not in captured.err
        assert not (data / "report").exists()

    def test_verdicts_for_people_and_a_report(self, data, tmp_path, capsys):
        analyze("throughput", data=data, html=tmp_path / "pages")
        captured = capsys.readouterr()
        assert captured.out.strip() == str(tmp_path / "pages" / "index.html")
        assert "info  " in captured.err
        assert "100 records" in captured.err

    def test_since_omits_older_rows(self, data, capsys):
        found = verdicts(capsys, "throughput", data=data, since=at(5))
        assert "50 records" in found["throughput"]

    def test_since_after_last_record_reads_nothing(self, data, tmp_path, capsys):
        found = verdicts(capsys, "D1", "D6", data=data, since=at(10_000))
        none = "not applicable: there are no"
        assert (
            f"{none} records up to the high watermark since 1970-01-01 02:46:40"
            in found["throughput"]
        )
        assert f"{none} batches in data logs since 1970-01-01" in found["timestamps"]
        analyze("throughput", data=data, since=at(10_000), html=tmp_path)
        assert "of the time since 1970-01-01 02:46:40 UTC" in (tmp_path / "index.html").read_text()

    def test_since_keeps_rows_without_time(self, tmp_path, capsys):
        broker = make_node(tmp_path, 11)
        rows = [NewRecord(None, b"old", -1)] * 10
        write_partition(broker, "orders", 0, [build_batch(rows, base_offset=0, leader_epoch=0)])
        checkpoint(broker, {("orders", 0): 10})
        found = verdicts(capsys, "D1", data=tmp_path, since=at(5))
        assert "10 records" in found["throughput"]
        assert "10 records are not in the figure" in found["throughput"]

    def test_lasting_states_count_only_since_then(self, data, capsys):
        [(begun,)] = _sql(
            capsys, data, "SELECT from_ts FROM partition_history WHERE state = 'offline'"
        )
        middle = datetime.fromisoformat(begun).replace(tzinfo=UTC).timestamp() + 1
        whole = verdicts(capsys, "M5", data=data)["partition_availability"]
        part = verdicts(capsys, "M5", data=data, since=at(middle))["partition_availability"]
        assert "longest orders-0, 2.5 s" in whole
        assert "longest orders-0, 1.5 s" in part
        later = verdicts(capsys, "M5", data=data, since=at(middle + 2))["partition_availability"]
        assert "offline for a time" not in later

    def test_unanalysable_data_is_reported(self, data, tmp_path):
        with pytest.raises(UserError, match="throughput") as error:
            analyze("trouput", data=data)
        assert error.value.exit_code == Exit.USAGE
        with pytest.raises(UserError, match=r"meta\.properties") as error:
            analyze("throughput", data=tmp_path)
        assert "--data" in error.value.fix

    def test_data_without_metadata_log_is_analysed(self, tmp_path, capsys, recwarn):
        """An analysis that does not apply prints one line, without PySpark's messages about Arrow."""
        broker = make_node(tmp_path, 11)
        write_partition(broker, "orders", 0, data_batches(1))
        checkpoint(broker, {("orders", 0): 10})
        found = verdicts(capsys, "M1", "D1", data=tmp_path)
        assert "not applicable: no metadata log" in found["controller_timeline"]
        assert "10 records" in found["throughput"]
        assert [w for w in recwarn if "toPandas" in str(w.message)] == []

    def test_statement_returns_its_rows(self, data, capsys):
        query = "SELECT topic, count(*) AS n FROM records GROUP BY topic"
        assert _sql(capsys, data, query) == [("orders", 100)]
        sql(query, data=data)
        assert capsys.readouterr().out.split() == ["TOPIC", "N", "orders", "100"]

    def test_number_of_shown_rows_is_limited(self, data, capsys):
        sql("SELECT offset FROM records ORDER BY offset", data=data, rows=3)
        captured = capsys.readouterr()
        assert captured.out.split() == ["OFFSET", "0", "1", "2"]
        assert "more than 3 rows" in captured.err

    @in_spark
    def test_verdicts_are_equal_in_both_engines(self, data, capsys):
        names = ("M1", "M5", "D1", "D4", "D8", "D13")
        ours = verdicts(capsys, *names, data=data, since=at(5), engine="duckdb")
        assert ours == verdicts(capsys, *names, data=data, since=at(5), engine="spark")

    @in_spark
    def test_too_large_data_is_left_to_spark(self, data, capsys, monkeypatch):
        monkeypatch.setattr(reading, "IN_PROCESS_BYTES", 2_000)
        analyze("D8", "M1", data=data, json=True)
        duplicates, timeline = json.loads(capsys.readouterr().out)
        assert (duplicates["engine"], timeline["engine"]) == ("Spark", "DuckDB")
        assert "no batch was written twice" in duplicates["verdicts"][0]["text"]
        found = verdicts(capsys, "D8", data=data, engine="duckdb")
        assert "not possible: the records take" in found["duplicates"]

    @in_spark
    def test_statement_of_spark_alone_runs_in_spark(self, data, capsys):
        query = "SELECT upper(topic) AS t, count(*) AS n FROM records GROUP BY ALL"
        with pytest.raises(UserError, match=r"UPPER\(topic\) may mean something else in DuckDB"):
            sql(query, data=data, engine="duckdb")
        assert _sql(capsys, data, query) == [("ORDERS", 100)]

    @in_spark
    def test_invalid_statement_is_reported(self, data, tmp_path):
        for statement, told in (
            ("SELECT nothing FROM records", "nothing"),
            ("SELEKT 1", "SELEKT"),
            ("SELECT * FROM nowhere", "nowhere"),
        ):
            with pytest.raises(UserError, match=told) as error:
                sql(statement, data=data)
            assert error.value.exit_code == Exit.USAGE
            assert "Traceback" not in str(error.value)
            assert "org.apache" not in str(error.value)
        with pytest.raises(UserError, match=r"meta\.properties") as error:
            sql("SELECT * FROM records", data=tmp_path)
        assert "--data" in error.value.fix


@pytest.fixture
def _new_york(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_new_york")
def test_times_of_spark_are_shown_in_utc():
    """05:30 and 06:30 UTC are both 01:30 where summer time ends."""
    kinds = (
        types.StructType().add("ts", "timestamp").add("plain", "timestamp_ntz").add("n", "integer")
    )
    plain = datetime.fromisoformat("2026-11-01T01:30:00")
    for hour in (4, 5, 6):
        told = datetime.fromisoformat(f"2026-11-01T0{hour}:30:00.000123")
        micros = int(told.replace(tzinfo=UTC).timestamp()) * 1_000_000 + 123
        collected = {"ts": types.TimestampType().fromInternal(micros), "plain": plain, "n": None}
        assert in_utc(collected, kinds) == {"ts": told, "plain": plain, "n": None}
    assert in_utc({"ts": None, "plain": None, "n": 1}, kinds) == {"ts": None, "plain": None, "n": 1}


def test_time_beyond_years_is_no_traceback(tmp_path):
    broker = make_node(tmp_path, 11)
    rows = [NewRecord(None, b"far", 400_000_000_000_000)]
    write_partition(broker, "orders", 0, [build_batch(rows, base_offset=0, leader_epoch=0)])
    checkpoint(broker, {("orders", 0): 1})
    with pytest.raises(UserError, match="out of range"):
        sql("SELECT timestamp FROM records", data=tmp_path, engine="duckdb")


@in_spark
def test_time_beyond_years_is_reported_by_spark(tmp_path):
    with pytest.raises(UserError, match="not between the years 1 and 9999"):
        sql("SELECT timestamp_millis(400000000000000) AS t", data=tmp_path, engine="spark")


def _sql(capsys, data, statement):
    sql(statement, data=data, output="json")
    return [tuple(row.values()) for row in json.loads(capsys.readouterr().out)]


def test_views_are_listed_without_statement(tmp_path, capsys):
    sql(data=tmp_path, output="json")
    named = {row["view"] for row in json.loads(capsys.readouterr().out)}
    assert {"records", "batches", "partition_history", "metadata_image"} <= named
