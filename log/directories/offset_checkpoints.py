"""The offsets that a log directory remembers across restarts, and the time of writing them.

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
is forgotten as a whole, said so, and nothing is guessed:

- without recovery points everything is checked;
- log starts are those of the leader epochs (`noted_start`), as deleted records would be served again;
- without high watermarks they are learnt from the ISR, as by a replica that is new;
- without cleaner offsets cleaning begins at the log's start.

Without the first or the last of them a gap between segments counts as compaction's: it could be, and what lies behind a
gap that is not would be removed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    WRITTEN_LOGS,
    CheckpointDamaged,
    format_offsets,
    read_offsets,
)
from trimaran.log.disk.files import Files, is_of_name
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.disk.small_file import FileDamaged
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.segments.recovery import offsets_of
from trimaran.log.segments.scan import scan_headers
from trimaran.log.segments.segment import LOG_SUFFIX, file_name
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.text import events

log = logging.getLogger(__name__)

OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CollectedCheckpoints:
    """Checkpoint files as of one moment on the loop."""

    truncations: int
    files: Mapping[str, Mapping[TopicPartition, Offset]]
    forgotten: frozenset[TopicPartition]


class OffsetCheckpoints:
    """The offsets in memory and the files behind them; `damaged` are the names of those that could not be read."""

    def __init__(
        self,
        directory: Path,
        files: Files,
        health: DirectoryHealth,
        partitions: Collection[TopicPartition] = (),
    ) -> None:
        """Reads the files; `partitions` are those that have a directory here, as they come and go. Raises OSError."""
        self.damaged: set[str] = set()
        self._partitions = partitions
        self._directory = directory
        self._files = files
        self._health = health
        self._writing = Lock()  # held while one file is written
        self._truncations = 0  # a checkpoint collected before one must not be written after it
        # Partitions that are gone, in the files still; at most those deleted between two checkpoints.
        self._forgotten: set[TopicPartition] = set()
        # The files that a thread writes, since offsets in them were lowered.
        self._being_lowered: dict[TopicPartition, set[str]] = {}
        # Kafka fills all but the cleaner's within seconds; none of ours is ever empty.
        may_be_empty = not partitions
        self.recovery_points = self._read(RECOVERY_POINTS, may_be_empty=may_be_empty)
        self.log_starts = self._read(LOG_START_OFFSETS, may_be_empty=may_be_empty)
        self.high_watermarks = self._read(HIGH_WATERMARKS, may_be_empty=may_be_empty)
        self.cleaner_offsets = self._read(CLEANER_OFFSETS)
        self.written_logs = self._read(WRITTEN_LOGS)  # as it was at the start
        self._live = {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            HIGH_WATERMARKS: self.high_watermarks,
            CLEANER_OFFSETS: self.cleaner_offsets,
        }
        self._saved: dict[str, int] = {}  # hash of what a file holds
        if LOG_START_OFFSETS in self.damaged:
            self._restore_log_starts(partitions)

    def _read(self, name: str, *, may_be_empty: bool = True) -> dict[TopicPartition, Offset]:
        try:
            return read_offsets(self._directory / name, self._files, may_be_empty=may_be_empty)
        except CheckpointDamaged as damage:
            events.LOG_DIRECTORY_FILE_DAMAGED.log(log, error=damage)
            self.damaged.add(name)
            return {}

    def _restore_log_starts(self, partitions: Iterable[TopicPartition]) -> None:
        """All at once: the file is written again before a missing entry is taken for 0."""
        for partition in partitions:
            try:
                start = noted_start(self._directory / str(partition), self._files)
            except OSError as error:
                if not is_of_name(error):
                    raise
                continue  # such a log cannot be opened either
            if start > 0:
                self.log_starts[partition] = start
        self._save(LOG_START_OFFSETS, _text(LOG_START_OFFSETS, self.log_starts))

    def cleaned_to(self, key: TopicPartition) -> int:
        """Below it compaction may have left gaps between segments: anywhere, when what says so is damaged."""
        if self.damaged & {RECOVERY_POINTS, CLEANER_OFFSETS}:
            return OFFSET_MAX
        return self.cleaner_offsets.get(key, 0)

    def forget(self, key: TopicPartition) -> None:
        """The partition is gone; the files say so when they are written next, or before there is another
        of that name.
        """
        for offsets in self._live.values():
            if offsets.pop(key, 0) > 0:
                self._forgotten.add(key)

    def miss_nothing(self) -> None:
        """High watermarks without a directory are of partitions that were deleted after the file was written."""
        for key in self.high_watermarks.keys() - self._partitions:
            del self.high_watermarks[key]

    def expect(self, key: TopicPartition) -> None:
        """A new partition has the name, and may get its directory much later, in another process: until then the high
        watermark of an older one would look like lost data.
        """
        if key not in self._partitions:
            self.high_watermarks.pop(key, None)

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
        high_watermarks: Mapping[TopicPartition, Offset] | None = None,
        written_logs: Iterable[TopicPartition] = (),
    ) -> CollectedCheckpoints:
        """What `write` writes, copied on the loop so that a thread can write it."""
        self.high_watermarks.update(high_watermarks or {})
        files = {
            WRITTEN_LOGS: {key: self.recovery_points.get(key, Offset(0)) for key in written_logs},
            RECOVERY_POINTS: self.recovery_points.copy(),
            LOG_START_OFFSETS: self.log_starts.copy(),
        }
        if high_watermarks is not None:
            files[HIGH_WATERMARKS] = self.high_watermarks.copy()
        if self._forgotten:
            files[CLEANER_OFFSETS] = self.cleaner_offsets.copy()
        return CollectedCheckpoints(self._truncations, files, frozenset(self._forgotten))

    def write(self, collected: CollectedCheckpoints) -> bool:
        """Blocks; for a thread. Offsets that a file has already are not written again, nor offsets older than a
        truncation or a deleted namesake.

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

    def note_log_start(self, key: TopicPartition, offset: Offset) -> None:
        """Writes the start of a moved replica before it takes the name: its first batch may hold deleted records, and
        only the checkpoint of its old directory has their end. Blocks if `offset` is above 0. Raises KafkaError.
        """
        self.log_starts[key] = offset
        if offset > 0:
            with self._writing, self._health.guard(f"writing {LOG_START_OFFSETS}"):
                self._truncations += 1
                self._save(LOG_START_OFFSETS, _text(LOG_START_OFFSETS, self.log_starts))

    def lower_recovery_point(self, key: TopicPartition, offset: Offset) -> None:
        """A checkpoint above the log's end would look like lost data after a crash: it is lowered before bytes go.

        Writes files of all partitions, unless `begin_lowering` has seen to that.
        """
        for name in self._lower(key, offset) | self._being_lowered.pop(key, set()):
            with self._writing, self._health.guard(f"writing {name}"):
                self._truncations += 1
                self._save(name, _text(name, self._live[name]))

    def begin_lowering(
        self, points: Mapping[TopicPartition, Offset]
    ) -> CollectedCheckpoints | None:
        """As `lower_recovery_point` of several, to be written by `write`, in a thread: again with what
        `collect_lowered` gives where it returns False. None: nothing is to be written. `end_lowering` follows.
        """
        for key, offset in points.items():
            if lowered := self._lower(key, offset):
                self._being_lowered[key] = lowered | self._being_lowered.get(key, set())
        if not self._being_lowered:
            return None
        self._truncations += 1
        return self.collect_lowered()

    def collect_lowered(self) -> CollectedCheckpoints:
        """Returns the present content for `write`."""
        names = set[str]().union(*self._being_lowered.values())
        files = {name: self._live[name].copy() for name in sorted(names)}
        return CollectedCheckpoints(self._truncations, files, frozenset())

    def end_lowering(self, points: Iterable[TopicPartition]) -> None:
        """Notes that the lowered offsets are durable."""
        for key in points:
            self._being_lowered.pop(key, None)

    def _lower(self, key: TopicPartition, offset: Offset) -> set[str]:
        """In memory; returns the files that do not say so yet."""
        lowered = set()
        # The start is lowered when the log begins again below it; the watermark and the cleaner's offset, which is
        # below the watermark, after an unclean election.
        for name in (LOG_START_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS, CLEANER_OFFSETS):
            if self._live[name].get(key, 0) > offset:
                self._live[name][key] = offset
                lowered.add(name)
        return lowered

    def collect_cleaned(self, cleaned: Mapping[TopicPartition, Offset]) -> CollectedCheckpoints:
        """Notes on the loop how far logs are compacted now, for `write`."""
        self.cleaner_offsets.update(cleaned)
        files = {CLEANER_OFFSETS: self.cleaner_offsets.copy()}
        return CollectedCheckpoints(self._truncations, files, frozenset())


def _text(name: str, offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """The content of the file: of log starts only those above 0."""
    if name == LOG_START_OFFSETS:
        offsets = {key: offset for key, offset in offsets.items() if offset > 0}
    return format_offsets(offsets)


def noted_start(directory: Path, files: Files) -> Offset:
    """The start of the log in `directory` by its leader epochs; 0 where they do not say. Blocks. Raises OSError."""
    try:
        epochs = LeaderEpochs.read(directory, files)
    except FileDamaged:
        return Offset(0)
    if epochs is None or not epochs.entries() or _begins_without_epoch(directory, files):
        return Offset(0)
    return epochs.entries()[0][1]


def _begins_without_epoch(directory: Path, files: Files) -> bool:
    """Before the first entry there may be records of an old format, which have no epoch."""
    for base in offsets_of(directory, LOG_SUFFIX, files):
        file = files.open(directory / file_name(base, LOG_SUFFIX), write=False)
        for _, view in scan_headers(files, file, 0, files.size(file)):
            return view.leader_epoch < 0
    return False
