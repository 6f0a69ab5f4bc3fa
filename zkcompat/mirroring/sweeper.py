"""Deletes old change notes of the mirror and of other clients below all their roots.

As in Kafka, notes are kept for 15 minutes: a listener that has not read one by then reads the whole tree at its start
anyway. A pass ends when no old note is left, so notes cannot accumulate.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from trimaran.node.runtime.clock import now_ms
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.mirroring.tenure import StepRefusedError, Tenure
from trimaran.zkcompat.sections.notes import NOTE_ROOTS
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

log = logging.getLogger(__name__)

LIFETIME_MS = 15 * 60 * 1000
INTERVAL_SECONDS = 30.0
# The names of this many children are half of the response that an old client accepts: beyond it the oldest are deleted
# early.
NOTES_MAX = 10_000
IN_TRANSACTION = 200


@dataclass(slots=True)
class Sweeper:
    tenure: Tenure
    quarantine: Quarantine

    async def run(self) -> None:
        """Sweeps immediately, then at an interval."""
        while True:
            for root in NOTE_ROOTS:
                await self.sweep(root)
            await trio.sleep(INTERVAL_SECONDS)

    async def sweep(self, root: str) -> None:
        """Deletes the old notes below one root."""
        try:
            names = sorted(await self.tenure.keeper.children(root), key=_number)
            for start in range(0, len(names), IN_TRANSACTION):
                part = [f"{root}/{name}" for name in names[start : start + IN_TRANSACTION]]
                found = await self.tenure.keeper.read_many(part)
                limit = now_ms() - LIFETIME_MS
                too_many = len(names) - start > NOTES_MAX
                await self._delete(
                    [path for path, note in found.items() if too_many or _is_old(note, limit)]
                )
                if not too_many and any(_is_young(path, found[path], limit) for path in found):
                    return  # numbers ascend with time, so all further notes are younger
        except PathRefusedError as refused:
            self.quarantine.add(refused.path, "read", refused.reason)

    async def _delete(self, paths: Sequence[str]) -> None:
        steps = [TransactionStep("delete", path) for path in paths]
        while steps:
            try:
                await self.tenure.transact(steps)
            except StepRefusedError as refused:
                if refused.reason == "NoAuth":
                    parent = refused.step.path.rpartition("/")[0]
                    self.quarantine.add(parent, "children", refused.reason)
                    return
                del steps[refused.index]  # The note is gone, or has children.
            else:
                return


def _is_old(note: FoundZnode, limit_ms: int) -> bool:
    return not note.refusal and note.created_ms < limit_ms


def _is_young(path: str, note: FoundZnode, limit_ms: int) -> bool:
    """True for a young note with a number: all later notes are then young, too."""
    return not note.refusal and note.created_ms >= limit_ms and _number(path)[0] >= 0


def _number(name: str) -> tuple[int, str]:
    """Returns the sort key: notes of several prefixes share a root's counter."""
    digits = name[-10:]
    return (int(digits) if digits.isascii() and digits.isdecimal() else -1), name
