"""What a log directory remembers of its partitions across restarts, and when it is written.

```
recovery-point-offset-checkpoint     below it everything was flushed
log-start-offset-checkpoint          where the log starts, if that is above 0
replication-offset-checkpoint        the high watermark
cleaner-offset-checkpoint            below it the log is compacted
written-logs-checkpoint              ours: the logs that this process wrote to, with their recovery points
```

Source: Kafka's `OffsetCheckpointFile`, `LogManager.checkpointLogRecoveryOffsets`, `LogCleanerManager`. Each line is
`TOPIC PARTITION OFFSET`, see `log/disk/checkpoints.py`. The last one is a hint only: what is in it is
recovered at the start after a crash, everything else when it is opened; Kafka does not know it. A file that is damaged
is forgotten as a whole, and nothing is guessed: without recovery points everything is checked, without log starts the
first segment's base counts, without high watermarks they are learnt from the ISR, without cleaner offsets cleaning
begins at the log's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from log.disk.atomic_file import write_atomically
from log.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    WRITTEN_LOGS,
    CheckpointDamaged,
    TopicPartition,
    format_offsets,
    read_offsets,
)
from log.disk.files import Files
from log.disk.health import DirectoryHealth


@dataclass(frozen=True, slots=True)
class CollectedCheckpoints:
    """Checkpoint files as of one moment on the loop."""

    truncations: int
    files: Mapping[str, Mapping[TopicPartition, int]]
    forgotten: frozenset[TopicPartition]


class OffsetCheckpoints:
    """The offsets in memory and the files behind them. `damaged` says what could not be read, for the log."""

    def __init__(self, directory: Path, files: Files, health: DirectoryHealth) -> None:
        """Reads the files. Raises OSError."""
        self.damaged: list[str] = []
        self._directory = directory
        self._files = files
        self._health = health
        self._writing = Lock()  # held while one file is written
        self._truncations = 0  # a checkpoint collected before one must not be written after it
        # Of partitions that are gone, in the files still; at most those deleted between two checkpoints.
        self._forgotten: set[TopicPartition] = set()
        self.recovery_points = self._read(RECOVERY_POINTS)
        self.log_starts = self._read(LOG_START_OFFSETS)
        self.high_watermarks = self._read(HIGH_WATERMARKS)
        self.cleaner_offsets = self._read(CLEANER_OFFSETS)
        self.written_logs = set(self._read(WRITTEN_LOGS))
        self._live = {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            HIGH_WATERMARKS: self.high_watermarks,
            CLEANER_OFFSETS: self.cleaner_offsets,
        }
        self._saved: dict[str, int] = {}  # hash of what a file holds

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._directory / name, self._files)
        except CheckpointDamaged as damage:
            self.damaged.append(str(damage))
            return {}

    def forget(self, key: TopicPartition) -> None:
        """The partition is gone; the files say so when they are written next, or before there is another
        of that name.
        """
        for offsets in self._live.values():
            if offsets.pop(key, 0) > 0:
                self._forgotten.add(key)

    def begin(self, key: TopicPartition) -> None:
        """A new partition takes the name: after a crash the offsets of the old one would look like lost data.

        Blocks only if the name is in the files. Raises KafkaError.
        """
        self.forget(key)
        if key not in self._forgotten:
            return
        with self._writing, self._health.guard(f"writing checkpoints for {key[0]}-{key[1]}"):
            self._truncations += 1
            for name, offsets in self._live.items():
                self._save(name, _text(name, offsets))
            self._forgotten.clear()

    def collect(
        self,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
        written_logs: Iterable[TopicPartition] = (),
    ) -> CollectedCheckpoints:
        """What `write` writes, copied on the loop so that a thread can write it."""
        self.high_watermarks.update(high_watermarks or {})
        files = {
            WRITTEN_LOGS: {key: self.recovery_points.get(key, 0) for key in written_logs},
            RECOVERY_POINTS: self.recovery_points.copy(),
            LOG_START_OFFSETS: self.log_starts.copy(),
        }
        if high_watermarks is not None:
            files[HIGH_WATERMARKS] = self.high_watermarks.copy()
        if self._forgotten:
            files[CLEANER_OFFSETS] = self.cleaner_offsets.copy()
        return CollectedCheckpoints(self._truncations, files, frozenset(self._forgotten))

    def write(self, collected: CollectedCheckpoints) -> bool:
        """Blocks; for a thread. What a file holds already is not written again, nor offsets older than a truncation or
        a deleted namesake.

        Returns:
            Whether all are durable now.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        all_written = True
        for name, offsets in collected.files.items():
            text = _text(name, offsets)
            with self._writing, self._health.guard(f"writing {name}"):
                is_old = name != WRITTEN_LOGS and collected.truncations != self._truncations
                all_written &= not is_old
                if not is_old:
                    self._save(name, text)
        if all_written and HIGH_WATERMARKS in collected.files:
            with self._writing:
                self._forgotten -= collected.forgotten
        return all_written

    def _save(self, name: str, text: bytes) -> None:
        if self._saved.get(name) == hash(text):
            return
        self._saved.pop(name, None)
        write_atomically(self._directory / name, text, self._files)
        self._saved[name] = hash(text)

    def lower_recovery_point(self, key: TopicPartition, offset: int) -> None:
        """A checkpoint above the log's end would look like lost data after a crash: it is lowered before bytes go."""
        if self.cleaner_offsets.get(key, 0) > offset:
            self.cleaner_offsets[key] = offset
        if self.log_starts.get(key, 0) > offset:  # the log begins anew, before where it began
            self._lower(LOG_START_OFFSETS, key, offset)
        if self.recovery_points.get(key, 0) <= offset:
            return
        self._lower(RECOVERY_POINTS, key, offset)

    def _lower(self, name: str, key: TopicPartition, offset: int) -> None:
        offsets = self._live[name]
        offsets[key] = offset
        with self._writing, self._health.guard(f"writing {name}"):
            self._truncations += 1
            self._save(name, _text(name, offsets))

    def save_cleaner_offsets(self, cleaned: Mapping[TopicPartition, int]) -> None:
        """Notes how far logs are compacted now. Blocks. Raises KafkaError."""
        self.cleaner_offsets.update(cleaned)
        with self._writing, self._health.guard(f"writing {CLEANER_OFFSETS}"):
            self._save(CLEANER_OFFSETS, _text(CLEANER_OFFSETS, self.cleaner_offsets))


def _text(name: str, offsets: Mapping[TopicPartition, int]) -> bytes:
    """What the file holds: of log starts only those above 0."""
    if name == LOG_START_OFFSETS:
        offsets = {key: offset for key, offset in offsets.items() if offset > 0}
    return format_offsets(offsets)
