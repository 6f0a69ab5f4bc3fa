"""`partition.metadata`: the topic id of a partition's directory (KIP-516).

    version: 0
    topic_id: <22 characters of base64>
    crc32c: <8 hexadecimal digits: of the lines above>

Source: Kafka's `PartitionMetadataFile`, which only reads and writes the first two lines: a flipped bit may
change the topic in Kafka's file, but not in ours.
"""

from __future__ import annotations

import re
from pathlib import Path

import crc32c

from trimaran.log.disk.atomic_file import write_unsynced
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_from_text, uuid_to_text

FILE_NAME = "partition.metadata"
_LINES = re.compile(rb"version: \d+\ntopic_id: ([A-Za-z0-9_-]{22})(?:\n|\Z)")
_CHECKSUM = re.compile(rb"crc32c: ([0-9a-f]{8})\n")


class PartitionMetadataDamaged(FileDamaged):
    """The file is damaged. `may_be_torn`: a power failure may have damaged the file before it was synced; then no file
    in its directory was synced.
    """

    def __init__(self, message: str, *, may_be_torn: bool = False) -> None:
        super().__init__(message)
        self.may_be_torn = may_be_torn


def format_partition_metadata(topic_id: bytes) -> bytes:
    lines = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode()
    return lines + b"crc32c: %08x\n" % crc32c.crc32c(lines)


_BYTES = len(format_partition_metadata(NIL_UUID))


def make_partition_directory(directory: Path, topic_id: bytes | None, files: Files) -> None:
    """Creates the directory of a partition. It is not durable yet: the log's first flush syncs the file. `topic_id` is
    None only for `__cluster_metadata`. Raises OSError.
    """
    files.mkdir(directory)
    if topic_id is not None:
        write_unsynced(directory / FILE_NAME, format_partition_metadata(topic_id), files)


def read_partition_metadata(directory: Path, files: Files = REAL_FILES) -> bytes | None:
    """Returns the topic id; None if there is no file.

    Raises:
        PartitionMetadataDamaged: the file is damaged or cannot be read.
        OSError: the disk failed.
    """
    path = directory / FILE_NAME
    try:
        text = read_small_file(path, files)
    except FileDamaged as damage:
        raise PartitionMetadataDamaged(str(damage)) from damage
    if text is None:
        return None
    try:
        return _parse(text)
    except ValueError as error:
        is_torn = len(text) < _BYTES or not any(text)
        raise PartitionMetadataDamaged(
            f"{path} is damaged: {error}", may_be_torn=is_torn
        ) from error


def _parse(text: bytes) -> bytes:
    found = _LINES.match(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} is no version and topic id")
    rest = text[found.end() :]
    if rest.startswith(b"crc32c"):
        checksum = _CHECKSUM.fullmatch(rest)
        if checksum is None or int(checksum[1], 16) != crc32c.crc32c(text[: found.end()]):
            raise ValueError("the checksum does not match")
    topic_id = uuid_from_text(found[1].decode())
    if topic_id == NIL_UUID:
        raise ValueError("the topic id is nil")
    return topic_id
