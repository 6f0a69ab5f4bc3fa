"""Our own running controllers as the origin of metadata, as real processes: the rows equal those of their directories,
and a leader dies.
"""

import pytest
from confluent_kafka.admin import NewTopic

from tests.cluster.processes import LocalCluster, until
from tests.librdkafka import AdminClient
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_metadata.source import parse_options, plan_table
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable, Reading
from trimaran.spark.origins.running_cluster.controllers import survey_quorum

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

WAIT_SECONDS = 60
# Tables whose rows are the same wherever the log is read from; other tables name files.
SAME = ("partition_history", "topic_history", "feature_history", "broker_history", "quorum_epochs")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    data = tmp_path_factory.mktemp("controllers")
    with LocalCluster(data, "--controllers", "3", "--brokers", "1") as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        for name in ("orders", "payments"):
            admin.create_topics([NewTopic(name, 20, 1)])[name].result(WAIT_SECONDS)
        yield made


def read(table, **options):
    parsed = parse_options({"table": table, "kafkaConsumer.pollTimeoutMs": "30000", **options})
    found, columns = TABLES[table], TABLES[table].schema.names
    tasks = plan_table(found, parsed, columns)
    return [row for t in tasks for b in found.read(t, columns, parsed) for row in b.to_pylist()]


def live(cluster, table, **options):
    return read(table, **{"kafka.controller.bootstrap.servers": cluster.controllers, **options})


def from_disk(cluster, table, **options):
    parsed = parse_options({"table": table, "path": str(cluster.data), **options})
    found, columns = TABLES[table], TABLES[table].schema.names
    tasks = plan_table(found, parsed, columns)
    return [row for t in tasks for b in found.read(t, columns, parsed) for row in b.to_pylist()]


def test_records_are_those_of_the_directories(cluster):
    found = live(cluster, "records")
    last = found[-1]["offset"]
    names = ("offset", "epoch", "type", "topic", "payload", "timestamp", "committed")
    until(lambda: from_disk(cluster, "records")[-1]["offset"] >= last, "a majority has it on disk")
    stored = [row for row in from_disk(cluster, "records") if row["offset"] <= last]
    assert [[row[n] for n in names] for row in found] == [[row[n] for n in names] for row in stored]
    assert sum(row["type"] == "PartitionRecord" for row in found) == 40
    assert {row["committed"] for row in found} == {True}


def test_bounds_are_those_of_the_directories(cluster):
    everything = live(cluster, "records")
    then = next(row["timestamp"] for row in everything if row["topic"] == "payments")
    first = next(row for row in everything if row["timestamp"] >= then)
    after = everything[-1]["offset"]
    time = {"startingTimestamp": str(round(then.timestamp() * 1000))}
    offsets = {"endingOffsets": f'{{"__cluster_metadata":{{"0":{after}}}}}'}
    found = live(cluster, "records", **time, **offsets)
    assert found == [row for row in everything if first["offset"] <= row["offset"] < after]
    until(lambda: from_disk(cluster, "records")[-1]["offset"] >= after, "a majority has it on disk")
    topics = live(cluster, "topic_history", **time, **offsets)
    assert topics == from_disk(cluster, "topic_history", **time, **offsets)
    assert [row["topic"] for row in topics] == ["payments"]


@pytest.mark.parametrize("table", SAME)
def test_tables_are_those_of_the_directories(cluster, table):
    end = live(cluster, "records")[-1]["offset"]
    options = {} if table == "quorum_epochs" else {"asOfOffset": str(end)}
    until(lambda: from_disk(cluster, "records")[-1]["offset"] >= end, "a majority has it on disk")
    found, stored = live(cluster, table, **options), from_disk(cluster, table, **options)
    if table == "quorum_epochs":  # the last interval is open
        found, stored = (
            [(r["epoch"], r["leader_id"], r["from_ts"]) for r in rows] for rows in (found, stored)
        )
    assert found == stored
    assert found


def test_read_survives_death_of_leader(cluster, monkeypatch):
    from trimaran.quorum.observing import live_quorum

    monkeypatch.setattr(live_quorum, "FETCH_BYTES_MAX", 500)
    options = parse_options({"kafka.controller.bootstrap.servers": cluster.controllers})
    log = survey_quorum(options.cluster)
    [task] = plan_table(TABLES["records"], options, ["offset"])
    [piece] = task.ranges
    assert (piece.start_offset, piece.end_offset >= log.high_watermark) == (0, True)
    reading = piece.batches(Reading(include_control=True))
    batches = [next(reading).batch for _ in range(2)]
    cluster.kill(cluster.active_controller())
    batches += [located.batch for located in reading]
    offsets = [o for b in batches for o in range(b.base_offset, b.next_offset)]
    assert offsets[: piece.end_offset] == list(range(piece.end_offset))
    assert len(batches) > 5


def test_options_a_quorum_cannot_serve_are_refused(cluster):
    with pytest.raises(OptionError, match="has no effect here: a running quorum"):
        live(cluster, "records", nodes="all")
    with pytest.raises(DataUnreadable, match=r"asOfOffset 999999: .* has offsets 0 to"):
        live(cluster, "image", asOfOffset="999999")
    with pytest.raises(OptionError, match="there is a path, too"):
        live(cluster, "records", path="/data")
