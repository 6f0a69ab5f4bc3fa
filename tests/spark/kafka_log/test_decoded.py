"""The decoded levels on records as coordinators write them, without Spark."""

import struct

import pytest

from tests.spark.directories import checkpoint, make_node, write_partition
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.source import READERS, LogStreamReader, _offered, read_request_of
from trimaran.spark.options import OptionError
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from trimaran.wire.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    TopicPartitions,
)
from trimaran.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from trimaran.wire.records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)


def record(key, value=None, version=0, timestamp_ms=5000):
    encoded = None
    if value is not None:
        encoded = struct.pack(">h", version) + value.encode(version)
    return NewRecord(struct.pack(">h", key.KEY) + key.encode(0), encoded, timestamp_ms)


def rows(tmp_path, topic, level, records, **options):
    node = make_node(tmp_path, 1)
    write_partition(node, topic, 0, [build_batch(records)])
    checkpoint(node, {(topic, 0): len(records)})
    parsed = LogOptions.parse({"path": str(tmp_path), "level": level, **options})
    columns = tuple(_offered(parsed).names)
    return [
        row
        for task in plan_log(parsed).tasks
        for batch in READERS[level](task, read_request_of(parsed, columns))
        for row in batch.to_pylist()
    ]


def test_commits_have_their_columns(tmp_path):
    key = OffsetCommitKey(group="g", topic="orders", partition=3)
    value = OffsetCommitValue(offset=42, leader_epoch=7, metadata="m", commit_timestamp=1234)
    other = record(GroupMetadataKey(group="g"))
    found = rows(
        tmp_path, "__consumer_offsets", "group_offsets", [record(key, value, 3), other, record(key)]
    )
    assert [
        (r["group"], r["topic"], r["topic_partition"], r["committed_offset"]) for r in found
    ] == [
        ("g", "orders", 3, 42),
        ("g", "orders", 3, None),
    ]
    assert (found[0]["leader_epoch"], found[0]["metadata"], found[0]["offset"]) == (7, "m", 0)
    assert found[0]["commit_ts"].timestamp() == 1.234
    assert found[1]["offset"] == 2


def test_stream_returns_rows_of_its_level(tmp_path):
    key = OffsetCommitKey(group="g", topic="orders", partition=3)
    value = OffsetCommitValue(offset=42, leader_epoch=7, metadata="m", commit_timestamp=1234)
    records = [record(key, value, 3), record(GroupMetadataKey(group="g")), record(key)]
    wanted = rows(tmp_path, "__consumer_offsets", "group_offsets", records)
    given = {"path": str(tmp_path), "level": "group_offsets", "startingOffsets": "earliest"}
    parsed = LogOptions.parse(given, streaming=True)
    reader = LogStreamReader(parsed, read_request_of(parsed, tuple(_offered(parsed).names)))
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    assert [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()] == (
        wanted
    )


def test_members_have_their_columns(tmp_path):
    assigned = ConsumerProtocolAssignmentTopicPartition(topic="orders", partitions=[0, 2])
    member = MemberMetadata(
        member_id="m-1",
        client_id="c",
        client_host="/h",
        session_timeout=10_000,
        rebalance_timeout=60_000,
        subscription=encode_subscription(ConsumerProtocolSubscription(topics=["orders"]), 0),
        assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[assigned]), 0),
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m-1", members=[member]
    )
    key = GroupMetadataKey(group="g")
    empty = GroupMetadataValue(
        protocol_type="consumer", generation=5, protocol=None, leader=None, members=[]
    )
    modern = ConsumerGroupMetadataKey(group_id="new")
    current = ConsumerGroupCurrentMemberAssignmentKey(group_id="new", member_id="m-2")
    held = TopicPartitions(topic_id=bytes(15) + b"\x01", partitions=[5])
    assignment = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        previous_member_epoch=2,
        state=0,
        assigned_partitions=[held],
        partitions_pending_revocation=[],
    )
    found = rows(
        tmp_path,
        "__consumer_offsets",
        "group_members",
        [
            record(key, value, 3),
            record(key, empty, 3),
            record(key),
            record(modern, ConsumerGroupMetadataValue(epoch=9)),
            record(current, assignment),
        ],
    )
    assert [(r["group"], r["event"], r["generation"], r["members"]) for r in found] == [
        ("g", "generation", 4, 1),
        ("g", "empty", 5, 0),
        ("g", "deleted", None, None),
        ("new", "epoch", 9, None),
        ("new", "assignment", 3, None),
    ]
    assert (found[0]["subscription"], found[0]["assignment"]) == (
        ["orders"],
        ["orders-0", "orders-2"],
    )
    assert found[4]["assignment"] == ["AAAAAAAAAAAAAAAAAAAAAQ-5"]


def test_transactions_have_their_columns(tmp_path):
    key = TransactionLogKey(transactional_id="tx")
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="orders", partition_ids=[0, 1])],
        transaction_last_update_timestamp_ms=2000,
        transaction_start_timestamp_ms=1000,
    )
    unknown = NewRecord(b"\x00\x63", b"\x00\x00", 1)
    found = rows(
        tmp_path,
        "__transaction_state",
        "transactions",
        [record(key, value, 1), unknown, record(key)],
    )
    assert [(r["state"], r["producer_id"], r["is_open"]) for r in found] == [
        ("Ongoing", 7, True),
        ("Tombstone", None, False),
    ]
    assert found[0]["partitions"] == ["orders-0", "orders-1"]


def test_option_without_effect_is_refused():
    for name in ("subscribe", "includeControl", "includeHeaders"):
        value = "true" if name.startswith("include") else "orders"
        with pytest.raises(OptionError, match=name):
            LogOptions.parse({"path": "x", "level": "transactions", name: value})


@pytest.mark.parametrize(
    ("status", "started", "is_open"), [(1, 0, True), (1, 5, True), (0, -1, False)]
)
def test_transaction_start_is_a_time_or_none(tmp_path, status, started, is_open):
    value = TransactionLogValue(
        producer_id=0,
        producer_epoch=0,
        transaction_timeout_ms=1,
        transaction_status=status,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=started,
    )
    written = record(
        TransactionLogKey(transactional_id="tx"), value, timestamp_ms=1_234_567_890_123
    )
    (found,) = rows(tmp_path, "__transaction_state", "transactions", [written])
    millis = [value.timestamp() * 1000 for value in found.values() if hasattr(value, "timestamp")]
    assert millis == [1_234_567_890_123, *([started] if started >= 0 else []), 0]
    assert is_open in found.values()
    assert (found["partition"], found["offset"]) == (0, 0)
