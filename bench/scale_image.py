"""An image of many partitions in one process: its memory, the speed of reading and writing a snapshot, and the cost of
a change.

Each shape is measured in a separate process, so that the memory is only that of the image.
"""

from __future__ import annotations

import gc
import multiprocessing
import random
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.accounting import rss_mib
from bench.sizes import sized
from trimaran.node.runtime.long_lived import LongLived
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.raft.listener import CommittedBatch
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.snapshot_format import check_snapshot, encode_snapshot
from trimaran.quorum.replica.appliers import RECORDS_AT_ONCE
from trimaran.wire.records.metadata import encode_metadata_record, metadata_record_version
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from trimaran.wire.schema import Message

BROKERS = 3
REPLICAS = 3
METADATA_VERSION = 30  # 4.3
SNAPSHOT = OffsetAndEpoch(1000, 3)
CHANGES = sized(5000, 50)


class Shape(NamedTuple):
    topics: int
    partitions: int  # partitions of each topic

    @property
    def in_all(self) -> int:
        return self.topics * self.partitions

    def __str__(self) -> str:
        return f"{self.topics:,} × {self.partitions:,}"


class Measured(NamedTuple):
    """Figures of an image. Seconds are CPU time; `bytes_held` is the memory of the image after the snapshot is dropped;
    the peak is in addition to the memory of the process before.
    """

    bytes_held: float
    bytes_peak: float
    snapshot_bytes: int
    write_seconds: float
    read_seconds: float
    change_seconds: float
    collect_seconds: float


def measure(shape: Shape) -> Measured:
    """Measures in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (shape,))


def _measure(shape: Shape) -> Measured:
    with TemporaryDirectory() as name:
        path = Path(name) / "snapshot"
        began = time.process_time()
        with path.open("wb") as file:
            file.writelines(encoded(records_of(shape)))
        write_seconds = time.process_time() - began
        return _measure_reading(path.read_bytes(), write_seconds)


def _measure_reading(data: bytes, write_seconds: float) -> Measured:
    import os

    gc.collect()
    before = rss_mib(os.getpid())
    began = time.process_time()
    loader = MetadataLoader()
    long_lived = LongLived()
    for piece in check_snapshot(SNAPSHOT, data).pieces(RECORDS_AT_ONCE):
        loader.load_snapshot(piece)
        long_lived.add(len(piece.records))
    del piece
    read_seconds = time.process_time() - began
    peak = rss_mib(os.getpid()) - before
    began = time.process_time()
    gc.collect()
    collect_seconds = time.process_time() - began
    held = rss_mib(os.getpid()) - before
    return Measured(
        bytes_held=held * 2**20,
        bytes_peak=peak * 2**20,
        snapshot_bytes=len(data),
        write_seconds=write_seconds,
        read_seconds=read_seconds,
        change_seconds=_change_seconds(loader),
        collect_seconds=collect_seconds,
    )


def records_of(shape: Shape) -> Iterator[Message]:
    prng = random.Random(1)
    directories = [prng.randbytes(16) for _ in range(BROKERS)]
    for number in range(shape.topics):
        topic_id = prng.randbytes(16)
        yield TopicRecord(name=f"topic-{number}", topic_id=topic_id)
        for index in range(shape.partitions):
            replicas = [(number + index + replica) % BROKERS for replica in range(REPLICAS)]
            yield PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=list(replicas),
                removing_replicas=[],
                adding_replicas=[],
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[directories[replica] for replica in replicas],
            )


def encoded(records: Iterator[Message]) -> Iterator[bytes]:
    values = (
        encode_metadata_record(record, metadata_record_version(type(record), METADATA_VERSION))
        for record in records
    )
    return encode_snapshot(SNAPSHOT, values, appended_at_ms=1, now_ms=2)


def _change_seconds(loader: MetadataLoader) -> float:
    """Returns the CPU seconds for one batch that changes one partition, replayed and published as a new image."""
    topic = next(iter(loader.image.topics.by_id.values()))
    size = len(topic.partitions)
    batches = [
        CommittedBatch(
            base_offset=SNAPSHOT.offset + number,
            last_offset=SNAPSHOT.offset + number,
            epoch=SNAPSHOT.epoch,
            appended_at_ms=1,
            size_bytes=100,
            records=[
                PartitionChangeRecord(
                    topic_id=topic.id, partition_id=number * 7919 % size, isr=[0, 1], leader=1
                )
            ],
        )
        for number in range(CHANGES)
    ]
    began = time.process_time()
    for batch in batches:
        loader.apply_committed(batch)
    return (time.process_time() - began) / CHANGES


def rewrite_seconds(loader: MetadataLoader) -> float:
    """Returns the CPU seconds for writing the image as a snapshot."""
    began = time.process_time()
    for _ in encoded(image_to_records(loader.image)):
        pass
    return time.process_time() - began
