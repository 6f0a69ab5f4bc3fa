"""Planted bugs: each must be found by a life or a damage, otherwise the crash tests are useless. A mutant is a function
whose text is changed in one place. Most are real bugs, of this project or of Apache Kafka.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import trimaran.log.partitions.opening
import trimaran.log.partitions.partition_log
import trimaran.log.producers.snapshots
from tests.log.crash.damage import try_damages
from tests.log.crash.run import Tally, run_seed
from trimaran.log.compaction.cleaning import Round
from trimaran.log.directories import directory, offset_checkpoints
from trimaran.log.durability.flush import Flush, Flushing
from trimaran.log.partitions.local_log import LocalLog
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.segments import recovery
from trimaran.log.segments.segments import Segments
from trimaran.log.segments.transaction_index import TransactionIndex

SEEDS = 60  # lives tried until one finds the bug
SHARE = 0.12
STRIDE = 7


class Mutant(NamedTuple):
    """`old` in the function `name` of `owner` becomes `new`."""

    what: str
    owner: Any
    name: str
    old: str
    new: str

    def planted(self) -> AbstractContextManager[Any]:
        function = getattr(self.owner, self.name)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.what}: the text is not there once"
        found: dict[str, Any] = {}
        text = "from __future__ import annotations\n" + source.replace(self.old, self.new)
        exec(compile(text, self.what, "exec"), function.__globals__, found)
        return mock.patch.object(self.owner, self.name, found[self.name])


MUTANTS = [
    Mutant("a new segment's directory is not synced (KAFKA-3968)", Flush, "_write_names",
           "self.files.fsync_directory(directory)", "pass"),
    Mutant("only the active segment is synced", LocalLog, "prepare_flush",
           "self._segments.since(self.flushed_offset - 1)", "[self._segments.active]"),
    Mutant("a segment sealed after its last flush is not synced", LocalLog, "prepare_flush",
           "self.flushed_offset - 1", "self.flushed_offset"),
    Mutant("epochs are not saved by a flush", Flushing, "prepare",
           "flush.epochs = self.unsaved_epochs()", "flush.epochs = None"),
    Mutant("recovery points ahead of the flush", directory.LogDirectory, "_note_offsets",
           "log.flushed_offset", "log.log_end_offset"),
    Mutant("the flushed offset moves when the flush begins", Flushing, "prepare",
           "self._running.append(flush)", "self._running.append(flush); self.flushed_offset = end_offset"),
    Mutant("recovery points are not lowered before a truncation", PartitionLog, "_lower_recovery_point",
           "self.before_truncate(offset)", "pass"),
    Mutant("a checkpoint is renamed before it is synced", offset_checkpoints, "write_atomically",
           "files.fdatasync(file)", "pass"),
    Mutant("a checkpoint's name is not synced", offset_checkpoints, "write_atomically",
           "files.fsync_directory(path.parent)", "pass"),
    Mutant("the flushed part is cut too", trimaran.log.partitions.partition_log, "load_log",
           "segments = list_segments(directory, files)", "recovery_point = 0; segments = list_segments(directory, files)"),
    Mutant("the CRC is not checked", trimaran.log.partitions.opening, "recover_segment",
           "not crc_is_valid(files, file, position, view)", "False"),
    Mutant("segments behind a hole are kept", trimaran.log.partitions.opening, "_recover",
           "if segment.base_offset < before or has_hole:", "if segment.base_offset < before:"),
    Mutant("a truncation to a segment's end may be undone", trimaran.log.partitions.opening, "_recover",
           "bisect_right(bases, recovery_point - 1)", "bisect_right(bases, recovery_point)"),
    Mutant("unflushed aborts stay in the transaction index", trimaran.log.partitions.opening, "_recover",
           "segment.transaction_index.truncate_to(recovery_point)", "pass"),
    Mutant("producer snapshots above the recovery point are trusted", trimaran.log.partitions.opening, "_recover",
           "above=recovery_point", "above=1 << 62"),
    Mutant("aborts are not indexed again", trimaran.log.producers.snapshots, "_replay",
           "segment.transaction_index.append(aborted)", "pass"),
    Mutant("the active transaction index is not synced", Flushing, "_open_files",
           "elif segment.transaction_index.changed:", "elif False:"),
    Mutant("a zeroed abort is one", TransactionIndex, "_entries_from",
           "entry.first_offset < entry.last_offset > before", "entry.first_offset <= entry.last_offset > before"),
    Mutant("the topic id is not synced", Flushing, "_identity",
           "return [self._files.open(self._directory / PARTITION_METADATA, write=False)]", "return []"),
    Mutant("a directory that was found is taken for durable", Flushing, "__init__",
           "self._directory_is_durable = False", "self._directory_is_durable = True; self._names_version = 0"),
    Mutant("the clean marker stays (KAFKA-10471)", directory, "take_marker",
           "files.unlink(path)", "pass"),
    Mutant("the clean marker is written before the logs are closed", directory.LogDirectory, "close",
           "close_logs(self", "clean and write_marker(self.path, 1, self._files); close_logs(self"),
    Mutant("a cleaned segment is not synced", Round, "_sync",
           "self.files.fdatasync(file)", "pass"),
    Mutant("an interrupted swap is dropped (KAFKA-12520)", recovery, "_complete_swaps",
           "if base is None:", "if True:"),
    Mutant("the new transaction index of a swapped segment is taken for the old one", recovery, "_complete_swaps",
           "base if file_name(base, LOG_SUFFIX) in names else base + 1", "base"),
    Mutant("the old segment goes before the new one is complete", Segments, "replace",
           "self._rename_new(base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)", "pass"),
    Mutant("start offsets of epochs are believed after a crash", trimaran.log.partitions.opening, "_knows_start",
           "return view.leader_epoch < 0 or epochs.epoch_for(view.base_offset) >= 0", "return True"),
    Mutant("a moved replica's recovery point is guessed", directory.LogDirectory, "promote_future",
           "self.offsets.recovery_points[key] = end_offset", "self.offsets.recovery_points[key] = end_offset + 5"),
]  # fmt: skip


def hunt(root: Path) -> Iterator[tuple[str, str | None]]:
    """Returns each mutant, and what found it."""
    for number, mutant in enumerate(MUTANTS):
        yield mutant.what, find(mutant, root / f"mutant-{number}")


def find(mutant: Mutant, root: Path, *, seeds: int = SEEDS) -> str | None:
    """Returns the life or damage that found the mutant."""
    root.mkdir()
    with mutant.planted():
        try:
            _, failures = try_damages(root, stride=STRIDE)
            for seed in range(1, seeds + 1):
                if failures:
                    break
                tally = Tally()
                run_seed(seed, root, tally, share=SHARE, enough=1)
                failures = [f"life {seed}, {failure}" for failure in tally.failures]
        except Exception as error:  # noqa: BLE001 - the life itself met it
            return repr(error)
    return failures[0] if failures else None
