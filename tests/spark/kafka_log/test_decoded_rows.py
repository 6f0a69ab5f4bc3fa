"""The complete row of each record of the internal topics, and the chunks that rows come in."""

import struct

import pyarrow as pa
import pytest

from tests.spark.kafka_log.pieces import Piece
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log import decoded
from trimaran.spark.kafka_log.decoded import (
    DECODED,
    Place,
    member_rows,
    offset_rows,
    read_decoded,
    transaction_rows,
)
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from trimaran.wire.records import consumer_groups as modern
from trimaran.wire.records import groups
from trimaran.wire.records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

PLACE = Place(3, 40, 5000)
ID = bytes(15) + b"\x01"
ID_TEXT = "AAAAAAAAAAAAAAAAAAAAAQ"
KEY = groups.OffsetCommitKey(group="g", topic="t", partition=2)
LEGACY = groups.LegacyOffsetCommitKey(group="g", topic="t", partition=2)


def cells(level, rows):
    """Returns the values of all columns of each row."""
    return [tuple(column.value(row) for column in DECODED[level].columns) for row in rows]


def commit(**fields):
    return groups.OffsetCommitValue(
        **{"offset": 42, "metadata": "m", "commit_timestamp": 7, **fields}
    )


def test_columns_are_as_many_as_cells():
    for level in DECODED.values():
        assert len({column.name for column in level.columns}) == len(level.columns)


OFFSETS = [
    (KEY, commit(), (42, None, "m", 7, -1, None)),
    (KEY, commit(leader_epoch=0, expire_timestamp=9, topic_id=ID), (42, 0, "m", 7, 9, ID_TEXT)),
    (KEY, commit(leader_epoch=5, offset=0, metadata=""), (0, 5, "", 7, -1, None)),
    (KEY, None, (None,) * 6),
    (LEGACY, None, (None,) * 6),
    (
        LEGACY,
        groups.LegacyOffsetCommitValue(offset=1, metadata="", commit_timestamp=8),
        (1, None, "", 8, -1, None),
    ),
]


@pytest.mark.parametrize(("key", "value", "told"), OFFSETS)
def test_commit_row_has_its_values(key, value, told):
    assert cells("group_offsets", offset_rows(PLACE, key, value)) == [
        (3, 40, 5000, "g", "t", 2, *told)
    ]


def test_other_records_give_no_commit_rows():
    group = groups.GroupMetadataKey(group="g")
    assert cells("group_offsets", offset_rows(PLACE, group, None)) == []
    assert cells("group_members", member_rows(PLACE, KEY, commit())) == []
    assert cells("transactions", transaction_rows(PLACE, group, None)) == []


def member(name, subscription, assignment, **fields):
    return groups.MemberMetadata(
        member_id=name,
        client_id="c",
        client_host="/h",
        session_timeout=10,
        rebalance_timeout=60,
        subscription=subscription,
        assignment=assignment,
        **fields,
    )


SUBSCRIBED = encode_subscription(ConsumerProtocolSubscription(topics=["t", "u"]), 0)
ASSIGNED = encode_assignment(
    ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0, 2]),
            ConsumerProtocolAssignmentTopicPartition(topic="u", partitions=[1]),
        ]
    ),
    0,
)


def generation(number, *members):
    return groups.GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol="range" if members else None,
        leader="m-1" if members else None,
        members=list(members),
    )


def test_generation_has_a_row_per_member():
    key = groups.GroupMetadataKey(group="g")
    whole = generation(
        4,
        member("m-1", SUBSCRIBED, ASSIGNED, group_instance_id="i"),
        member("m-2", b"\xff", b"\xff"),
    )
    start = (3, 40, 5000, "g", "classic", "generation", 4, "consumer", "range", "m-1", 2)
    assert cells("group_members", member_rows(PLACE, key, whole)) == [
        (*start, "m-1", "i", "c", "/h", 10, 60, ["t", "u"], ["t-0", "t-2", "u-1"]),
        (*start, "m-2", None, "c", "/h", 10, 60, None, None),
    ]
    empty = ("g", "classic", "empty", 5, "consumer", None, None, 0, *(None,) * 8)
    assert cells("group_members", member_rows(PLACE, key, generation(5))) == [(3, 40, 5000, *empty)]
    deleted = ("g", "classic", "deleted", *(None,) * 13)
    assert cells("group_members", member_rows(PLACE, key, None)) == [(3, 40, 5000, *deleted)]


HELD = [modern.TopicPartitions(topic_id=ID, partitions=[5, 0])]
GIVEN = [modern.TopicPartition(topic_id=ID, partitions=[5, 0])]
GROUP = {"group_id": "g"}
MEMBER = {"group_id": "g", "member_id": "m"}
PARTITIONS = [f"{ID_TEXT}-5", f"{ID_TEXT}-0"]
JOINED = modern.ConsumerGroupMemberMetadataValue(
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="/h",
    subscribed_topic_names=["t"],
    subscribed_topic_regex=None,
    rebalance_timeout_ms=60,
    server_assignor="uniform",
)
CURRENT = modern.ConsumerGroupCurrentMemberAssignmentValue(
    member_epoch=3,
    previous_member_epoch=2,
    state=0,
    assigned_partitions=HELD,
    partitions_pending_revocation=[],
)
# key, value; event, epoch, assignor, member; its instance, client, host, rebalance timeout, topics, partitions
MODERN = [
    (
        modern.ConsumerGroupMetadataKey(**GROUP),
        modern.ConsumerGroupMetadataValue(epoch=9),
        ("epoch", 9, None, None, *(None,) * 6),
    ),
    (
        modern.ConsumerGroupMetadataKey(**GROUP),
        None,
        ("deleted", None, None, None, *(None,) * 6),
    ),
    (
        modern.ConsumerGroupMemberMetadataKey(**MEMBER),
        JOINED,
        ("member", None, "uniform", "m", "i", "c", "/h", 60, ["t"], None),
    ),
    (
        modern.ConsumerGroupMemberMetadataKey(**MEMBER),
        None,
        ("member_left", None, None, "m", *(None,) * 6),
    ),
    (
        modern.ConsumerGroupCurrentMemberAssignmentKey(**MEMBER),
        CURRENT,
        ("assignment", 3, None, "m", *(None,) * 5, PARTITIONS),
    ),
    (
        modern.ConsumerGroupCurrentMemberAssignmentKey(**MEMBER),
        None,
        ("assignment", None, None, "m", *(None,) * 6),
    ),
    (
        modern.ConsumerGroupTargetAssignmentMemberKey(**MEMBER),
        modern.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=GIVEN),
        ("target", None, None, "m", *(None,) * 5, PARTITIONS),
    ),
    (
        modern.ConsumerGroupTargetAssignmentMemberKey(**MEMBER),
        None,
        ("target", None, None, "m", *(None,) * 6),
    ),
]


@pytest.mark.parametrize(("key", "value", "told"), MODERN)
def test_consumer_group_record_gives_a_row(key, value, told):
    event, epoch, assignor, name, instance, client, host, rebalance, topics, held = told
    start = (3, 40, 5000, "g", "consumer", event, epoch, None, assignor, None, None, name)
    rest = (instance, client, host, None, rebalance, topics, held)
    assert cells("group_members", member_rows(PLACE, key, value)) == [(*start, *rest)]


def test_record_without_member_gives_no_row():
    key = modern.ConsumerGroupTargetAssignmentMetadataKey(group_id="g")
    assert cells("group_members", member_rows(PLACE, key, None)) == []


TX = TransactionLogKey(transactional_id="tx")


def state_of(status, *, started=9, partitions=None):
    return TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60,
        transaction_status=status,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=20,
        transaction_start_timestamp_ms=started,
    )


STATES = [
    (0, "Empty", False),
    (1, "Ongoing", True),
    (2, "PrepareCommit", True),
    (3, "PrepareAbort", True),
    (4, "CompleteCommit", False),
    (5, "CompleteAbort", False),
    (6, "Dead", False),
    (7, "PrepareEpochFence", True),
    (8, "UNKNOWN(8)", False),
]


@pytest.mark.parametrize(("status", "name", "is_open"), STATES)
def test_transactional_id_state_gives_a_row(status, name, is_open):
    assert cells("transactions", transaction_rows(PLACE, TX, state_of(status))) == [
        (3, 40, 5000, "tx", 7, 1, name, 60, [], 9, 20, is_open)
    ]


@pytest.mark.parametrize(("started", "told"), [(-1, None), (0, 0), (1, 1)])
def test_transaction_row_has_written_partitions_and_start(started, told):
    wrote = [
        PartitionsSchema(topic="t", partition_ids=[0, 2]),
        PartitionsSchema(topic="u", partition_ids=[1]),
    ]
    assert cells(
        "transactions", transaction_rows(PLACE, TX, state_of(1, started=started, partitions=wrote))
    ) == [(3, 40, 5000, "tx", 7, 1, "Ongoing", 60, ["t-0", "t-2", "u-1"], told, 20, True)]


def test_forgotten_transactional_id_gives_a_tombstone():
    tombstone = ("tx", None, None, "Tombstone", None, None, None, None, False)
    assert cells("transactions", transaction_rows(PLACE, TX, None)) == [(3, 40, 5000, *tombstone)]


LEVEL = DECODED["group_offsets"]


def encoded(key, value=None):
    written = None if value is None else struct.pack(">h", 3) + value.encode(3)
    return struct.pack(">h", key.KEY) + key.encode(0), written


def test_records_that_cannot_be_decoded_give_no_rows():
    key, value = encoded(KEY, commit())
    assert len(list(LEVEL.decode(PLACE, key, value))) == 1
    for wrong in (
        (None, value),
        (b"", value),
        (b"\x00\x63", value),
        (key[:-1], value),
        (key, value[:-1]),
        (key, b"\x00\x63"),
    ):
        assert list(LEVEL.decode(PLACE, *wrong)) == [], wrong


def piece_of(*times):
    key, value = encoded(KEY, commit())
    return Piece([build_batch([NewRecord(key, value, time) for time in times])])


@pytest.mark.parametrize(("chunk", "sizes"), [(2, [2, 0]), (1, [2, 0]), (3, [2]), (99, [2])])
def test_rows_come_in_chunks_of_ten_thousand(monkeypatch, chunk, sizes):
    """The last one may be empty, because Spark needs a schema."""
    assert decoded.CHUNK_ROWS == 10_000
    monkeypatch.setattr(decoded, "CHUNK_ROWS", chunk)
    columns = ("timestamp", "offset")
    made = list(read_decoded(LEVEL, [piece_of(5), piece_of(5)], ReadRequest(columns)))
    if chunk == 1:
        sizes = [1, 1, 0]
    assert [len(batch) for batch in made] == sizes
    assert all(batch.schema.names == list(columns) for batch in made)


def test_record_has_its_time_and_place():
    columns = ("partition", "offset", "timestamp", "group")
    (made,) = read_decoded(LEVEL, [piece_of(1001, 1 << 62)], ReadRequest(columns))
    times = made.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [1_001_000, None]
    assert made.column("offset").to_pylist() == [0, 1]
    assert made.column("partition").to_pylist() == [3, 3]
