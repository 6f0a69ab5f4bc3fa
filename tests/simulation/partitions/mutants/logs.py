"""Bugs of the log and of its durability."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation.partitions.mutants.leaders import SAFETY
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories import directory as directory_module
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.offset_checkpoints import OffsetCheckpoints
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.durability.flush import Flush, Flushing
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.producers.manager import ProducerStateManager
from trimaran.log.producers.state import ProducerState

Patch = AbstractContextManager[Any]


def _names_are_not_flushed() -> Patch:
    """KAFKA-3968: a new segment vanishes."""
    return mock.patch.object(Flush, "_write_names", return_value=None)


def _bytes_are_not_flushed() -> Patch:
    def run(self: Flush) -> None:
        self._write_names()
        self.done = True

    return mock.patch.object(Flush, "run", run)


def _append_is_reported_before_its_flush() -> Patch:
    def mark(
        _self: GroupCommit, log: Any, on_flushed: Any, _written: int = 0, **_how: bool
    ) -> None:
        log._flushing.flushed_offset = log.log_end_offset
        on_flushed(log.log_end_offset)

    return mock.patch.object(GroupCommit, "mark_dirty", mark)


def _flushed_survives_a_truncation() -> Patch:
    return mock.patch.object(Flushing, "lower", return_value=None)


def _a_flush_under_way_survives_a_truncation() -> Patch:
    def lower(self: Flushing, offset: int) -> None:
        self.touched = True
        self.flushed_offset = min(self.flushed_offset, offset)

    return mock.patch.object(Flushing, "lower", lower)


def _every_start_is_clean() -> Patch:
    """KAFKA-10471, KAFKA-15375: the clean-shutdown marker is there although the process died."""
    return mock.patch.object(LogDirectory, "clean_shutdown", property(lambda _: True))


def _the_clean_marker_stays() -> Patch:
    def take(path: Any, files: Any) -> int | None:
        try:
            return int(
                files.read_bytes(path / ".kafka_cleanshutdown")
                .decode()
                .split(":")[-1]
                .strip('}" \n')
            )
        except (OSError, ValueError):
            return None

    return mock.patch.object(directory_module, "take_marker", take)


def _recovery_point_stays_when_it_is_cut() -> Patch:
    return mock.patch.object(OffsetCheckpoints, "_lower", return_value=set())


def _recovery_point_is_the_end() -> Patch:
    def note(self: LogDirectory, key: Any, log: Any) -> None:
        self.offsets.recovery_points[key] = log.log_end_offset
        self.offsets.log_starts[key] = log.log_start_offset

    return mock.patch.object(LogDirectory, "_note_offsets", note)


def _epochs_survive_a_truncation() -> Patch:
    return mock.patch.object(LeaderEpochs, "truncate_from_end", return_value=None)


def _epochs_are_of_the_first() -> Patch:
    """Later epochs are not recorded."""
    real = LeaderEpochs.assign

    def assign(self: LeaderEpochs, epoch: int, offset: int) -> Any:
        return real(self, epoch, offset) if self.latest_epoch < 0 else None

    return mock.patch.object(LeaderEpochs, "assign", assign)


def _producers_survive_a_truncation() -> Patch:
    """I3."""

    def truncate(self: ProducerStateManager, offset: int) -> None:
        if self.state is not None:
            self.state.end_offset = offset

    return mock.patch.object(ProducerStateManager, "truncate", truncate)


def _duplicates_are_appended() -> Patch:
    return mock.patch.object(ProducerState, "validate", return_value=None)


def _retention_passes_the_watermark() -> Patch:
    """KAFKA-5634."""
    real = PartitionLog.apply_retention

    def apply(self: PartitionLog, now_ms: int, _high: int, *segments_max: int) -> int:
        return real(self, now_ms, self.log_end_offset, *segments_max)

    return mock.patch.object(PartitionLog, "apply_retention", apply)


def _a_namesake_s_log_is_opened() -> Patch:
    """KAFKA-16157: topic ids are not compared."""
    return mock.patch.object(LogDirectory, "is_of", return_value=True)


def _deletion_forgets_the_log() -> Patch:
    """A deleted topic's directory keeps its name."""
    return mock.patch.object(LogDirectories, "delete_log", return_value=None)


LOGS = (
    ("names are not flushed", _names_are_not_flushed, ("P6", "P1", "P5", "P10", "L1")),
    ("bytes are not flushed", _bytes_are_not_flushed, ("P6", "P1", "P5", "L1")),
    (
        "append is reported before its flush",
        _append_is_reported_before_its_flush,
        ("P6", "P1", "P5", "L1"),
    ),
    ("flushed survives a truncation", _flushed_survives_a_truncation, ("P6", *SAFETY, "L1")),
    ("a flush survives a truncation", _a_flush_under_way_survives_a_truncation, ("P6", *SAFETY)),
    ("every start is clean", _every_start_is_clean, ("P6", *SAFETY, "P10", "L1")),
    ("the clean marker stays", _the_clean_marker_stays, ("P6", *SAFETY, "P10", "L1")),
    ("recovery point stays", _recovery_point_stays_when_it_is_cut, ("P6", *SAFETY, "L1", "P10")),
    ("recovery point is the end", _recovery_point_is_the_end, ("P6", *SAFETY, "L1", "P10")),
    ("epochs survive a truncation", _epochs_survive_a_truncation, ("P10", *SAFETY, "L1")),
    ("only the first epoch is noted", _epochs_are_of_the_first, ("P10", *SAFETY, "L1")),
    (
        "producers survive a truncation",
        _producers_survive_a_truncation,
        ("I1", "P5", "T3", "T8", "L1"),
    ),
    ("duplicates are appended", _duplicates_are_appended, ("I1", "P8")),
    ("retention passes the watermark", _retention_passes_the_watermark, ("P13", "P1", "P5", "P8")),
    ("a namesake's log is opened", _a_namesake_s_log_is_opened, ("P14", "P8", "P10", "P1", "L1")),
    ("deletion forgets the log", _deletion_forgets_the_log, ("P14", "P8", "P10", "L1")),
)
