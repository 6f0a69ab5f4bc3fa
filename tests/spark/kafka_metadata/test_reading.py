"""Metadata logs to tables, without Spark: what is committed, snapshots, history, epochs, secrets."""

import json

import pytest

from tests.spark.directories import leader_change, make_node, metadata_batch, write_partition
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.spark.kafka_metadata.plan import committed_end, find_metadata_logs
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_metadata.source import KafkaMetadataSource, parse_options, plan_table
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.spark.origins.running_cluster.connection import CONTROLLERS
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.records.producer_ids import ProducerIdsRecord
from trimaran.wire.records.security import UserScramCredentialRecord
from trimaran.wire.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from trimaran.wire.text.as_json import base64_text
from trimaran.wire.text.json_text import json_text

VOTERS = (1, 2, 3)
TOPIC_ID = bytes(15) + b"\x09"


def partition(number=0, *, isr=(11, 12, 13), leader=11):
    return PartitionRecord(
        partition_id=number,
        topic_id=TOPIC_ID,
        replicas=[11, 12, 13],
        isr=list(isr),
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
    )


def change(number=0, **fields):
    return PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID, **fields)


def min_isr(value, *, name="orders", kind=2):
    return ConfigRecord(
        resource_type=kind, resource_name=name, name="min.insync.replicas", value=value
    )


class Log:
    """Batches of a metadata log, one after another."""

    def __init__(self):
        self.batches, self.offset, self.epoch = [], 0, 0

    def lead(self, leader, timestamp_ms):
        self.epoch += 1
        self.batches.append(leader_change(self.offset, self.epoch, leader, VOTERS, timestamp_ms))
        self.offset += 1
        return self

    def write(self, timestamp_ms, *messages):
        self.batches.append(metadata_batch(self.offset, self.epoch, messages, timestamp_ms))
        self.offset += len(messages)
        return self


def store(root, node_id, batches, **kwargs):
    node = make_node(root, node_id)
    return write_partition(node, "__cluster_metadata", 0, batches, **kwargs)


def standard():
    """Returns a log with two epochs, and a topic whose partition loses replicas and its leader, and recovers."""
    log = Log().lead(1, 1000)
    log.write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID), partition(), min_isr("2"))
    log.write(2000, change(isr=[11, 12]))
    log.write(3000, change(isr=[12], leader=12))
    log.lead(2, 5500)
    log.write(6000, change(leader=-1))
    log.write(8500, change(leader=12))
    log.write(9000, change(isr=[12, 11, 13]))
    return log.write(10_000, NoOpRecord())


def rows(root, table="records", **options):
    parsed = parse_options({"path": str(root), "table": table, **options})
    made = TABLES[table]
    columns = tuple(made.schema.names)
    found = []
    for task in plan_table(made, parsed, columns):
        for batch in made.read(task, columns, parsed):
            assert batch.schema == made.schema
            found += batch.to_pylist()
    return found


def test_producer_id_block_names_its_broker(tmp_path):
    log = standard().write(9000, ProducerIdsRecord(broker_id=12, next_producer_id=1000))
    store(tmp_path, 1, log.batches)
    found = [r for r in rows(tmp_path, "records") if r["type"] == "ProducerIdsRecord"]
    assert [row["broker_id"] for row in found] == [12]


# --- what is committed -------------------------------------------------------------------------------------------------


def test_committed_records_are_shared_by_a_majority(tmp_path):
    log = standard()
    store(tmp_path, 1, log.batches)
    assert committed_end(find_metadata_logs([str(tmp_path)])) is None
    store(tmp_path, 11, log.batches)  # a broker's copy does not count as a vote
    assert committed_end(find_metadata_logs([str(tmp_path)])) is None
    assert {row["committed"] for row in rows(tmp_path)} == {None}
    store(tmp_path, 2, log.batches[:-1])
    assert committed_end(find_metadata_logs([str(tmp_path)])) == log.offset - 1
    assert len(rows(tmp_path)) == log.offset - 1 - 2  # without two control records
    with_tail = rows(tmp_path, includeUncommitted="true")
    assert [row["committed"] for row in with_tail[-2:]] == [True, False]
    store(tmp_path, 3, log.batches)
    assert committed_end(find_metadata_logs([str(tmp_path)])) == log.offset


def test_deposed_leaders_tail_is_not_committed(tmp_path):
    common = Log().lead(1, 1000).write(1000, NoOpRecord())
    deposed = list(common.batches)
    deposed.append(metadata_batch(2, 1, [NoOpRecord()] * 5, 1500))
    common.lead(2, 2000).write(2000, NoOpRecord(), NoOpRecord())
    store(tmp_path, 1, deposed)
    store(tmp_path, 2, common.batches)
    logs = find_metadata_logs([str(tmp_path)])
    assert committed_end(logs) == 2
    assert [row["offset"] for row in rows(tmp_path)] == [1]


def test_nodes_are_read_as_chosen(tmp_path):
    log = standard()
    for node_id in VOTERS:
        store(tmp_path, node_id, log.batches)
    one = len(rows(tmp_path))
    assert len(rows(tmp_path, nodes="all")) == 3 * one
    assert {row["node_id"] for row in rows(tmp_path, nodes="2")} == {2}
    with pytest.raises(DataUnreadable, match="node 9"):
        rows(tmp_path, nodes="2,9")


# --- records -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split_bytes", ["1", "4000000"])
def test_records_have_their_columns(tmp_path, split_bytes):
    store(tmp_path, 1, standard().batches, segment_bytes=400)
    found = rows(tmp_path, includeControl="true", splitBytes=split_bytes)
    assert [row["offset"] for row in found] == list(range(len(found)))
    assert found[0]["type"] == "LEADER_CHANGE"
    assert found[0]["control"]
    topic, part, config = found[1:4]
    assert (topic["type"], topic["topic"], topic["api_key"], topic["version"]) == (
        "TopicRecord",
        "orders",
        2,
        0,
    )
    assert (part["topic"], part["partition"]) == ("orders", 0)
    assert json.loads(part["payload"])["replicas"] == [11, 12, 13]
    assert (config["resource_type"], config["resource_name"], config["name"], config["topic"]) == (
        "topic",
        "orders",
        "min.insync.replicas",
        "orders",
    )


def test_record_types_can_be_chosen(tmp_path):
    store(tmp_path, 1, standard().batches)
    assert {row["type"] for row in rows(tmp_path, recordTypes="TopicRecord, NoOpRecord")} == {
        "TopicRecord",
        "NoOpRecord",
    }


def test_later_kafkas_record_is_shown_without_payload(tmp_path):
    unknown = build_batch([NewRecord(None, bytes([1, 120, 3, 0]), 5)], leader_epoch=1)
    store(tmp_path, 1, [unknown])
    [row] = rows(tmp_path)
    assert (row["type"], row["api_key"], row["version"], row["payload"]) == (
        "UNKNOWN_120",
        120,
        3,
        None,
    )


def test_secrets_are_hidden():
    scram = UserScramCredentialRecord(
        name="u",
        mechanism=1,
        salt=b"a pepper",
        stored_key=b"a stored key",
        server_key=b"a server key",
        iterations=4096,
    )
    password = ConfigRecord(
        resource_type=4, resource_name="1", name="ssl.key.password", value="open sesame"
    )
    told = json_text(scram) + json_text(password)
    assert "4096" in told
    for secret in (b"a pepper", b"a stored key", b"a server key", b"open sesame"):
        assert secret.decode() not in told
        assert base64_text(secret) not in told


def test_damage_is_an_error(tmp_path):
    directory = store(tmp_path, 1, standard().batches)
    file = directory / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[150] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataUnreadable, match="damaged"):
        rows(tmp_path)


# --- history -----------------------------------------------------------------------------------------------------------


def told(row):
    return (
        (row["from_offset"], row["to_offset"]),
        row["seconds"],
        row["leader"],
        row["isr"],
        row["state"],
        row["cause"],
    )


def test_partition_history_has_states_and_causes(tmp_path):
    store(tmp_path, 1, standard().batches)
    found = rows(tmp_path, "partition_history")
    assert [told(row) for row in found] == [
        ((2, 4), 1.0, 11, [11, 12, 13], "ok", "create"),
        ((4, 5), 1.0, 11, [11, 12], "under_replicated", "isr_shrink"),
        ((5, 7), 3.0, 12, [12], "under_min_isr", "leader_change"),
        ((7, 8), 2.5, None, [12], "offline", "leader_change"),
        ((8, 9), 0.5, 12, [12], "under_min_isr", "leader_change"),
        ((9, None), 1.0, 12, [12, 11, 13], "ok", "isr_expand"),
    ]
    assert [row["leader_epoch"] for row in found] == [0, 0, 1, 2, 3, 3]
    assert [row["partition_epoch"] for row in found] == list(range(6))
    assert [row["controller_epoch"] for row in found] == [1, 1, 1, 2, 2, 2]
    assert [row["isr_removed"] for row in found[:3]] == [[], [13], [11]]
    assert found[-1]["isr_added"] == [11, 13]
    assert {(row["topic"], row["partition"], row["min_isr"]) for row in found} == {("orders", 0, 2)}


def test_removed_topic_ends_its_history(tmp_path):
    log = Log().lead(1, 0)
    log.write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID), partition())
    log.write(3000, RemoveTopicRecord(topic_id=TOPIC_ID))
    store(tmp_path, 1, log.write(9000, NoOpRecord()).batches)
    assert [told(row) for row in rows(tmp_path, "partition_history")] == [
        ((2, 3), 2.0, 11, [11, 12, 13], "ok", "create"),
        ((3, 3), 0.0, 11, [11, 12, 13], "deleted", "delete"),
    ]


def test_new_minimum_changes_the_state(tmp_path):
    log = Log().lead(1, 0)
    log.write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID), partition(isr=[11, 12]))
    log.write(2000, min_isr("3", name="", kind=4))
    log.write(4000, min_isr("1"))
    store(tmp_path, 1, log.write(5000, NoOpRecord()).batches)
    found = rows(tmp_path, "partition_history")
    assert [(r["state"], r["cause"], r["min_isr"], r["seconds"]) for r in found] == [
        ("under_replicated", "create", 1, 1.0),
        ("under_min_isr", "config", 3, 2.0),
        ("under_replicated", "config", 1, 1.0),
    ]


def test_replicas_being_added_are_not_missed(tmp_path):
    log = Log().lead(1, 0)
    log.write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID), partition())
    log.write(2000, change(replicas=[11, 12, 13, 14], adding_replicas=[14]))
    log.write(3000, change(isr=[11, 12, 13, 14], adding_replicas=[]))
    store(tmp_path, 1, log.batches)
    found = rows(tmp_path, "partition_history")
    assert [(r["state"], r["cause"]) for r in found] == [
        ("ok", "create"),
        ("ok", "reassign"),
        ("ok", "reassign"),
    ]


def test_unclean_election_is_reported(tmp_path):
    log = Log().lead(1, 0)
    log.write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID), partition())
    log.write(2000, change(isr=[13], leader=13, leader_recovery_state=1))
    log.write(3000, change(leader_recovery_state=0))
    store(tmp_path, 1, log.batches)
    assert [row["unclean"] for row in rows(tmp_path, "partition_history")] == [False, True, False]


def test_history_of_trimmed_log_begins_at_snapshot(tmp_path):
    log = standard()
    directory = store(tmp_path, 1, log.batches)
    whole = (directory / f"{0:020d}.log").read_bytes()
    kept = b"".join(log.batches[4:])  # from the second leader's epoch on: offset 6
    for file in directory.glob(f"{0:020d}.*"):
        file.unlink()
    (directory / f"{6:020d}.log").write_bytes(kept)
    assert whole.endswith(kept)
    with pytest.raises(DataUnreadable, match="no snapshot"):
        rows(tmp_path, "partition_history")
    state = [
        TopicRecord(name="orders", topic_id=TOPIC_ID),
        partition(isr=[12], leader=12),
        min_isr("2"),
    ]
    (directory / f"{6:020d}-{1:010d}.checkpoint").write_bytes(metadata_batch(0, 1, state, 3000))
    found = rows(tmp_path, "partition_history")
    assert [(r["state"], r["cause"]) for r in found] == [
        ("under_min_isr", "snapshot"),
        ("offline", "leader_change"),
        ("under_min_isr", "leader_change"),
        ("ok", "isr_expand"),
    ]
    sources = [(row["source"], row["offset"]) for row in rows(tmp_path)]
    assert sources == [("snapshot", 5)] * 3 + [("log", offset) for offset in range(7, 11)]
    assert [row["topic"] for row in rows(tmp_path)][-2] == "orders"


# --- epochs ------------------------------------------------------------------------------------------------------------


def test_quorum_epochs_have_leaders_and_gaps(tmp_path):
    store(tmp_path, 1, standard().batches, segment_bytes=300)
    found = rows(tmp_path, "quorum_epochs")
    assert [
        (r["epoch"], r["leader_id"], r["first_offset"], r["last_offset"], r["records"])
        for r in found
    ] == [(1, 1, 0, 5, 6), (2, 2, 6, 10, 5)]
    assert [(r["seconds"], r["gap_before_ms"]) for r in found] == [(2.0, None), (4.5, 2500)]


def test_fsspec_file_system_is_opened_with_options(tmp_path):
    import fsspec

    for node_id in (1, 2, 3):
        store(tmp_path, node_id, standard().batches)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/quorum", recursive=True)
    try:
        there = rows("memory://quorum", "partition_history", **{"storage.anything": "x"})
        assert there == rows(tmp_path, "partition_history")
        assert there
    finally:
        memory.rm("/quorum", recursive=True)
    with pytest.raises(OptionError, match=r"unknown option storage\.anything"):
        parse_options({CONTROLLERS: "127.0.0.1:1", "storage.anything": "x"})


def test_batch_error_is_raised_unless_options_look_streaming():
    from pyspark.sql.datasource import CaseInsensitiveDict

    def schema(**options):
        return KafkaMetadataSource(CaseInsensitiveDict(options)).schema()

    with pytest.raises(OptionError, match="unknown option tabel"):
        schema(path="/x", table="image", tabel="y")
    with pytest.raises(OptionError, match="a stream is of the table records"):
        schema(path="/x", table="image", maxOffsetsPerTrigger="5")
    assert "payload" in schema(path="/x", maxOffsetsPerTrigger="5").names
