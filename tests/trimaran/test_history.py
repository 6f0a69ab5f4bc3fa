"""`partitions history` and `configs history`, over directories on disk."""

import json

import pytest

from tests.spark.directories import (
    created_topic,
    encode_newest,
    leader_change,
    make_node,
    metadata_batch,
    write_partition,
)
from trimaran.cli import history
from trimaran.errors.user_error import Exit, UserError
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.records.topics import (
    PartitionChangeRecord,
    RemoveTopicRecord,
)

FIRST, SECOND = (bytes(15) + bytes([n]) for n in (8, 9))
TOPIC, BROKER = 2, 4


def changed(topic_id, **fields):
    return PartitionChangeRecord(partition_id=0, topic_id=topic_id, **fields)


def config(key, value, name="orders", kind=TOPIC):
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


BATCHES = [
    leader_change(0, 1, 1, (1, 2, 3), 1000),
    metadata_batch(1, 1, [*created_topic(FIRST), config("retention.ms", "1")], 2000),
    metadata_batch(4, 1, [NoOpRecord()], 2500),
    metadata_batch(5, 1, [changed(FIRST, isr=[12], leader=12)], 3000),
    metadata_batch(6, 1, [config("retention.ms", "2"), config("x.password", "hush", "")], 3500),
    metadata_batch(8, 1, [RemoveTopicRecord(topic_id=FIRST), *created_topic(SECOND)], 4000),
    metadata_batch(11, 1, [config("retention.ms", None)], 4500),
    metadata_batch(12, 1, [config("num.partitions", "3", "", BROKER)], 5000),
]


@pytest.fixture
def directory(tmp_path):
    node = make_node(tmp_path, 1)
    write_partition(node, "__cluster_metadata", 0, BATCHES)
    return node


@pytest.fixture
def printed_rows(capsys):
    def told_(command, *arguments):
        capsys.readouterr()
        command(*arguments, output="json")
        return json.loads(capsys.readouterr().out)

    return told_


def test_history_covers_every_topic_of_name(printed_rows, directory):
    rows = printed_rows(history.partitions, "orders/0", directory)
    ids = [uuid_to_text(topic_id) for topic_id in (FIRST, FIRST, SECOND)]
    assert [row["topic_id"] for row in rows] == ids
    told_ = [(row["offset"], row["timestamp_ms"], row["leader"], row["isr"]) for row in rows]
    assert told_ == [
        (2, 2000, 11, [11, 12]),
        (5, 3000, 12, [12]),
        (10, 4000, 11, [11, 12]),
    ]
    assert all(row["time"] for row in rows)


def test_configs_are_listed_with_previous_values(printed_rows, directory):
    rows = printed_rows(history.configs, "topic/orders", directory)
    assert [(row["offset"], row["key"], row["value"], row["before"]) for row in rows] == [
        (3, "retention.ms", "1", None),
        (6, "retention.ms", "2", "1"),
        (11, "retention.ms", None, None),
    ]


def test_configs_of_all_without_secrets(printed_rows, directory):
    rows = printed_rows(history.configs, None, directory)
    assert [(row["resource"], row["key"]) for row in rows][-3:] == [
        ("topic", "x.password"),
        ("topic/orders", "retention.ms"),
        ("broker", "num.partitions"),
    ]
    assert "hush" not in str(rows)
    assert printed_rows(history.configs, "broker", directory) == rows[-1:]


def test_history_begins_with_oldest_usable_snapshot(printed_rows, tmp_path):
    folder = write_partition(make_node(tmp_path, 1), "__cluster_metadata", 0, [])
    for path in folder.glob("0*"):
        path.unlink()
    (folder / f"{5:020d}.log").write_bytes(b"".join(BATCHES[3:]))
    with pytest.raises(UserError, match="does not reach back"):
        history.configs(None, folder)
    for end_offset, value in ((3, "old"), (5, "1"), (12, "new")):
        records = [
            encode_newest(record)
            for record in (*created_topic(FIRST), config("retention.ms", value))
        ]
        name = OffsetAndEpoch(end_offset, 1)
        data = b"".join(encode_snapshot(name, records, appended_at_ms=1, now_ms=1))
        (folder / f"{end_offset:020d}-{1:010d}.checkpoint").write_bytes(data)
    rows = printed_rows(history.configs, "topic/orders", folder)
    assert [(row["offset"], row["time"] is None, row["value"], row["before"]) for row in rows] == [
        (4, True, "1", None),
        (6, False, "2", "1"),
        (11, False, None, None),
    ]
    first, *_ = printed_rows(history.partitions, "orders/0", folder)
    assert (first["offset"], first["time"], first["leader"]) == (4, None, 11)


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        ("orders", Exit.USAGE),
        ("orders/x", Exit.USAGE),
        ("orders/7", Exit.NO),
        ("nope/0", Exit.REFUSED),
    ],
)
def test_missing_partition_is_reported(directory, partition, code):
    with pytest.raises(UserError) as error:
        history.partitions(partition, directory)
    assert error.value.exit_code == code


def test_configs_of_missing_resource_are_refused(directory):
    with pytest.raises(UserError, match="there is no topic nope") as error:
        history.configs("topic/nope", directory)
    assert error.value.exit_code == Exit.REFUSED


def test_unset_configs_are_reported(printed_rows, tmp_path, capsys):
    node = make_node(tmp_path, 1)
    created = metadata_batch(1, 1, created_topic(FIRST), 2000)
    write_partition(node, "__cluster_metadata", 0, [BATCHES[0], created])
    assert printed_rows(history.configs, "topic/orders", node) == []
    history.configs("topic/orders", node)
    assert "no config of topic/orders was set" in capsys.readouterr().err
