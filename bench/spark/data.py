"""The data of the bench: logs of nodes, written by our log package; many equal partitions share their files by hard
links.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tests.spark.directories import leader_change, make_node, metadata_batch
from trimaran.log.batches.batch import header_at
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.config import LogConfig
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from trimaran.wire.schema import Message

START_MS = 1_700_000_000_000
SEGMENT_BYTES = 32 << 20
BATCH_RECORDS = {100: 160, 1024: 16}  # about 16 KiB, Kafka's `batch.size`
METADATA_TOPICS, METADATA_PARTITIONS = 40, 50
METADATA_BATCH = 20


def log_of(folder: Path, *, size: int, total_bytes: int) -> int:
    """Writes a partition's directory with the given bytes of records of `size`; returns their number."""
    folder.mkdir(parents=True)
    each = BATCH_RECORDS[size]
    chance = random.Random(7)
    rows = [
        NewRecord(b"key-%05d" % chance.randrange(100_000), chance.randbytes(size - 25), START_MS)
        for _ in range(each)
    ]
    batch = bytearray(build_batch(rows))
    config = LogConfig(segment_bytes=SEGMENT_BYTES, retention_ms=-1)
    log = PartitionLog.open(folder, config, LastRun(clean_shutdown=True), now_ms=0)
    count = max(1, total_bytes // len(batch))
    for i in range(count):
        batch[0:8] = (i * each).to_bytes(8, "big")
        log.append_as_follower(memoryview(batch))
    log.close()
    return count * each


def many_of(node: Path, partition: Path, topic: str, count: int) -> None:
    """Creates `topic` with equal partitions that share their bytes on the disk."""
    for number in range(count):
        folder = node / f"{topic}-{number}"
        folder.mkdir()
        for file in partition.iterdir():
            os.link(file, folder / file.name)


def node_at(root: Path) -> Path:
    return make_node(root, 1)


def many_segments(node: Path, *, partitions: int, segments: int) -> None:
    """Creates segments of one small batch each."""
    first = node / "planned-0"
    first.mkdir()
    batch = bytearray(build_batch([NewRecord(b"k", b"v" * 100, START_MS)] * 10))
    for i in range(segments):
        batch[0:8] = (i * 10).to_bytes(8, "big")
        (first / f"{i * 10:020d}.log").write_bytes(batch)
    for number in range(1, partitions):
        folder = node / f"planned-{number}"
        folder.mkdir()
        for file in first.iterdir():
            os.link(file, folder / file.name)


def metadata_log(node: Path, records: int) -> None:
    """Creates topics, and then changes of leaders and in-sync replicas."""
    folder = node / "__cluster_metadata-0"
    folder.mkdir()
    messages = _messages()
    data = bytearray(leader_change(0, 1, 1, [1], START_MS))
    offset = 1
    while offset < records:
        some = list(islice(messages, METADATA_BATCH))
        batch = metadata_batch(offset, 1, some, START_MS + offset)
        data += batch
        view = header_at(memoryview(batch), 0)
        assert view is not None
        offset = view.next_offset
    (folder / f"{0:020d}.log").write_bytes(data)


def _messages() -> Iterator[Message]:
    ids = [bytes([7] * 15 + [number]) for number in range(METADATA_TOPICS)]
    for number, topic_id in enumerate(ids):
        yield TopicRecord(name=f"topic-{number}", topic_id=topic_id)
        for partition in range(METADATA_PARTITIONS):
            yield PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=[1, 2, 3],
                isr=[1, 2, 3],
                removing_replicas=[],
                adding_replicas=[],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes([8] * 15 + [broker]) for broker in (1, 2, 3)],
            )
    chance = random.Random(7)
    while True:
        isr = chance.choice(([1, 2], [2, 3], [1, 2, 3]))
        yield PartitionChangeRecord(
            partition_id=chance.randrange(METADATA_PARTITIONS),
            topic_id=chance.choice(ids),
            isr=isr,
            **({"leader": isr[0]} if chance.random() < 0.3 else {}),
        )
