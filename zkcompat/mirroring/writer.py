"""Writes operations through a tenure in bounded transactions, omitting the operations that ZooKeeper refuses.

A refusal that shows that the tree differs from the plan's assumption is TreeDiffersError: the caller reads and
compares. Any other refusal, and one that recurs after comparing, puts the znode into the quarantine, and the rest is
written.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.zkcompat import events
from trimaran.zkcompat.comparing.quarantine import HeldBack, Quarantine
from trimaran.zkcompat.mirroring.tenure import StepRefusedError, Tenure
from trimaran.zkcompat.sections.configs import resolve
from trimaran.zkcompat.tree.claim import step_of
from trimaran.zkcompat.tree.operations import BATCH_BYTES_MAX, TreeOperation, batches
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

log = logging.getLogger(__name__)

# Lines of one kind within ten seconds: another client that changes many znodes must not fill the log.
LINES_MAX = 10
_TREE_DIFFERS = ("NoNode", "NodeExists", "NotEmpty", "BadVersion")


class TreeDiffersError(Exception):
    """An operation was refused: the tree differs from the plan's assumption. Read and compare."""


@dataclass(slots=True)
class _Ahead:
    """An iterator that computes batches one ahead, to recognize the last one; `prepare` computes the next batch while
    ZooKeeper writes.
    """

    _batches: Iterator[list[TreeOperation]]
    _made: deque[list[TreeOperation]] = field(default_factory=deque)

    def prepare(self) -> None:
        batch = next(self._batches, None)
        if batch is not None:
            self._made.append(batch)

    def take(self) -> list[TreeOperation]:
        """Returns the next batch; empty after the last."""
        while len(self._made) < 2 and (batch := next(self._batches, None)) is not None:
            self._made.append(batch)
        return self._made.popleft() if self._made else []

    @property
    def is_last(self) -> bool:
        """True if the batch that was taken last is the final one."""
        return not self._made


@dataclass(slots=True)
class TreeWriter:
    """A writer; `batch_operations` is the largest number of operations in one transaction. `steps` counts the steps
    sent, refused ones included.
    """

    tenure: Tenure
    quarantine: Quarantine
    batch_operations: int
    steps: int = 0
    _limited: LimitedLog = field(default_factory=lambda: LimitedLog(log, lines_max=LINES_MAX))

    async def write(
        self,
        operations: Iterable[TreeOperation],
        image: MetadataImage | None = None,
        *,
        dirty: bool = False,
        final: bool = False,
    ) -> int:
        """Runs the operations in order and returns the number that succeeded.

        With `image`, `/migration` moves to it with the last of them, in the same transaction, and the tree counts as
        showing it. With `dirty` the operations are only a part of a change, so the tree equals no image after them.
        With `final` a refusal that shows that the tree differs is treated like any other. Raises TreeDiffersError and
        the exceptions of a tenure.
        """
        guard = self.tenure.guard
        assert guard is not None
        held = HeldBack()
        between = guard.migration
        if dirty or image is not None:
            between = replace(between, dirty=True)
        written = 0
        ahead = _Ahead(batches(self._fitting(operations, held), self.batch_operations))
        while (batch := ahead.take()) and not ahead.is_last:
            written += await self._transact(batch, between, held, final, ahead.prepare)
        written += await self._last(batch, between, image, held, final)
        self.tenure.status.writes += written
        return written

    async def _last(
        self,
        batch: list[TreeOperation],
        left: Migration,
        image: MetadataImage | None,
        held: HeldBack,
        final: bool,
    ) -> int:
        if image is not None:
            offset, epoch, _ = image.provenance
            left = replace(left, offset=offset, epoch=epoch, dirty=False)
        assert self.tenure.guard is not None
        written = 0
        if batch or left != self.tenure.guard.migration:
            written = await self._transact(batch, left, held, final)
        if image is not None:
            self.tenure.published(image)
        return written

    def _fitting(
        self, operations: Iterable[TreeOperation], held: HeldBack
    ) -> Iterable[TreeOperation]:
        """Yields the operations that are within ZooKeeper's limits and that it has not refused recently."""
        for operation in operations:
            if held.touches(operation) or self.quarantine.holds(operation):
                held.add(operation)
            elif operation.size_bytes > BATCH_BYTES_MAX:
                size = f"{operation.size_bytes} bytes, more than the {BATCH_BYTES_MAX} of a transaction"
                self._refuse(operation, size)
                held.add(operation)
            else:
                yield operation

    async def _transact(
        self,
        batch: list[TreeOperation],
        migration: Migration,
        held: HeldBack,
        final: bool,
        meanwhile: Callable[[], object] | None = None,
    ) -> int:
        """Runs one transaction, again without each refused operation, and returns the number that succeeded.
        `meanwhile` is called while ZooKeeper is busy.
        """
        batch = await self._resolved(batch, held)
        while True:
            steps = [step_of(operation) for operation in batch]
            self.steps += len(steps)
            try:
                await self.tenure.transact(steps, migration, meanwhile)
            except StepRefusedError as refused:
                operation = batch[refused.index]
                if refused.reason in _TREE_DIFFERS and not final:
                    raise TreeDiffersError(str(refused)) from refused
                self._refuse(operation, refused.reason)
                batch = self._without(batch, operation, held)
                continue
            for operation in batch:
                log.debug("%s: %s", operation.name, operation.sentence)
            self.quarantine.succeeded(batch)
            return len(batch)

    def _without(
        self, batch: list[TreeOperation], refused: TreeOperation, held: HeldBack
    ) -> list[TreeOperation]:
        held.add(refused)
        rest: list[TreeOperation] = []
        for operation in batch:
            if operation is refused:
                continue
            if held.touches(operation) or self.quarantine.holds(operation):
                held.add(operation)
            else:
                rest.append(operation)
        return rest

    def _refuse(self, operation: TreeOperation, reason: str) -> None:
        entry = self.quarantine.refused(operation, reason)
        if entry.attempts == 1:
            self._limited.log(events.MIRROR_HELD_BACK, refusal=entry.sentence())

    async def _resolved(self, batch: list[TreeOperation], held: HeldBack) -> list[TreeOperation]:
        """Returns the batch with the foreign keys kept. A znode that becomes secret is hidden before it is written, or
        omitted.
        """
        keeper = self.tenure.keeper
        shared = [operation.path for operation in batch if operation.keeps is not None]
        found = await keeper.read_many(shared) if shared else {}
        resolved: list[TreeOperation] = []
        for operation in batch:
            # The operation depends on, or is a note about, a znode that could not be hidden.
            if held.touches(operation):
                held.add(operation)
                continue
            there = found.get(operation.path)
            if there is not None and there.refusal:
                there = None
            final = resolve(operation, there)
            if operation.secret and there is not None:
                try:
                    await keeper.hide(operation.path)
                except PathRefusedError as refused:
                    self._refuse(final, refused.reason)
                    held.add(final)
                    continue
            resolved.append(final)
        return resolved
