"""The sources and the report inside a real Spark session: few tests, because each query takes a second."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.directories import (
    checkpoint,
    data_batches,
    make_node,
    next_offset,
    write_partition,
)
from tests.spark.kafka_metadata.test_reading import TOPIC_ID, Log, partition, standard, store
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.spark.analyses.catalogue import ANALYSES
from trimaran.spark.analyses.engines import spark_settings
from trimaran.spark.data_source.schemas import spark_schema
from trimaran.wire.records.topics import TopicRecord

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # written by PySpark and py4j themselves
]

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
BATCHES = data_batches(40, gaps=True)
# The session of all tests interprets its queries.
COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
}
CLEANED = {("orders", number): next_offset(BATCHES) for number in range(3)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    root = tmp_path_factory.mktemp("cluster")
    for node_id in (1, 2, 3):
        store(root, node_id, standard().batches)
    broker = make_node(root, 11)
    write_partition(broker, "orders", 0, BATCHES)
    write_partition(broker, "orders", 1, BATCHES[:7])
    checkpoint(broker, {("orders", 0): next_offset(BATCHES), ("orders", 1): 70}, cleaned=CLEANED)
    return root


@pytest.mark.parametrize("settings", [{}, COMPILED], ids=["interpreted", "compiled"])
def test_records_equal_what_was_written(spark, cluster, settings):
    with spark_settings(spark, settings):
        check_records_are_those_written(spark, cluster)


def check_records_are_those_written(spark, cluster):
    source = spark.read.format("kafka_log").option("includeHeaders", "true")
    frame = source.option("splitBytes", "2000").load(str(cluster))
    assert frame.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    ]
    found = frame.where("partition = 0").selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    written = [
        (r.offset, r.timestamp_ms, r.key, r.value, [tuple(h) for h in r.headers] or None)
        for view in iter_batches(memoryview(b"".join(BATCHES)))
        for r in decode_records(view)
    ]
    read = [
        (
            r.offset,
            r.ms,
            None if r.key is None else bytes(r.key),
            None if r.value is None else bytes(r.value),
            [(h.key, None if h.value is None else bytes(h.value)) for h in r.headers]
            if r.headers
            else None,
        )
        for r in found
    ]
    assert sorted(read, key=lambda r: r[0]) == written


def test_views_work_in_sql_with_user_schema(spark, cluster):
    import trimaran.spark as package

    package.views(spark, cluster)
    [counts] = spark.sql(
        "SELECT sum(record_count) AS records, (SELECT count(*) FROM records) AS rows, "
        "(SELECT max(epoch) FROM quorum_epochs) AS epoch, "
        "(SELECT count(*) FROM metadata_records WHERE type = 'PartitionChangeRecord') AS changes, "
        "(SELECT sum(seconds) FROM partition_history WHERE state = 'offline') AS offline FROM batches"
    ).collect()
    assert (
        counts.rows == 40 * 10 + 64
    )  # partition 1 up to offset 70, with every eleventh offset missing
    assert counts.records >= counts.rows - 10
    assert (counts.epoch, counts.changes, counts.offline) == (2, 5, 2.5)
    pruned = spark.read.format("kafka_log").schema("offset bigint, topic string").load(str(cluster))
    assert pruned.columns == ["offset", "topic"]


def test_wrong_options_and_columns_are_reported(spark, cluster):
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="did you mean subscribe"):
        spark.read.format("kafka_log").option("subscrib", "x").load(str(cluster))
    with pytest.raises(PySparkException, match="no column ofset; did you mean offset"):
        spark.read.format("kafka_log").schema("ofset bigint").load(str(cluster)).count()


def of_each_view():
    """Returns names of analyses that together read every view of the catalogue."""
    found, read = [], set()
    for name, analysis in ANALYSES.items():
        if not read.issuperset(analysis.views):
            found.append(name)
            read.update(analysis.views)
    return found


@pytest.mark.parametrize(
    ("engine", "name", "analyses"),
    [("auto", "DuckDB", list(ANALYSES)), ("spark", "Spark", of_each_view())],
    ids=["auto", "spark"],
)
def test_report_has_every_analysis(request, cluster, tmp_path, engine, name, analyses):
    if engine == "spark":
        request.getfixturevalue("spark")
    from trimaran.spark.analyses.report import write_report

    index = write_report(cluster, tmp_path / "report", analyses, engine=engine)
    text = index.read_text()
    assert {p.name for p in index.parent.iterdir()} == {"index.html", "plotly.min.js"}
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', text)
    assert set(re.findall(r'<section id="(\w+)">', text)) == set(analyses)
    gap = "longest gap between the records of two epochs 2.5 s (the time without a leader is at most that)"
    assert f"controller 2 leads at the end; {gap}" in text
    assert re.findall(r"rows, [\d.]+ s in (\w+)\)", text) == [name] * len(analyses)
    assert "without a leader 2.5 s" not in text
    assert "1 of 1 partition offline for a time; longest orders-0, 2.5 s" in text
    assert "not possible" not in text
    drawn = text.count("Plotly.newPlot")
    assert drawn + text.count('<p class="nothing">') == len(analyses)
    for option in ('"showSendToCloud": false', '"responsive": true'):
        assert text.count(option) == drawn
    assert "</a><a" not in text  # a line of links would be too long


def test_report_of_only_a_metadata_log(tmp_path):
    """A topic may exist although no log of it is there."""
    from trimaran.spark.analyses.report import write_report

    store(tmp_path, 1, standard().batches)
    make_node(tmp_path, 11)
    text = write_report(tmp_path, tmp_path / "report", ["consumer_lag", "throughput"]).read_text()
    none = "not applicable: there are no"
    assert f"Consumer lag: {none} commits of consumer groups (__consumer_offsets)." in text
    assert f"Throughput: {none} records up to the high watermark." in text
    assert "Plotly.newPlot" not in text


def test_empty_partitions_are_skew(spark, tmp_path):
    from trimaran.spark.analyses.report import write_report

    log = Log().lead(1, 1000)
    created = [partition(number) for number in range(6)]
    log.write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID), *created)
    broker = make_node(tmp_path, 11)
    for number in (1, 2):
        write_partition(broker, "orders", number, BATCHES[:5])
        checkpoint(broker, {("orders", 1): 50, ("orders", 2): 50}, cleaned=CLEANED)
    analysis = ANALYSES["partition_skew"]
    batches = spark.read.format("kafka_log").option("level", "batches").load(str(tmp_path))
    told = [(r.partition, r.records > 0, r.to_mean) for r in analysis.compute(batches).collect()]
    assert sorted(told) == [
        (0, False, 0.0),
        (1, True, 1.5),
        (2, True, 1.5),
    ]  # other partitions are unknown
    store(tmp_path, 1, log.batches)
    text = write_report(tmp_path, tmp_path / "report", ["partition_skew"]).read_text()
    assert "holds 3.00 × the mean of its topic" in text
    assert "4 of its 6 partitions are empty" in text


def test_damage_appears_in_report(cluster, tmp_path):
    from trimaran.spark.analyses.report import write_report

    broker = make_node(tmp_path, 11)
    directory = write_partition(broker, "orders", 0, BATCHES)
    checkpoint(broker, {("orders", 0): next_offset(BATCHES)})
    segment = min(directory.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    text = write_report(
        tmp_path, tmp_path / "report", ["batch-sizes", "controller_timeline"]
    ).read_text()
    assert "damaged at position 0" in text
    assert "no metadata log" in text


def test_unknown_analysis_is_refused(tmp_path):
    from trimaran.spark.analyses.catalogue import UnknownAnalysis
    from trimaran.spark.analyses.report import write_report

    with pytest.raises(UnknownAnalysis, match="throughput"):
        write_report(tmp_path, tmp_path, ["trouput"])


def test_queries_of_the_manual_run(spark, tmp_path):
    """This checks names and types; results are checked by the tests of the tables."""
    from trimaran.spark.documentation import shown_views

    for view in shown_views():
        schema = spark_schema(pa.schema([(c.name, c.kind) for c in view.columns]))
        spark.createDataFrame([], schema).createOrReplaceTempView(view.name)
    asked = re.findall(r"```sql\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    questions = [text for text in asked if not text.startswith("CREATE")]  # see test_sql_tables.py
    assert len(questions) == 10
    assert all(spark.sql(question).columns for question in questions)


def test_programs_of_the_manual_run(spark, cluster, monkeypatch, capsys):
    monkeypatch.setattr(
        "trimaran.spark.sessions.session.session", lambda **_: spark
    )  # the session that all tests share
    programs = re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    places = {"/var/lib/kafka/broker-1": "node-11", "/var/lib/kafka/controller-*": "node-[123]"}
    names = {}
    for program in programs:
        for place, own in {**places, "/var/lib/kafka": ""}.items():
            program = program.replace(f'"{place}"', repr(str(cluster / own)))
        exec(program, names)
    assert "orders" in capsys.readouterr().out
    assert names["log"].where("partition = 1").count() > 0
    assert {row.topic for row in names["meta"].select("topic").collect()} == {"orders"}


def test_payloads_are_json(spark, cluster):
    frame = (
        spark.read.format("kafka_metadata").option("recordTypes", "TopicRecord").load(str(cluster))
    )
    [row] = frame.collect()
    assert json.loads(row.payload)["name"] == row.topic == "orders"
    assert row.committed is True
