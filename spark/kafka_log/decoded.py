"""The levels `group_offsets`, `group_members` and `transactions`: the records that coordinators wrote into their
internal topics.

The rows are the decoded records of `__consumer_offsets` and `__transaction_state` in log order, tombstones included.
Users and analyses share one decoder for each. Pure, without Spark. Source: KIP-98, KIP-848, Kafka's
`GroupCoordinatorRecordSerde` and `TransactionLog`. Records of a later Kafka, of share groups and of streams groups are
omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    field,
    rows_to_arrow,
)
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log.options import DECODED_TOPICS
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.origins.origin import Range
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_to_text
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
)
from trimaran.wire.messages.consumer_protocol import decode_assignment, decode_subscription
from trimaran.wire.records import consumer_groups, groups
from trimaran.wire.records.coordinator import decode_coordinator_record
from trimaran.wire.records.transaction_log import TransactionLogKey, TransactionLogValue


class Place(NamedTuple):
    """The place and the time of a record: the first columns of every level."""

    partition: int
    offset: Offset
    timestamp_ms: int | None


# fmt: off
_PLACE = (
    Column("partition", INT, field("place.partition"), "partition of the internal topic"),
    Column("offset", LONG, field("place.offset"), "offset in it"),
    Column("timestamp", TIMESTAMP, field("place.timestamp_ms"), "when the coordinator wrote the record", unit="UTC"),
)
# fmt: on

# fmt: off
OFFSET_COLUMNS = (
    *_PLACE,
    Column("group", STRING, field("key.group"), "the consumer group", "OffsetCommitKey.group"),
    Column("topic", STRING, field("key.topic"), "the topic that is consumed", "OffsetCommitKey.topic"),
    Column("topic_partition", INT, field("key.partition"), "its partition", "OffsetCommitKey.partition"),
    Column("committed_offset", LONG, field("committed_offset"),
           "the next offset to be consumed; null: the commit was deleted or expired", "OffsetCommitValue.offset"),
    Column("leader_epoch", INT, field("leader_epoch"), "epoch of the last record consumed; null: unknown",
           "….leaderEpoch"),
    Column("metadata", STRING, field("metadata"), "metadata that the consumer sent with it", "….metadata"),
    Column("commit_ts", TIMESTAMP, field("commit_ms"), "when it was committed", "….commitTimestamp", "UTC"),
    Column("expire_ts", TIMESTAMP, field("expire_ms"), "when it expires; null: by retention", "….expireTimestamp",
           "UTC"),
    Column("topic_id", STRING, field("topic_id"), "the topic's id; null: unknown", "….topicId"),
)
# fmt: on

# fmt: off
MEMBER_COLUMNS = (
    *_PLACE,
    Column("group", STRING, field("group"), "the consumer group", "GroupMetadataKey.group"),
    Column("protocol", STRING, field("protocol"), "classic, consumer (KIP-848)"),
    Column("event", STRING, field("event"),
           "classic: generation, empty, deleted; consumer: epoch, member, assignment, target, member_left, deleted"),
    Column("generation", INT, field("generation"), "generation; consumer: epoch of the group or of the member",
           "GroupMetadataValue.generation, ConsumerGroupMetadataValue.epoch"),
    Column("protocol_type", STRING, field("protocol_type"), "classic: such as consumer",
           "GroupMetadataValue.protocolType"),
    Column("assignor", STRING, field("assignor"), "how partitions are assigned", "GroupMetadataValue.protocol"),
    Column("leader", STRING, field("leader"), "classic: the member that assigns them", "GroupMetadataValue.leader"),
    Column("members", INT, field("members"), "classic: how many there are", "GroupMetadataValue.members"),
    Column("member_id", STRING, field("member_id"), "the member; null: the row is of the group", "….memberId"),
    Column("instance_id", STRING, field("instance_id"), "static membership; null: none", "….groupInstanceId"),
    Column("client_id", STRING, field("client_id"), "the id that the client sends", "….clientId"),
    Column("client_host", STRING, field("client_host"), "where it is", "….clientHost"),
    Column("session_timeout_ms", INT, field("session_timeout_ms"), "classic", "….sessionTimeout", "ms"),
    Column("rebalance_timeout_ms", INT, field("rebalance_timeout_ms"), "how long a rebalance may take",
           "….rebalanceTimeout", "ms"),
    Column("subscription", STRINGS, field("subscription"), "topics, if the bytes are a consumer's",
           "….subscription"),
    Column("assignment", STRINGS, field("assignment"), "partitions as topic-0 (consumer: topic id)", "….assignment"),
)
# fmt: on

# fmt: off
TRANSACTION_COLUMNS = (
    *_PLACE,
    Column("transactional_id", STRING, field("transactional_id"), "the producer's",
           "TransactionLogKey.transactionalId"),
    Column("producer_id", LONG, field("producer_id"), "its id; null: a tombstone", "TransactionLogValue.producerId"),
    Column("producer_epoch", INT, field("producer_epoch"), "its epoch", "….producerEpoch"),
    Column("state", STRING, field("state"),
           "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead, PrepareEpochFence, "
           "Tombstone",
           "….transactionStatus"),
    Column("timeout_ms", INT, field("timeout_ms"), "after which it is aborted", "….transactionTimeoutMs", "ms"),
    Column("partitions", STRINGS, field("partitions"), "those it wrote to, as topic-0", "….transactionPartitions"),
    Column("start_ts", TIMESTAMP, field("start_ms"), "when it began; null: none is open", "….StartTimestampMs", "UTC"),
    Column("update_ts", TIMESTAMP, field("update_ms"), "when the state changed", "….LastUpdateTimestampMs", "UTC"),
    Column("is_open", BOOL, field("is_open"), "Ongoing, or ended without all its markers being written"),
)
# fmt: on
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


class OffsetRow(NamedTuple):
    """A row of `group_offsets`: a commit, or its tombstone, which has no value."""

    place: Place
    key: Any
    committed_offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None
    metadata: str | None = None
    commit_ms: int | None = None
    expire_ms: int | None = None
    topic_id: str | None = None


def offset_rows(place: Place, key: Any, value: Any) -> Iterator[OffsetRow]:
    """Yields the row of a commit, or of its tombstone."""
    if not isinstance(key, groups.LegacyOffsetCommitKey | groups.OffsetCommitKey):
        return
    if value is None:
        yield OffsetRow(place, key)
        return
    epoch = getattr(value, "leader_epoch", NO_LEADER_EPOCH)
    topic_id = getattr(value, "topic_id", NIL_UUID)
    yield OffsetRow(
        place,
        key,
        value.offset,
        None if epoch < 0 else LeaderEpoch(epoch),
        value.metadata,
        value.commit_timestamp,
        getattr(value, "expire_timestamp", NO_TIMESTAMP),
        None if topic_id == NIL_UUID else uuid_to_text(topic_id),
    )


class MemberRow(NamedTuple):
    """A row of `group_members`: a group, or one of its members."""

    place: Place
    group: str
    protocol: str
    event: str
    generation: int | None = None
    protocol_type: str | None = None
    assignor: str | None = None
    leader: str | None = None
    members: int | None = None
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    subscription: Sequence[str] | None = None
    assignment: Sequence[str] | None = None


def member_rows(place: Place, key: Any, value: Any) -> Iterator[MemberRow]:
    """Yields a row for each member of a classic group's generation, or one row for a record of a consumer group."""
    if isinstance(key, groups.GroupMetadataKey):
        yield from _generation(place, key.group, value)
        return
    kind = type(key)
    if kind not in _CONSUMER_EVENTS:
        return
    event = _CONSUMER_EVENTS[kind] if value is not None else _CONSUMER_ENDS[kind]
    yield _consumer(place, key, value, event)


def _generation(
    place: Place, group: str, value: groups.GroupMetadataValue | None
) -> Iterator[MemberRow]:
    if value is None:
        yield MemberRow(place, group, "classic", "deleted")
        return
    row = MemberRow(
        place,
        group,
        "classic",
        "generation" if value.members else "empty",
        value.generation,
        value.protocol_type,
        value.protocol,
        value.leader,
        len(value.members),
    )
    if not value.members:
        yield row
    for member in value.members:
        yield row._replace(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout,
            rebalance_timeout_ms=member.rebalance_timeout,
            subscription=_subscription(member.subscription),
            assignment=_assignment(member.assignment),
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


def _consumer(place: Place, key: Any, value: Any, event: str) -> MemberRow:
    assigned = getattr(value, "assigned_partitions", getattr(value, "topic_partitions", None))
    return MemberRow(
        place,
        key.group_id,
        "consumer",
        event,
        generation=getattr(value, "epoch", getattr(value, "member_epoch", None)),
        assignor=getattr(value, "server_assignor", None),
        member_id=getattr(key, "member_id", None),
        instance_id=getattr(value, "instance_id", None),
        client_id=getattr(value, "client_id", None),
        client_host=getattr(value, "client_host", None),
        rebalance_timeout_ms=getattr(value, "rebalance_timeout_ms", None),
        subscription=getattr(value, "subscribed_topic_names", None),
        assignment=None
        if assigned is None
        else [
            f"{uuid_to_text(topic.topic_id)}-{number}"
            for topic in assigned
            for number in topic.partitions
        ],
    )


def _subscription(data: bytes) -> list[str] | None:
    """Returns the subscription; None if the bytes belong to a protocol other than the consumers', such as Connect's."""
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


class TransactionRow(NamedTuple):
    """A row of `transactions`: the state of a transactional id; a tombstone has no other values."""

    place: Place
    transactional_id: str
    state: str
    is_open: bool
    producer_id: ProducerId | None = None
    producer_epoch: ProducerEpoch | None = None
    timeout_ms: int | None = None
    partitions: Sequence[str] | None = None
    start_ms: int | None = None
    update_ms: int | None = None


def transaction_rows(place: Place, key: Any, value: Any) -> Iterator[TransactionRow]:
    """Yields the row of the state of a transactional id."""
    if not isinstance(key, TransactionLogKey):
        return
    if value is None:
        yield TransactionRow(place, key.transactional_id, "Tombstone", is_open=False)
        return
    assert isinstance(value, TransactionLogValue)
    state = value.transaction_status
    started = value.transaction_start_timestamp_ms
    yield TransactionRow(
        place,
        key.transactional_id,
        STATES.get(state, f"UNKNOWN({state})"),
        state in OPEN,
        ProducerId(value.producer_id),
        ProducerEpoch(value.producer_epoch),
        value.transaction_timeout_ms,
        [f"{p.topic}-{n}" for p in value.transaction_partitions or () for n in p.partition_ids],
        started if started >= 0 else None,
        value.transaction_last_update_timestamp_ms,
    )


@dataclass(frozen=True, slots=True)
class Level:
    """A decoded level: the internal topic, its columns, and the function from a record to rows."""

    name: str
    topic: str
    doc: str
    columns: tuple[Column, ...]
    rows: Callable[[Place, Any, Any], Iterator[NamedTuple]]

    def decode(self, place: Place, key: bytes | None, value: bytes | None) -> Iterator[NamedTuple]:
        """Returns the rows of a record; none for a record of a later Kafka, which must not end an analysis."""
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
    """Yields the rows of the level. Raises as `read_records` does."""
    rows: list[NamedTuple] = []
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
