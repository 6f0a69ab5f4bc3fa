"""Bugs of flushes: flushes by the kernel, and failed flushes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from outcome import Outcome

from tests.simulation.here import patched_here
from tests.simulation.mutants.mutant import both
from tests.simulation.partitions.mutants.leaders import SAFETY
from trimaran.log.durability import group_commit
from trimaran.log.durability.flush import Flush, Flushing
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.log.partitions.local_log import LocalLog

Patch = AbstractContextManager[Any]


def _told_when_it_begins() -> Patch:
    real = group_commit.begin

    def begin(
        flushes: Sequence[Any], then: Callable[[], object], ended: Callable[[Outcome[Any]], object]
    ) -> bool:
        if not real(flushes, lambda: None, ended):
            return False
        for flush in flushes:
            flush.done = True
        then()
        return True

    return patched_here(group_commit, "begin", begin)


def _names_are_left_to_the_kernel() -> Patch:
    """The kernel syncs only files, not names."""

    def descriptors(self: Flush) -> list[int] | None:
        return (
            [open_file.fileno() for open_file in self.open_files]
            if self.files.kernel_syncs
            else None
        )

    def needs_only_a_sync(self: Flushing, _active: object) -> bool:
        return self._files.kernel_syncs

    return both(
        mock.patch.object(Flush, "descriptors", descriptors),
        mock.patch.object(Flushing, "needs_only_a_sync", needs_only_a_sync),
    )


def _what_came_meanwhile_is_flushed_too() -> Patch:
    real = LocalLog.finish_flush

    def finish(self: LocalLog, flush: Flush) -> int:
        flush.end_offset = self.log_end_offset
        return real(self, flush)

    return mock.patch.object(LocalLog, "finish_flush", finish)


def _what_came_meanwhile_waits_for_ever() -> Patch:
    real = GroupCommit._ended

    def ended(self: GroupCommit, dirty: Any, result: Outcome[object]) -> None:
        with mock.patch.object(GroupCommit, "_wake"):
            real(self, dirty, result)

    return mock.patch.object(GroupCommit, "_ended", ended)


def _another_begins_meanwhile() -> Patch:
    """A flush is begun although another flush of the log is in progress."""

    def wanted(self: GroupCommit, dirty: Any) -> None:
        self._dirty[id(dirty.log)] = dirty
        if not self._begin(dirty):
            self._wake()

    return mock.patch.object(GroupCommit, "_wanted", wanted)


def _kernel_errors_are_ignored() -> Patch:
    real = Flush.synced
    return mock.patch.object(Flush, "synced", lambda self, _error: real(self, None))


def _failed_flush_is_repeated() -> Patch:
    """The pages are clean by then, so the second fsync succeeds (PostgreSQL had this bug for twenty years)."""
    real = Flush.run

    def run(self: Flush) -> None:
        try:
            real(self)
        except OSError:
            self.health.offline = None
            real(self)

    return mock.patch.object(Flush, "run", run)


FLUSHES = (
    ("flush is reported when it begins", _told_when_it_begins, ("P6", "P1", "P5", "L1")),
    ("names are left to the kernel", _names_are_left_to_the_kernel, ("P6", *SAFETY, "P10", "L1")),
    ("later appends count as flushed", _what_came_meanwhile_is_flushed_too, ("P6", *SAFETY, "L1")),
    ("later appends wait forever", _what_came_meanwhile_waits_for_ever, ("L1",)),
    ("kernel errors are ignored", _kernel_errors_are_ignored, ("P6", *SAFETY, "L1")),
    ("failed flush is repeated", _failed_flush_is_repeated, ("P6", *SAFETY, "L1")),
    ("another flush begins meanwhile", _another_begins_meanwhile, ("P6", "KeyError", *SAFETY)),
)
