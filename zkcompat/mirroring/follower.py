"""Keeps the tree equal to the newest image during a tenure: the only task that writes mirrored znodes.

It compares the whole tree once and then follows the images. It compares an entity again if the verification, a refused
operation or the quarantine names it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import trio

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.zkcompat import events
from trimaran.zkcompat.comparing.differences import repair
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.comparing.tree_parts import (
    TreePart,
    Visit,
    read_entities,
    visit_entities,
    visit_tree,
)
from trimaran.zkcompat.mirroring.status import MirrorStatus
from trimaran.zkcompat.mirroring.tenure import Tenure
from trimaran.zkcompat.mirroring.verifier import cpu_seconds
from trimaran.zkcompat.mirroring.writer import LINES_MAX, TreeDiffersError, TreeWriter
from trimaran.zkcompat.quorum_feed.feed import ImageFeed, PendingChanges
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import TreeOperation, printable_path
from trimaran.zkcompat.zookeeper.errors import UncertainOutcomeError

log = logging.getLogger(__name__)

# Another client may write between our reading and our writing; more refusals than this are not a coincidence.
COMPARISONS_MAX = 3

# The number of paths in a log line.
PATHS_NAMED = 3

Entities = Iterable[tuple[Section, str]]


@dataclass(slots=True)
class ImageFollower:
    feed: ImageFeed
    tenure: Tenure
    writer: TreeWriter
    quarantine: Quarantine
    status: MirrorStatus
    _retrying: bool = False
    _limited: LimitedLog = field(default_factory=lambda: LimitedLog(log, lines_max=LINES_MAX))

    async def compare_all(self) -> None:
        """Makes the whole tree equal to the newest image; from then on it is known."""
        self.status.tell("comparing")
        image, _ = self.feed.take()
        tenure = self.tenure
        settle = partial(self._settle, image=image, dirty=True)
        await visit_tree(tenure.keeper, tenure.sections, image, self.quarantine, settle)
        self.status.comparisons += 1
        await self.writer.write((), image)

    async def follow(self) -> None:
        """Writes image after image until something ends the tenure."""
        losses = self.tenure.keeper.losses
        while True:
            leader = self.feed.leader
            if leader is not None and self.tenure.leader != leader:
                await self.tenure.claim(leader)
            await self._catch_up()
            await self._compare_suspects()
            if self._is_idle():
                self.status.tell("in step")
                await self._wait_for_work(losses)

    def _is_idle(self) -> bool:
        shown = self.tenure.shown is self.feed.image
        return shown and self.tenure.leader == self.feed.leader and not self.tenure.suspects

    async def _wait_for_work(self, losses: int) -> None:
        """Returns when there is a new image or leader, a suspect, or a refusal to retry.

        Raises UncertainOutcomeError when the connection is lost.
        """
        lost = False

        async def wait_lost() -> None:
            nonlocal lost
            await self.tenure.keeper.wait_lost(losses)
            lost = True
            nursery.cancel_scope.cancel()

        async def wait_suspects() -> None:
            await self.tenure.wait_suspects()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = self.quarantine.next_due()
            nursery.start_soon(wait_lost)
            nursery.start_soon(wait_suspects)
            await self.feed.wait_for(
                lambda feed: (
                    feed.image is not self.tenure.shown or feed.leader != self.tenure.leader
                )
            )
            nursery.cancel_scope.cancel()
        if lost:
            raise UncertainOutcomeError("the connection to ZooKeeper broke")
        self._suspect_due()

    async def _catch_up(self) -> None:
        image, changes = self.feed.take()
        shown = self.tenure.shown
        if image is shown or shown is None:
            return
        try:
            await self.writer.write(self._planned(shown, image, changes), image)
        except TreeDiffersError as problem:
            events.MIRROR_TREE_CHANGED.log(log, problem=problem)
            settle = partial(self._settle, image=image, dirty=True)
            await self._visit(self._touched(shown, image, changes), image, settle)
            await self.writer.write((), image)

    def _planned(
        self, before: MetadataImage, after: MetadataImage, changes: PendingChanges
    ) -> Iterator[TreeOperation]:
        for section, name in self._touched(before, after, changes):
            roots = section.roots(name)
            if self.tenure.is_held(roots) or any(map(self.quarantine.is_shut, roots[:1])):
                continue
            yield from section.plan(name, before, after)

    def _touched(
        self, before: MetadataImage, after: MetadataImage, changes: PendingChanges
    ) -> Iterator[tuple[Section, str]]:
        for section in self.tenure.sections:
            for name in changes.names(section, before, after):
                yield section, name

    async def _compare_suspects(self) -> None:
        """Compares the suspects; a change that arrives meanwhile waits for one slice only."""
        image, suspects = self.tenure.shown, dict(self.tenure.suspects)
        if not suspects or image is None:
            return
        self.tenure.suspects.clear()
        self.tenure.comparing = True
        cost = 0.0

        async def settle(piece: TreePart) -> None:
            nonlocal cost
            shown, before = self.tenure.shown, self.writer.steps
            assert shown is not None
            await self._settle(piece, image=shown, dirty=False)
            cost += cpu_seconds(len(piece.found), self.writer.steps - before)
            await self._catch_up()

        entities = [(section, name) for (_, name), section in suspects.items()]
        await self._visit(entities, image, settle)
        if self._retrying:
            self.quarantine.tried(cost)
            self._retrying = False
        self.tenure.compared()

    async def _visit(self, entities: Entities, image: MetadataImage, visit: Visit) -> None:
        """Visits these entities and the fixed znodes."""
        by_section: dict[str, tuple[Section, list[str]]] = {}
        for section in self.tenure.sections:
            fixed = [name for name in section.names(image) if section.singles(name)]
            by_section[section.label] = (section, fixed)
        for section, name in entities:
            by_section[section.label][1].append(name)
        for section, names in by_section.values():
            await visit_entities(self.tenure.keeper, section, dict.fromkeys(names), image, visit)

    async def _settle(self, piece: TreePart, image: MetadataImage, *, dirty: bool) -> None:
        """Repairs the differences in a slice that was read; reads the slice again if a repair is refused."""
        for attempt in range(1, COMPARISONS_MAX + 1):
            try:
                last = attempt == COMPARISONS_MAX
                wrong: list[str] = []
                repairs = _noting(self._repairs(piece, image), wrong)
                written = await self.writer.write(repairs, dirty=dirty, final=last)
            except TreeDiffersError as problem:
                events.MIRROR_TREE_UNSETTLED.log(log, problem=problem)
                piece = await _again(self.tenure, piece)
                continue
            if written and self.tenure.shown is not None:
                self.status.repairs += 1
                if not dirty:
                    self._limited.log(events.MIRROR_MENDED, operations=written, paths=_some(wrong))
            self._settled(piece)
            return

    def _repairs(self, piece: TreePart, image: MetadataImage) -> Iterator[TreeOperation]:
        tenure = self.tenure
        for path, znode in piece.found.items():
            if znode.refusal:
                self.quarantine.add(path, "read", znode.refusal)
        for name, found in piece.parts():
            session_id = tenure.keeper.session_id
            yield from repair(piece.section, name, found, image, session_id, tenure.is_spared)

    def _suspect_due(self) -> None:
        """Marks the paths that are due for a retry as suspects."""
        for entry in self.quarantine.take_due():
            self._retrying = True
            for path in (entry.path, *sorted(entry.waiting)):
                self.tenure.recheck(path)

    def _settled(self, piece: TreePart) -> None:
        if not len(self.quarantine):
            return
        roots = {root for name in piece.names for root in piece.section.roots(name)}
        singles = {path for name in piece.names for path in piece.section.singles(name)}
        # Only a missing or extra child shows whether children may be created and deleted: the verification finds it.
        paths = [entry.path for entry in self.quarantine if entry.action != "children"]
        below = tuple(f"{root}/" for root in roots)
        self.quarantine.settled(
            path for path in paths if path in roots or path in singles or path.startswith(below)
        )


async def _again(tenure: Tenure, piece: TreePart) -> TreePart:
    roots = [root for name in piece.names for root in piece.section.roots(name)]
    singles = [path for name in piece.names for path in piece.section.singles(name)]
    return replace(piece, found=await read_entities(tenure.keeper, roots, singles))


def _noting(operations: Iterable[TreeOperation], paths: list[str]) -> Iterator[TreeOperation]:
    """Yields the operations, and adds their paths to `paths`."""
    for operation in operations:
        paths.append(operation.path)
        yield operation


def _some(paths: list[str]) -> str:
    more = len(paths) - PATHS_NAMED
    return ", ".join(map(printable_path, paths[:PATHS_NAMED])) + (
        f" and {more} more" if more > 0 else ""
    )
