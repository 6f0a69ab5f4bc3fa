"""`partition.metadata`: the topic id of a partition's directory (KIP-516).

Source: Kafka's `PartitionMetadataFile`. Two lines: `version: 0` and `topic_id: <base64>`.
"""

from __future__ import annotations

from pathlib import Path

from log.disk.files import REAL_FILES, Files
from wire.primitives import NIL_UUID, uuid_from_text, uuid_to_text

FILE_NAME = "partition.metadata"


def format_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()


def make_partition_directory(directory: Path, topic_id: bytes | None, files: Files) -> None:
    """Nothing is durable yet. `topic_id` is None for `__cluster_metadata` only. Raises OSError."""
    files.mkdir(directory)
    if topic_id is not None:
        file = files.open(directory / FILE_NAME, create=True)
        files.pwrite(file, format_partition_metadata(topic_id), 0)


def read_partition_metadata(directory: Path, files: Files = REAL_FILES) -> bytes | None:
    """The topic id; None when the file is missing or damaged (the directory is then a stray, KAFKA-16814)."""
    try:
        version, topic_id = files.read_bytes(directory / FILE_NAME).decode().splitlines()
        if int(version.removeprefix("version: ")) < 0:
            return None
        uuid = uuid_from_text(topic_id.removeprefix("topic_id: "))
    except (FileNotFoundError, ValueError):
        return None
    return None if uuid == NIL_UUID else uuid
