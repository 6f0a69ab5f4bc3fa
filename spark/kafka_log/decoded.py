"""The levels `group_offsets`, `group_members` and `transactions`: what coordinators wrote into their internal topics.

Records of `__consumer_offsets` and `__transaction_state` in log order, decoded; a tombstone is a row, too. One decoder
each, for users and for analyses. Pure, without Spark. Source: KIP-98, KIP-848, Kafka's `GroupCoordinatorRecordSerde`
and `TransactionLog`. Records of a later Kafka, of share groups and of streams groups are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    LONG,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    rows_to_arrow,
)
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log.options import DECODED_TOPICS
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.origins.origin import Range
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_to_text
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.consumer_protocol import decode_assignment, decode_subscription
from trimaran.wire.records import consumer_groups, groups
from trimaran.wire.records.coordinator import decode_coordinator_record
from trimaran.wire.records.transaction_log import TransactionLogKey, TransactionLogValue

Row = tuple[Any, ...]


class Place(NamedTuple):
    """Where a record lies and when it was written: the first columns of every level."""

    partition: int
    offset: int
    timestamp_ms: int | None


_PLACE = (
    Column("partition", INT, "partition of the internal topic"),
    Column("offset", LONG, "offset in it"),
    Column("timestamp", TIMESTAMP, "when the coordinator wrote the record", unit="UTC"),
)

OFFSET_COLUMNS = (
    *_PLACE,
    Column("group", STRING, "the consumer group", "OffsetCommitKey.group"),
    Column("topic", STRING, "the topic that is consumed", "OffsetCommitKey.topic"),
    Column("topic_partition", INT, "its partition", "OffsetCommitKey.partition"),
    Column(
        "committed_offset",
        LONG,
        "the next offset to be consumed; null: the commit was deleted or expired",
        "OffsetCommitValue.offset",
    ),
    Column(
        "leader_epoch", INT, "epoch of the last record consumed; null: unknown", "….leaderEpoch"
    ),
    Column("metadata", STRING, "what the consumer said with it", "….metadata"),
    Column("commit_ts", TIMESTAMP, "when it was committed", "….commitTimestamp", "UTC"),
    Column(
        "expire_ts", TIMESTAMP, "when it expires; null: by retention", "….expireTimestamp", "UTC"
    ),
    Column("topic_id", STRING, "the topic's id; null: unknown", "….topicId"),
)

MEMBER_COLUMNS = (
    *_PLACE,
    Column("group", STRING, "the consumer group", "GroupMetadataKey.group"),
    Column("protocol", STRING, "classic, consumer (KIP-848)"),
    Column(
        "event",
        STRING,
        "classic: generation, empty, deleted; consumer: epoch, member, assignment, target, member_left, deleted",
    ),
    Column(
        "generation",
        INT,
        "generation; consumer: epoch of the group or of the member",
        "GroupMetadataValue.generation, ConsumerGroupMetadataValue.epoch",
    ),
    Column("protocol_type", STRING, "classic: such as consumer", "GroupMetadataValue.protocolType"),
    Column("assignor", STRING, "how partitions are dealt out", "GroupMetadataValue.protocol"),
    Column("leader", STRING, "classic: the member that deals", "GroupMetadataValue.leader"),
    Column("members", INT, "classic: how many there are", "GroupMetadataValue.members"),
    Column("member_id", STRING, "the member; null: the row is of the group", "….memberId"),
    Column("instance_id", STRING, "static membership; null: none", "….groupInstanceId"),
    Column("client_id", STRING, "as the client calls itself", "….clientId"),
    Column("client_host", STRING, "where it is", "….clientHost"),
    Column("session_timeout_ms", INT, "classic", "….sessionTimeout", "ms"),
    Column(
        "rebalance_timeout_ms", INT, "how long a rebalance may take", "….rebalanceTimeout", "ms"
    ),
    Column("subscription", STRINGS, "topics, where the bytes are a consumer's", "….subscription"),
    Column("assignment", STRINGS, "partitions as topic-0 (consumer: topic id)", "….assignment"),
)

TRANSACTION_COLUMNS = (
    *_PLACE,
    Column("transactional_id", STRING, "the producer's", "TransactionLogKey.transactionalId"),
    Column("producer_id", LONG, "its id; null: a tombstone", "TransactionLogValue.producerId"),
    Column("producer_epoch", INT, "its epoch", "….producerEpoch"),
    Column(
        "state",
        STRING,
        "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead, PrepareEpochFence, "
        "Tombstone",
        "….transactionStatus",
    ),
    Column("timeout_ms", INT, "after which it is aborted", "….transactionTimeoutMs", "ms"),
    Column("partitions", STRINGS, "those it wrote to, as topic-0", "….transactionPartitions"),
    Column("start_ts", TIMESTAMP, "when it began; null: none is open", "….StartTimestampMs", "UTC"),
    Column("update_ts", TIMESTAMP, "when the state changed", "….LastUpdateTimestampMs", "UTC"),
    Column("is_open", BOOL, "Ongoing, or ended without all its markers being written"),
)
STATES = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
OPEN = frozenset((1, 2, 3, 7))


def offset_rows(place: Place, key: Any, value: Any) -> Iterator[Row]:
    """A commit, or its end."""
    if isinstance(key, groups.LegacyOffsetCommitKey | groups.OffsetCommitKey):
        who = (key.group, key.topic, key.partition)
        if value is None:
            yield (*place, *who, *(None,) * 6)
            return
        epoch = getattr(value, "leader_epoch", -1)
        topic_id = getattr(value, "topic_id", NIL_UUID)
        yield (
            *place,
            *who,
            value.offset,
            None if epoch < 0 else epoch,
            value.metadata,
            value.commit_timestamp,
            getattr(value, "expire_timestamp", -1),
            None if topic_id == NIL_UUID else uuid_to_text(topic_id),
        )


_NO_MEMBER = (None,) * 8


def member_rows(place: Place, key: Any, value: Any) -> Iterator[Row]:
    """A classic group's generation member by member, or one record of a consumer group."""
    if isinstance(key, groups.GroupMetadataKey):
        yield from _generation(place, key.group, value)
        return
    kind = type(key)
    if kind not in _CONSUMER_EVENTS:
        return
    event = _CONSUMER_EVENTS[kind] if value is not None else _CONSUMER_ENDS[kind]
    yield _consumer(place, key, value, event)


def _generation(place: Place, group: str, value: groups.GroupMetadataValue | None) -> Iterator[Row]:
    def row(event: str, member: tuple[Any, ...]) -> Row:
        if value is None:
            told: tuple[Any, ...] = (None,) * 5
        else:
            count = len(value.members)
            told = (value.generation, value.protocol_type, value.protocol, value.leader, count)
        return (*place, group, "classic", event, *told, *member)

    if value is None or not value.members:
        yield row("deleted" if value is None else "empty", _NO_MEMBER)
        return
    for member in value.members:
        yield row(
            "generation",
            (
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout,
                member.rebalance_timeout,
                _subscription(member.subscription),
                _assignment(member.assignment),
            ),
        )


_CONSUMER_EVENTS: dict[type, str] = {
    consumer_groups.ConsumerGroupMetadataKey: "epoch",
    consumer_groups.ConsumerGroupMemberMetadataKey: "member",
    consumer_groups.ConsumerGroupCurrentMemberAssignmentKey: "assignment",
    consumer_groups.ConsumerGroupTargetAssignmentMemberKey: "target",
}
_CONSUMER_ENDS: dict[type, str] = {
    consumer_groups.ConsumerGroupMetadataKey: "deleted",
    consumer_groups.ConsumerGroupMemberMetadataKey: "member_left",
    consumer_groups.ConsumerGroupCurrentMemberAssignmentKey: "assignment",
    consumer_groups.ConsumerGroupTargetAssignmentMemberKey: "target",
}


def _consumer(place: Place, key: Any, value: Any, event: str) -> Row:
    epoch = getattr(value, "epoch", getattr(value, "member_epoch", None))
    assignor = getattr(value, "server_assignor", None)
    assigned = getattr(value, "assigned_partitions", getattr(value, "topic_partitions", None))
    return (
        *place,
        key.group_id,
        "consumer",
        event,
        epoch,
        None,
        assignor,
        None,
        None,
        getattr(key, "member_id", None),
        getattr(value, "instance_id", None),
        getattr(value, "client_id", None),
        getattr(value, "client_host", None),
        None,
        getattr(value, "rebalance_timeout_ms", None),
        getattr(value, "subscribed_topic_names", None),
        None
        if assigned is None
        else [f"{uuid_to_text(one.topic_id)}-{n}" for one in assigned for n in one.partitions],
    )


def _subscription(data: bytes) -> list[str] | None:
    """None where the bytes are of another protocol than consumers', such as Connect's."""
    try:
        return list(decode_subscription(data).topics)
    except RemoteProtocolError:
        return None


def _assignment(data: bytes) -> list[str] | None:
    try:
        parts = decode_assignment(data).assigned_partitions
    except RemoteProtocolError:
        return None
    return [f"{part.topic}-{number}" for part in parts for number in part.partitions]


def transaction_rows(place: Place, key: Any, value: Any) -> Iterator[Row]:
    """A transactional id's state."""
    if not isinstance(key, TransactionLogKey):
        return
    if value is None:
        tombstone = (None, None, "Tombstone", None, None, None, None, False)
        yield (*place, key.transactional_id, *tombstone)
        return
    assert isinstance(value, TransactionLogValue)
    state = value.transaction_status
    started = value.transaction_start_timestamp_ms
    yield (
        *place,
        key.transactional_id,
        value.producer_id,
        value.producer_epoch,
        STATES.get(state, f"UNKNOWN({state})"),
        value.transaction_timeout_ms,
        [f"{p.topic}-{n}" for p in value.transaction_partitions or () for n in p.partition_ids],
        started if started >= 0 else None,
        value.transaction_last_update_timestamp_ms,
        state in OPEN,
    )


@dataclass(frozen=True, slots=True)
class Level:
    """A decoded level: the internal topic, its columns, and the rows that a record gives."""

    name: str
    topic: str
    doc: str
    columns: tuple[Column, ...]
    rows: Callable[[Place, Any, Any], Iterator[Row]]

    def decode(self, place: Place, key: bytes | None, value: bytes | None) -> Iterator[Row]:
        """Rows of a record; none for one of a later Kafka, which is no end of an analysis."""
        if key is None:
            return iter(())
        try:
            record = decode_coordinator_record(self.topic, key, value)
        except RemoteProtocolError:
            return iter(())
        return self.rows(place, record.key, record.value)


DECODED: dict[str, Level] = {
    level.name: level
    for level in (
        Level(
            "group_offsets",
            DECODED_TOPICS["group_offsets"],
            "Commits of consumer groups, in the order in which they were written.",
            OFFSET_COLUMNS,
            offset_rows,
        ),
        Level(
            "group_members",
            DECODED_TOPICS["group_members"],
            "Members of consumer groups, generation by generation, and what they were assigned.",
            MEMBER_COLUMNS,
            member_rows,
        ),
        Level(
            "transactions",
            DECODED_TOPICS["transactions"],
            "States of transactional ids, in the order in which they were written.",
            TRANSACTION_COLUMNS,
            transaction_rows,
        ),
    )
}


RECORD_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
CHUNK_ROWS = 10_000


def read_decoded(
    level: Level, ranges: Iterable[Range], request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """Rows of the level. Raises as `read_records`."""
    rows: list[tuple[Any, ...]] = []
    for chunk in read_records(ranges, replace(request, columns=RECORD_COLUMNS)):
        times = chunk.column("timestamp").cast(pa.int64()).to_pylist()
        cells = [chunk.column(name).to_pylist() for name in RECORD_COLUMNS[:-1]]
        for key, value, partition, offset, us in zip(*cells, times, strict=True):
            place = Place(partition, offset, None if us is None else us // 1000)
            rows.extend(level.decode(place, key, value))
            if len(rows) >= CHUNK_ROWS:
                yield rows_to_arrow(rows, level.columns, request.columns)
                rows = []
    yield rows_to_arrow(rows, level.columns, request.columns)
