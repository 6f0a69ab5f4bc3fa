"""Deletes notes that nobody waits for any more, below all their roots, whoever wrote them.

As Kafka's change listeners: who has not read a note within 15 minutes reads everything at its start anyway. A pass
ends when nothing old is left, so notes cannot come faster than they go.
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
from trimaran.zkcompat.tree.znode import FoundZnode
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

log = logging.getLogger(__name__)

LIFETIME_MS = 15 * 60 * 1000
INTERVAL_SECONDS = 30.0
# The names of so many children are half of what an old client takes in an answer: older ones go before their time.
NOTES_MAX = 10_000
IN_TRANSACTION = 200


@dataclass(slots=True)
class Sweeper:
    tenure: Tenure
    quarantine: Quarantine

    async def run(self) -> None:
        """A pass at once, then at an interval."""
        while True:
            for root in NOTE_ROOTS:
                await self.sweep(root)
            await trio.sleep(INTERVAL_SECONDS)

    async def sweep(self, root: str) -> None:
        """Deletes what is old below one root."""
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
                    return  # numbers ascend with time: the rest is younger
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
                del steps[refused.index]  # gone, or with children of its own
            else:
                return


def _is_old(note: FoundZnode, limit_ms: int) -> bool:
    return not note.refusal and note.created_ms < limit_ms


def _is_young(path: str, note: FoundZnode, limit_ms: int) -> bool:
    """One whose place among the others tells that they are, too."""
    return not note.refusal and note.created_ms >= limit_ms and _number(path)[0] >= 0


def _number(name: str) -> tuple[int, str]:
    """Notes of several prefixes share a root's counter."""
    digits = name[-10:]
    return (int(digits) if digits.isascii() and digits.isdecimal() else -1), name
