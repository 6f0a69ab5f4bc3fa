"""Kafka's checkpoint files: a version line, a count line, and one line per entry.

Source: `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`.

```
0                    version
2                    entries
topic 0 42           offset checkpoints: topic, partition, offset
1 100                leader-epoch-checkpoint: epoch, start offset
```

Our files end with a checksum that Kafka ignores, because it splits lines at blanks and tabs: after a tab, the CRC-32C
of all bytes before it, with a blank for each 0 and a tab for each 1, highest bit first. Kafka's files, and files
without entries, have no checksum, so a changed digit in them is not detected.

A file that cannot be parsed or read is damaged: `CheckpointDamaged` names it, and the caller rebuilds or refuses (mD3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from sys import intern

import crc32c

from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.wire.identity import Offset, TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
WRITTEN_LOGS = "written-logs-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"


# A tab precedes the checksum. After a blank, a flipped bit (0x20, 0x30) could turn it into a digit of the offset.
_CHECKSUM = re.compile(rb"\t([ \t]{32})\n\Z")


class CheckpointDamaged(FileDamaged):
    """The file exists but is not a valid checkpoint; the message names it."""


def format_checkpoint(lines: Iterable[str]) -> bytes:
    body = list(lines)
    text = "\n".join(["0", str(len(body)), *body]).encode()
    return text + (b"\t" + _checksum(text) if body else b"") + b"\n"


def _checksum(text: bytes) -> bytes:
    return f"{crc32c.crc32c(text):032b}".translate({ord("0"): " ", ord("1"): "\t"}).encode()


def parse_checkpoint(path: Path, text: bytes) -> list[list[str]]:
    """Returns the entries, split at blanks."""
    checksum = _CHECKSUM.search(text)
    try:
        if not text.endswith(b"\n"):
            raise ValueError("it is cut, its last line has no end")
        if checksum is not None and checksum[1] != _checksum(text[: checksum.start()]):
            raise ValueError(
                "its checksum does not match. If it was edited on purpose, remove the blanks at its end"
            )
        version, count, *lines = text.decode().splitlines()
        if int(version) != 0 or int(count) != len(lines):
            raise ValueError(f"version {version}, {count} entries announced, {len(lines)} present")
    except ValueError as error:
        raise CheckpointDamaged(f"{path}: {error}") from None
    return [line.split() for line in lines]


def read_offsets(
    path: Path, files: Files = REAL_FILES, *, may_be_empty: bool = True
) -> dict[TopicPartition, Offset]:
    """Returns the offsets by partition; none if the file is missing, or empty if that is permitted: Kafka creates empty
    files at its first start and fills them seconds later.

    Raises:
        CheckpointDamaged: the file is not a valid checkpoint, or cannot be read.
        OSError: the disk failed.
    """
    try:
        text = read_small_file(path, files)
    except FileDamaged as damage:
        raise CheckpointDamaged(str(damage)) from damage
    if text is None or (may_be_empty and not text):
        return {}
    entries = parse_checkpoint(path, text)
    try:
        offsets = {
            TopicPartition(intern(topic), int(partition)): Offset(int(offset))
            for topic, partition, offset in entries
        }
    except ValueError as error:
        raise CheckpointDamaged(f"{path}: {error}") from None
    if len(offsets) < len(entries):
        raise CheckpointDamaged(f"{path}: a partition stands there twice")
    if min(offsets.values(), default=0) < 0:
        raise CheckpointDamaged(f"{path}: a negative offset")
    return offsets


def format_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    return format_checkpoint(
        f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())
    )
