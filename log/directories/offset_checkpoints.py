"""The offsets that a log directory keeps across restarts, and the rules for writing them.

```
recovery-point-offset-checkpoint all records below it were flushed
log-start-offset-checkpoint the start of the log, if that is above 0
replication-offset-checkpoint        the high watermark
cleaner-offset-checkpoint            below it the log is compacted
written-logs-checkpoint (ours) the logs to which this process wrote, with their recovery points
```

Source: Kafka's `OffsetCheckpointFile`, `LogManager.checkpointLogRecoveryOffsets`, `LogCleanerManager`. Each line is
`TOPIC PARTITION OFFSET`, see `log/disk/checkpoints.py`. The last file is only a hint: its logs are recovered at the
start after a crash, all others when they are opened; Kafka ignores this file. A damaged file is ignored as a whole,
which is logged, and nothing is guessed:

- without recovery points everything is checked;
- log starts are those of the leader epochs (`noted_start`), because otherwise deleted records would be served again;
- high watermarks are obtained from the ISR, as for a new replica;
- without cleaner offsets cleaning begins at the log's start.

Without the first or the last of them a gap between segments counts as caused by compaction: it may be, and otherwise
the records after it would be removed.
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
    """The contents of checkpoint files at one moment on the loop."""

    truncations: int
    files: Mapping[str, Mapping[TopicPartition, Offset]]
    forgotten: frozenset[TopicPartition]


class OffsetCheckpoints:
    """The offsets in memory and their files; `damaged` has the names of the files that could not be read."""

    def __init__(
        self,
        directory: Path,
        files: Files,
        health: DirectoryHealth,
        partitions: Collection[TopicPartition] = (),
    ) -> None:
        """Reads the files; `partitions` is the live set of those with a directory here. Raises OSError."""
        self.damaged: set[str] = set()
        self._partitions = partitions
        self._directory = directory
        self._files = files
        self._health = health
        self._writing = Lock()  # held while one file is written
        self._truncations = 0  # a checkpoint collected before one is not written after it
        # Deleted partitions that are still in the files; at most those deleted between two checkpoints.
        self._forgotten: set[TopicPartition] = set()
        # The files that a thread is writing because offsets in them were lowered.
        self._being_lowered: dict[TopicPartition, set[str]] = {}
        # Kafka fills all of them, except that of the cleaner, within seconds; our files are never empty.
        may_be_empty = not partitions
        self.recovery_points = self._read(RECOVERY_POINTS, may_be_empty=may_be_empty)
        self.log_starts = self._read(LOG_START_OFFSETS, may_be_empty=may_be_empty)
        self.high_watermarks = self._read(HIGH_WATERMARKS, may_be_empty=may_be_empty)
        self.cleaner_offsets = self._read(CLEANER_OFFSETS)
        self.written_logs = self._read(WRITTEN_LOGS)  # as at startup
        self._live = {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            HIGH_WATERMARKS: self.high_watermarks,
            CLEANER_OFFSETS: self.cleaner_offsets,
        }
        self._saved: dict[str, int] = {}  # hashes of the files' contents
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
        """Restores all log starts in one step: the file is rewritten before a missing entry counts as 0."""
        for partition in partitions:
            try:
                start = noted_start(self._directory / str(partition), self._files)
            except OSError as error:
                if not is_of_name(error):
                    raise
                continue  # in that case the log cannot be opened either
            if start > 0:
                self.log_starts[partition] = start
        self._save(LOG_START_OFFSETS, _text(LOG_START_OFFSETS, self.log_starts))

    def cleaned_to(self, key: TopicPartition) -> int:
        """Returns the offset below which compaction may have left gaps between segments: the largest one if the file is
        damaged.
        """
        if self.damaged & {RECOVERY_POINTS, CLEANER_OFFSETS}:
            return OFFSET_MAX
        return self.cleaner_offsets.get(key, 0)

    def forget(self, key: TopicPartition) -> None:
        """Forgets a deleted partition; the files are updated when they are written next, or before another partition
        gets the name.
        """
        for offsets in self._live.values():
            if offsets.pop(key, 0) > 0:
                self._forgotten.add(key)

    def miss_nothing(self) -> None:
        """Drops high watermarks without a directory, which belong to partitions deleted after the file was written."""
        for key in self.high_watermarks.keys() - self._partitions:
            del self.high_watermarks[key]

    def expect(self, key: TopicPartition) -> None:
        """Drops the high watermark of an older partition of the same name. The new one may get its directory much
        later, in another process: until then the old high watermark would look like lost data.
        """
        if key not in self._partitions:
            self.high_watermarks.pop(key, None)

    def begin(self, key: TopicPartition) -> None:
        """Removes the offsets of an older partition of the same name: after a crash they would look like lost data.

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
        """Copies the contents for `write` on the loop, so that a thread can write them."""
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
        """Writes the files. Blocks, so it runs in a thread. Unchanged files are not rewritten, nor are offsets older
        than a truncation or a deleted namesake written.

        Returns:
            Whether all offsets are durable now.

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
        """Lowers a checkpoint before bytes are removed: a checkpoint above the log's end would look like lost data
        after a crash.

        It writes files of all partitions, unless `begin_lowering` has done so.
        """
        for name in self._lower(key, offset) | self._being_lowered.pop(key, set()):
            with self._writing, self._health.guard(f"writing {name}"):
                self._truncations += 1
                self._save(name, _text(name, self._live[name]))

    def begin_lowering(
        self, points: Mapping[TopicPartition, Offset]
    ) -> CollectedCheckpoints | None:
        """Lowers several recovery points as `lower_recovery_point` does, and returns the contents for `write`, in a
        thread; if that returns False, it is repeated with the result of `collect_lowered`. Returns None if there is
        nothing to write. `end_lowering` follows.
        """
        for key, offset in points.items():
            if lowered := self._lower(key, offset):
                self._being_lowered[key] = lowered | self._being_lowered.get(key, set())
        if not self._being_lowered:
            return None
        self._truncations += 1
        return self.collect_lowered()

    def collect_lowered(self) -> CollectedCheckpoints:
        """Returns the current contents for `write`."""
        names = set[str]().union(*self._being_lowered.values())
        files = {name: self._live[name].copy() for name in sorted(names)}
        return CollectedCheckpoints(self._truncations, files, frozenset())

    def end_lowering(self, points: Iterable[TopicPartition]) -> None:
        """Notes that the lowered offsets are durable."""
        for key in points:
            self._being_lowered.pop(key, None)

    def _lower(self, key: TopicPartition, offset: Offset) -> set[str]:
        """Lowers the offsets in memory; returns the files that must be rewritten."""
        lowered = set()
        # The start is lowered when the log restarts below it; the watermark, and the cleaner's offset below it, are
        # lowered after an unclean election.
        for name in (LOG_START_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS, CLEANER_OFFSETS):
            if self._live[name].get(key, 0) > offset:
                self._live[name][key] = offset
                lowered.add(name)
        return lowered

    def collect_cleaned(self, cleaned: Mapping[TopicPartition, Offset]) -> CollectedCheckpoints:
        """Collects the current offsets up to which logs are compacted, on the loop, for `write`."""
        self.cleaner_offsets.update(cleaned)
        files = {CLEANER_OFFSETS: self.cleaner_offsets.copy()}
        return CollectedCheckpoints(self._truncations, files, frozenset())


def _text(name: str, offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """Returns the content of the file, with only those log starts that are above 0."""
    if name == LOG_START_OFFSETS:
        offsets = {key: offset for key, offset in offsets.items() if offset > 0}
    return format_offsets(offsets)


def noted_start(directory: Path, files: Files) -> Offset:
    """Returns the start of the log in `directory` by its leader epochs; 0 if they do not determine it. Blocks. Raises
    OSError.
    """
    try:
        epochs = LeaderEpochs.read(directory, files)
    except FileDamaged:
        return Offset(0)
    if epochs is None or not epochs.entries() or _begins_without_epoch(directory, files):
        return Offset(0)
    return epochs.entries()[0][1]


def _begins_without_epoch(directory: Path, files: Files) -> bool:
    """Whether records of an old format, which have no epoch, may precede the first entry."""
    for base in offsets_of(directory, LOG_SUFFIX, files):
        file = files.open(directory / file_name(base, LOG_SUFFIX), write=False)
        for _, view in scan_headers(files, file, 0, files.size(file)):
            return view.leader_epoch < 0
    return False
