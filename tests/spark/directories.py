"""Directories of brokers and controllers, written with our own log package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.config import LogConfig
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    format_offsets,
)
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.quorum.metadata.versions import LATEST
from trimaran.wire.messages.control import (
    ControlType,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    encode_control_key,
    encode_control_value,
)
from trimaran.wire.records.metadata import encode_metadata_record, metadata_record_version
from trimaran.wire.records.topics import PartitionRecord, TopicRecord
from trimaran.wire.schema import Message

CODECS = list(Compression)


def make_node(root: Path, node_id: int) -> Path:
    directory = root / f"node-{node_id}"
    directory.mkdir(parents=True)
    MetaProperties("cluster", node_id, bytes(15) + bytes([node_id])).save(directory)
    return directory


def records(count: int, *, timestamp_ms: int = 1000, tag: str = "") -> list[NewRecord]:
    """Returns records with null and empty keys and values, and with up to two headers."""
    return [
        NewRecord(
            None if i % 4 == 0 else b"k%d" % i,
            None if i % 7 == 0 else (f"{tag}{i}".encode() * (i % 5)),
            timestamp_ms + i,
            [("h", b"x"), ("null", None)][: i % 3],
        )
        for i in range(count)
    ]


def data_batches(batches: int, *, records_each: int = 10, gaps: bool = False) -> list[bytes]:
    """Returns batches of all codecs, one after another; with `gaps` an offset is missing after each, as after
    compaction.
    """
    built, offset = [], 0
    for i in range(batches):
        rows = records(records_each, timestamp_ms=1000 * i, tag=f"b{i}-")
        built.append(
            build_batch(rows, base_offset=offset, leader_epoch=i // 5, compression=CODECS[i % 5])
        )
        offset += records_each + gaps
    return built


def control_batch(offset: int, epoch: int = 0) -> bytes:
    """Returns a COMMIT marker of a transaction."""
    marker = NewRecord(encode_control_key(ControlType.COMMIT), bytes(6), 5000)
    return build_batch([marker], base_offset=offset, leader_epoch=epoch, is_control=True)


def write_partition(
    node: Path, topic: str, partition: int, batches: Iterable[bytes], *, segment_bytes: int = 2000
) -> Path:
    """Writes the segments and indexes that our log creates for the batches."""
    directory = node / f"{topic}-{partition}"
    directory.mkdir()
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=300, retention_ms=-1)
    log = PartitionLog.open(directory, config, LastRun(clean_shutdown=True), now_ms=0)
    for batch in batches:
        log.append_as_follower(memoryview(bytearray(batch)))
    log.flush()
    log.close()
    return directory


def checkpoint(
    node: Path, high_watermarks: dict[tuple[str, int], int], starts=None, cleaned=None
) -> None:
    """Writes checkpoints; below `cleaned` compaction has left gaps."""
    (node / HIGH_WATERMARKS).write_bytes(format_offsets(high_watermarks))
    if starts:
        (node / LOG_START_OFFSETS).write_bytes(format_offsets(starts))
    if cleaned:
        (node / CLEANER_OFFSETS).write_bytes(format_offsets(cleaned))


def next_offset(batches: list[bytes]) -> int:
    return next(iter_batches(memoryview(batches[-1]))).next_offset


# --- metadata logs -----------------------------------------------------------------------------------------------------


def leader_change(
    offset: int, epoch: int, leader: int, voters: Iterable[int], timestamp_ms: int
) -> bytes:
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader,
        voters=[LeaderChangeMessageVoter(voter_id=v) for v in voters],
        granting_voters=[],
    )
    record = NewRecord(
        encode_control_key(ControlType.LEADER_CHANGE),
        encode_control_value(message, 0),
        timestamp_ms,
    )
    return build_batch([record], base_offset=offset, leader_epoch=epoch, is_control=True)


def created_topic(topic_id: bytes) -> list[Message]:
    """Returns the records of the topic `orders`: one partition, on brokers 11 and 12, led by 11."""
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=[11, 12],
        isr=[11, 12],
        removing_replicas=[],
        adding_replicas=[],
        leader=11,
        leader_epoch=0,
        partition_epoch=0,
    )
    return [TopicRecord(name="orders", topic_id=topic_id), partition]


def metadata_batch(
    offset: int, epoch: int, messages: Iterable[Message], timestamp_ms: int
) -> bytes:
    rows = [NewRecord(None, encode_newest(m), timestamp_ms) for m in messages]
    return build_batch(rows, base_offset=offset, leader_epoch=epoch)


def encode_newest(message: Message) -> bytes:
    """Encodes as a cluster at the newest level of `metadata.version` does."""
    return encode_metadata_record(message, metadata_record_version(type(message), LATEST))
