"""Kafka's checkpoint files: a version line, a count line, one line per entry.

Source: `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`.

```
0                    version
2                    entries
topic 0 42           offset checkpoints: topic, partition, offset
1 100                leader-epoch-checkpoint: epoch, start offset
```

A file that does not parse is damage: `CheckpointDamaged` names it, and the caller rebuilds or refuses (mD3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from sys import intern

from log.disk.files import REAL_FILES, Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
WRITTEN_LOGS = "written-logs-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

TopicPartition = tuple[str, int]


class CheckpointDamaged(Exception):
    """The file exists and is not a checkpoint; the message names it."""


def format_checkpoint(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "\n".join(["0", str(len(body)), *body, ""]).encode()


def parse_checkpoint(path: Path, text: bytes) -> list[list[str]]:
    """The entries, split at blanks."""
    try:
        version, count, *lines = text.decode().splitlines()
        if int(version) != 0 or int(count) != len(lines):
            raise ValueError(f"version {version}, {count} entries announced, {len(lines)} present")
    except ValueError as error:
        raise CheckpointDamaged(f"{path}: {error}") from None
    return [line.split() for line in lines]


def read_offsets(path: Path, files: Files = REAL_FILES) -> dict[TopicPartition, int]:
    """Offsets by partition; none without a file or in an empty one. Raises CheckpointDamaged."""
    try:
        text = files.read_bytes(path)
    except FileNotFoundError:
        return {}
    if not text:
        return {}  # Kafka makes the files empty at start and fills them seconds later
    try:
        offsets = {
            (intern(topic), int(partition)): int(offset)
            for topic, partition, offset in parse_checkpoint(path, text)
        }
    except ValueError as error:
        raise CheckpointDamaged(f"{path}: {error}") from None
    if min(offsets.values(), default=0) < 0:
        raise CheckpointDamaged(f"{path}: a negative offset")
    return offsets


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return format_checkpoint(
        f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())
    )
