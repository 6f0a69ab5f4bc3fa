"""`image`: the whole state of the metadata at one offset: topics, partitions, brokers, configs, ACLs and the rest.

Replayed by `trimaran.quorum.metadata.replay`, as controllers and brokers do. It contains no secrets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import decode_records
from trimaran.quorum.metadata.as_json import state_as_json
from trimaran.quorum.metadata.image import EMPTY, Provenance, TopicImage
from trimaran.quorum.metadata.replay import MetadataState, Replay
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    INTS,
    LONG,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    field,
    rows_to_arrow,
)
from trimaran.spark.kafka_metadata.histories.acl_history import token_name
from trimaran.spark.kafka_metadata.log_walk.fold import UNKNOWN, report_unknown
from trimaran.spark.kafka_metadata.log_walk.walk import (
    batches_in,
    refuse_later,
    snapshot_moment,
)
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Table
from trimaran.spark.kafka_metadata.topic_histories.partitions import known
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import BrokerId, LeaderEpoch, Offset, PartitionEpoch

CHUNK_ROWS = 10_000

# fmt: off
COLUMNS = (
    Column("offset", LONG, field("provenance.offset"), "the last record that is in the image"),
    Column("epoch", INT, field("provenance.epoch"), "its epoch"),
    Column("ts", TIMESTAMP, field("provenance.timestamp_ms"), "when it was written", unit="UTC"),
    Column("kind", STRING, field("kind"),
           "topic, broker, config, voter and the like (`metadata image` shows each); unknown_records of a later Kafka"),
    Column("name", STRING, field("name"),
           "the topic, broker id, config, ACL id, user, feature …; a token by digits of its SHA-256"),
    Column("topic_id", STRING, field("topic_id"), "of a topic or partition", "TopicRecord.topicId"),
    Column("topic", STRING, field("topic"), "of a topic, a partition or a topic's config", "TopicRecord.name"),
    Column("partition", INT, field("partition"), "of a partition", "PartitionRecord.partitionId"),
    Column("leader", INT, field("leader"), "of a partition; null: none", "PartitionRecord.leader"),
    Column("leader_epoch", INT, field("leader_epoch"), "of a partition", "PartitionRecord.leaderEpoch"),
    Column("partition_epoch", INT, field("partition_epoch"), "of a partition", "PartitionRecord.partitionEpoch"),
    Column("replicas", INTS, field("replicas"), "of a partition", "PartitionRecord.replicas"),
    Column("isr", INTS, field("isr"), "of a partition", "PartitionRecord.isr"),
    Column("elr", INTS, field("elr"), "of a partition", "PartitionRecord.eligibleLeaderReplicas"),
    Column("adding", INTS, field("adding"), "of a partition", "PartitionRecord.addingReplicas"),
    Column("removing", INTS, field("removing"), "of a partition", "PartitionRecord.removingReplicas"),
    Column("directories", STRINGS, field("directories"), "of a partition, one a replica",
           "PartitionRecord.directories"),
    Column("partitions", INT, field("partitions"), "of a topic: how many"),
    Column("broker_id", INT, field("broker_id"), "of a broker", "RegisterBrokerRecord.brokerId"),
    Column("rack", STRING, field("rack"), "of a broker", "RegisterBrokerRecord.rack"),
    Column("fenced", BOOL, field("fenced"), "of a broker", "FenceBrokerRecord"),
    Column("resource_type", STRING, field("resource_type"), "of a config or an ACL: TOPIC, BROKER …"),
    Column("resource_name", STRING, field("resource_name"), "of a config or an ACL"),
    Column("value", STRING, field("value"), "of a config, a quota, a feature (its level), the next producer id"),
    Column("payload", STRING, field("payload"), "the whole entity as JSON"),
)
# fmt: on


class ImageRow(NamedTuple):
    """A row: one entity of the state; fields that do not apply to its `kind` are None."""

    provenance: Provenance
    kind: str
    name: str
    payload: str | None
    topic_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    leader: BrokerId | None = None
    leader_epoch: LeaderEpoch | None = None
    partition_epoch: PartitionEpoch | None = None
    replicas: Sequence[BrokerId] | None = None
    isr: Sequence[BrokerId] | None = None
    elr: Sequence[BrokerId] | None = None
    adding: Sequence[BrokerId] | None = None
    removing: Sequence[BrokerId] | None = None
    directories: Sequence[str] | None = None
    partitions: int | None = None
    broker_id: BrokerId | None = None
    rack: str | None = None
    fenced: bool | None = None
    resource_type: str | None = None
    resource_name: str | None = None
    value: str | None = None


RowOf = Callable[..., ImageRow]  # rows are sorted by kind, name, payload and cells


def read(
    task: MetadataTask, wanted: tuple[str, ...], options: MetadataOptions
) -> Iterator[pa.RecordBatch]:
    """Yields the rows. Raises DataUnreadable."""
    state = replayed(task, options.as_of_timestamp)
    report_unknown("image", state.unknown)
    unknown = state.image.unknown.count + state.unknown_control
    columns = (*COLUMNS, UNKNOWN._replace(value=lambda _: unknown))
    rows: list[ImageRow] = []
    for row in _rows(state, options.topics):
        rows.append(row)
        if len(rows) >= CHUNK_ROWS:
            yield rows_to_arrow(rows, columns, wanted)
            rows = []
    yield rows_to_arrow(rows, columns, wanted)


def replayed(task: MetadataTask, until_ms: int | None) -> MetadataState:
    """Returns the state at the end of the task, or at the last record that was written up to `until_ms`."""
    replay = Replay()
    where = f"the metadata log of node {task.node_id}"
    try:
        if task.snapshot is not None:
            where = task.snapshot.path
            refuse_later(task.snapshot, snapshot_moment(task.snapshot), until_ms)
            snapshot = task.snapshot
            replay.load_snapshot(snapshot.end_offset, snapshot.epoch, snapshot.read())
        for piece in task.ranges:
            where = piece.name
            for _, batch in batches_in(piece):
                end = _end_before(batch, until_ms)
                replay.apply(batch, piece.end_offset if end is None else end)
                if end is not None:
                    return replay.state
    except (RemoteProtocolError, KafkaError) as error:
        raise DataUnreadable(f"{where}: {error}") from None
    return replay.state


def _end_before(batch: BatchView, until_ms: int | None) -> Offset | None:
    """Returns the base offset of the first batch after the given time; None if there is none."""
    if until_ms is None or batch.max_timestamp <= until_ms:
        return None
    return next((r.offset for r in decode_records(batch) if r.timestamp_ms > until_ms), None)


def _rows(state: MetadataState, topics: frozenset[str]) -> Iterator[ImageRow]:
    image = state.image

    def row(kind: str, name: str, payload: Any, **cells: Any) -> ImageRow:
        return ImageRow(image.provenance, kind, name, _json(payload), **cells)

    for name, topic in sorted(image.topics.by_name.items()):
        if not topics or name in topics:
            yield from _topic(row, topic)
    rest = state_as_json(replace(state, image=replace(image, topics=EMPTY.topics)))
    for config in rest["configs"]:
        yield from _config(row, config, topics)
    if state.unknown:
        yield row("unknown_records", "", rest["unknown_records"], value=state.unknown)
    if topics:
        return
    yield from _nodes(row, rest)
    yield from _security(row, rest)
    for name, level in rest["features"].items():
        yield row("feature", name, {name: level}, value=str(level))
    producer_ids = rest["producer_ids"]
    yield row("producer_ids", "", producer_ids, value=str(producer_ids["next_producer_id"]))
    yield row("quorum", "", {"leader_id": rest["leader_id"]}, leader=known(rest["leader_id"]))


def _topic(row: RowOf, topic: TopicImage) -> Iterator[ImageRow]:
    topic_id = uuid_to_text(topic.id)
    shared = {"topic_id": topic_id, "topic": topic.name}
    yield row("topic", topic.name, shared, partitions=len(topic.partitions), **shared)
    for number, partition in sorted(topic.partitions.items()):
        yield row(
            "partition",
            f"{topic.name}-{number}",
            None,
            partition=number,
            leader=known(partition.leader),
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            replicas=partition.replicas,
            isr=partition.isr,
            elr=partition.elr,
            adding=partition.adding,
            removing=partition.removing,
            directories=[uuid_to_text(directory) for directory in partition.directories],
            **shared,
        )


def _config(row: RowOf, config: dict[str, Any], topics: frozenset[str]) -> Iterator[ImageRow]:
    kind, name = config["resource_type"], config["resource_name"]
    topic = name if kind == "TOPIC" else None
    if topics and topic not in topics:
        return
    place = {"resource_type": kind, "resource_name": name, "topic": topic}
    for key, value in config["config"].items():
        yield row("config", key, None, value=value, **place)


def _nodes(row: RowOf, rest: dict[str, Any]) -> Iterator[ImageRow]:
    for id_, broker in rest["brokers"].items():
        cells = {"broker_id": int(id_), "rack": broker["rack"], "fenced": broker["fenced"]}
        yield row("broker", id_, broker, **cells)
    for id_, controller in rest["controllers"].items():
        yield row("controller", id_, controller)
    for voter in rest["voters"]:
        yield row("voter", str(voter["voter_id"]), voter)


def _security(row: RowOf, rest: dict[str, Any]) -> Iterator[ImageRow]:
    for acl in rest["acls"]:
        place = {key: acl[key] for key in ("resource_type", "resource_name")}
        yield row("acl", acl["id"], acl, **place)
    for user, mechanisms in rest["scram"].items():
        yield row("scram", user, mechanisms, value=", ".join(mechanisms))
    for token in rest["delegation_tokens"]:
        name = token_name(token["token_id"])
        yield row("token", name, {**token, "token_id": "(hidden)"})
    for quota in rest["client_quotas"]:
        parts = [
            f"{k}={'<default>' if n is None else n}" for k, n in sorted(quota["entity"].items())
        ]
        for key, value in quota["values"].items():
            yield row("client_quota", ",".join(parts), quota, value=f"{key}={value:.15g}")


def _json(payload: Any) -> str | None:
    return None if payload is None else json.dumps(payload, separators=(",", ":"))


TABLE = Table(
    "image",
    "The state of the metadata log at one offset or time: topics, partitions, brokers, configs, ACLs and the rest.",
    (*COLUMNS, UNKNOWN),
    read,
    "image",
    frozenset(("asOfOffset", "asOfTimestamp", "topics", "includeUncommitted")),
)
