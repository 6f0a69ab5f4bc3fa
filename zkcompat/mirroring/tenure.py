"""One tenure as the tree's only writer: the claim, the guard of every transaction, and the image that the tree shows.

A tenure is a block: all its tasks have ended when the next one begins. Meanwhile all writers of the tree, including the
mirror's companions, write through it: one transaction at a time, each of which proves that the claim is still ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import trio

from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.identity import ControllerEpoch, Offset
from trimaran.wire.transport.scheduling.events import Notifier
from trimaran.zkcompat import events
from trimaran.zkcompat.mirroring.status import MirrorStatus
from trimaran.zkcompat.sections.registry import SectionIndex, Sections
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.claim import (
    GUARD_STEPS,
    ClaimGuard,
    QuorumLeader,
    TransactionStep,
    claim_steps,
)
from trimaran.zkcompat.tree.operations import printable_path
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.zookeeper.errors import (
    PathRefusedError,
    TransactionRefusedError,
    UncertainOutcomeError,
    UnsuitableZooKeeperError,
)
from trimaran.zkcompat.zookeeper.keeper import Keeper

log = logging.getLogger(__name__)

# The pause between two repairs of `/controller`: a client that keeps writing it must not keep the mirror busy.
CONTROLLER_PAUSE_SECONDS = 0.1
# The pause after a repair that failed.
CONTROLLER_RETRY_SECONDS = 1.0
# The most children that the claim's transaction deletes; an operator must delete others.
CONTROLLER_CHILDREN_MAX = 1000
# The most entities that wait for a comparison.
RECHECK_MAX = 10_000
_GUARD_PATHS = (ControllerEpochZnode.PATH, Migration.PATH)
_OVERTAKEN = ("BadVersion", "NoNode")


class WrongClusterError(UnsuitableZooKeeperError):
    """The tree belongs to another Kafka cluster. The operator's fault: wrong `zookeeper.connect` or chroot."""


class MirrorFencedError(Exception):
    """The guard was refused: another client wrote the claim's znodes. The tenure is over."""


class StepRefusedError(Exception):
    """ZooKeeper refused one step of a transaction, so no step was applied; `index` is that of the refused step."""

    def __init__(self, index: int, step: TransactionStep, reason: str) -> None:
        super().__init__(f"{step.kind} {printable_path(step.path)}: {reason}")
        self.index = index
        self.step = step
        self.reason = reason


class Companion(Protocol):
    """A task that runs beside the mirror while it leads, and carries out requests that old tools write to ZooKeeper."""

    def spares(self, path: str) -> bool:
        """True for a znode that the companion still has to handle: a comparison neither deletes nor writes it now."""

    def holds(self, path: str) -> bool:
        """True for the root of an entity of which the companion has requested a part: changes are not written to it
        now, and it is compared again afterwards.
        """

    async def prepare(self, tenure: Tenure, image: MetadataImage) -> None:
        """Called after the claim, before the tree is compared with `image`.

        It may raise the exceptions of a tenure's methods.
        """

    async def run(self, tenure: Tenure) -> None:
        """Runs from the first complete comparison on, until it is cancelled with the tenure.

        It may raise the exceptions of a tenure's methods; any other ends the mirror.
        """


@dataclass(slots=True)
class Tenure:
    """`shown` is the image that the tree shows, None before the first comparison is done."""

    keeper: Keeper
    cluster_id: str
    sections: Sections
    status: MirrorStatus
    companions: Sequence[Companion] = ()
    guard: ClaimGuard | None = None
    leader: QuorumLeader | None = None
    shown: MetadataImage | None = None
    # A function that returns the image at an offset, None if it is not kept.
    image_at: Callable[[Offset], MetadataImage | None] = lambda _: None
    # The mirror before this tenure: whether there was one, its last transaction as a zxid, and the image that the whole
    # tree showed then; None if that is not known, and after all companions are prepared.
    known: bool = False
    written_before: int = 0
    shown_before: MetadataImage | None = None
    # Entities, by section label and name, that the writer must compare again.
    suspects: dict[tuple[str, str], Section] = field(default_factory=dict)
    comparing: bool = False
    _index: SectionIndex = field(init=False)
    _claimed_as: bytes = b""
    _lock: trio.Lock = field(default_factory=trio.Lock)
    _suspected: Notifier = field(default_factory=Notifier)
    _compared: Notifier = field(default_factory=Notifier)
    _published: Notifier = field(default_factory=Notifier)

    def __post_init__(self) -> None:
        self._index = SectionIndex(self.sections)

    async def claim(self, leader: QuorumLeader) -> None:
        """Takes over the claim, even from another mirror. Later calls renew our own claim for a new leader.

        Raises MirrorFencedError, PathRefusedError, UncertainOutcomeError or WrongClusterError.
        """
        async with self._lock:
            await _prepare(self.keeper, self.cluster_id)
            epoch, controller, migration = [
                await self.keeper.read(path)
                for path in (ControllerEpochZnode.PATH, ControllerZnode.PATH, Migration.PATH)
            ]
            if epoch is None or migration is None:
                raise UncertainOutcomeError("the claim's znodes vanished")
            if self.guard is not None and epoch.version != self.guard.controller_epoch_version:
                raise MirrorFencedError("another mirror holds the claim")
            dirty = self.shown is None
            steps, guard = claim_steps(leader, now_ms(), epoch, controller, migration, dirty=dirty)
            if controller is not None and not controller.owner:
                steps = [*await self._clear_controller(), *steps]
            try:
                await self.keeper.transact(steps)
            except TransactionRefusedError as refused:
                step = steps[refused.index]
                if refused.reason in (*_OVERTAKEN, "NodeExists"):
                    raise MirrorFencedError(f"{step.path} was written meanwhile") from refused
                raise PathRefusedError(step.path, refused.reason) from refused
            if self.guard is None:
                self.known = guard.migration.offset >= 0
                self.written_before = migration.modified_zxid
                self.shown_before = self._image_of(migration.data)
            self.guard, self.leader = guard, leader
            self._claimed_as = ControllerZnode(leader.id, 0, leader.epoch).encode()
        self.status.claims += 1
        self.status.controller_epoch = guard.controller_epoch
        events.MIRROR_LEADS.log(log, epoch=guard.controller_epoch, leader=leader.id)

    async def transact(
        self,
        steps: Sequence[TransactionStep],
        migration: Migration | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """Runs one guarded transaction; `/migration` becomes `migration`, or stays as it is. `meanwhile` is called
        while the response is awaited.

        Raises:
            StepRefusedError: no step was applied, since ZooKeeper refused one of them.
            MirrorFencedError, PathRefusedError: the claim is gone, or its znodes may not be used: the tenure is over.
            UncertainOutcomeError: the transaction may or may not have been applied: the tenure is over.
        """
        async with self._lock:
            guard = self.guard
            assert guard is not None
            left = migration or guard.migration
            try:
                await self.keeper.transact([*guard.proof(left), *steps], meanwhile)
            except TransactionRefusedError as refused:
                if refused.index >= GUARD_STEPS:
                    index = refused.index - GUARD_STEPS
                    raise StepRefusedError(index, steps[index], refused.reason) from refused
                if refused.reason in _OVERTAKEN:
                    raise MirrorFencedError(
                        f"another mirror holds the claim ({refused.reason})"
                    ) from refused
                path = _GUARD_PATHS[refused.index]
                raise PathRefusedError(path, refused.reason) from refused
            self.guard = guard.advanced(left)
        self.status.transactions += 1

    def _image_of(self, migration: bytes | None) -> MetadataImage | None:
        state = decode_or_none(Migration.decode, migration) or Migration()
        return None if state.dirty or state.offset < 0 else self.image_at(state.offset)

    def wanted(self, path: str, image: MetadataImage) -> bytes | None:
        """Returns the data of an entity's znode in an image; None if it has no znode, or no data."""
        place = self._index.entity_at(path)
        znode = None if place is None else dict(place[0].znodes(place[1], image)).get(path)
        return None if znode is None else znode.data

    def says(self, path: str, data: bytes | None, image: MetadataImage) -> bool:
        """True for an entity's znode that equals the image."""
        place = self._index.entity_at(path)
        return place is not None and place[0].same(path, self.wanted(path, image), data)

    def is_held(self, roots: Iterable[str]) -> bool:
        """True for an entity that must not be written now."""
        return any(companion.holds(root) for root in roots for companion in self.companions)

    def is_spared(self, path: str) -> bool:
        """True for a znode that a companion still has to handle."""
        return any(companion.spares(path) for companion in self.companions)

    def recheck(self, path: str) -> None:
        """Marks the entity of `path` as a suspect."""
        place = self._index.entity_at(path)
        if place is not None:
            self.suspect(*place)

    def suspect(self, section: Section, name: str) -> None:
        """Marks an entity as a suspect, which the follower then compares; beyond a bound the next verification finds
        it.
        """
        if len(self.suspects) < RECHECK_MAX:
            self.suspects[section.label, name] = section
        self._suspected.notify_all()

    async def wait_suspects(self) -> None:
        """Returns when there are suspects."""
        await trio.lowlevel.checkpoint()
        while not self.suspects:
            await self._suspected.wait()

    async def wait_no_suspects(self) -> None:
        """Returns when all suspects have been compared."""
        await trio.lowlevel.checkpoint()
        while self.suspects or self.comparing:
            await self._compared.wait()

    def compared(self) -> None:
        """Ends a comparison of the suspects."""
        self.comparing = False
        self._compared.notify_all()

    def published(self, image: MetadataImage) -> None:
        """Records that the tree shows `image`."""
        self.shown = image
        self.status.published_offset = image.provenance.offset
        self._published.notify_all()

    async def wait_shown(self, wanted: Callable[[MetadataImage], bool]) -> MetadataImage:
        """Returns the image that the tree shows, once `wanted` is true for it."""
        await trio.lowlevel.checkpoint()
        while self.shown is None or not wanted(self.shown):
            await self._published.wait()
        return self.shown

    async def keep_controller(self) -> None:
        """Creates `/controller` again whenever another client deletes or forges it, as its watch reports."""
        while True:
            changed = trio.Event()
            async with self._lock:
                found = await self._read_controller(changed.set)
                wrong = found is None or not self._is_ours(*found)
            if not wrong:
                await changed.wait()
                continue
            events.MIRROR_CLAIM_CHANGED.log(log, path=ControllerZnode.PATH)
            if await self._replace_controller(is_there=found is not None):
                self.status.repairs += 1
                self.status.tell()
                await trio.sleep(CONTROLLER_PAUSE_SECONDS)
            else:
                await trio.sleep(CONTROLLER_RETRY_SECONDS)

    async def _read_controller(
        self, changed: Callable[[], object]
    ) -> tuple[bytes | None, int] | None:
        try:
            found = await self.keeper.read(ControllerZnode.PATH, changed)
        except PathRefusedError:
            return None, 0  # Another client locked it: it must be replaced.
        return None if found is None else (found.data, found.owner)

    def _is_ours(self, data: bytes | None, owner: int) -> bool:
        known = decode_or_none(ControllerZnode.decode, data)
        if known is None or owner != self.keeper.session_id:
            return False
        return ControllerZnode(known.broker_id, 0, known.kraft_controller_epoch).encode() == (
            self._claimed_as
        )

    async def _replace_controller(self, *, is_there: bool) -> bool:
        leader = self.leader
        assert leader is not None
        steps: list[TransactionStep] = []
        if is_there:
            steps = [
                *await self._clear_controller(),
                TransactionStep("delete", ControllerZnode.PATH),
            ]
        claim = ControllerZnode(leader.id, now_ms(), leader.epoch).encode()
        steps.append(TransactionStep("create", ControllerZnode.PATH, claim, ephemeral=True))
        try:
            await self.transact(steps)
        # The znode changed again, or is locked; the next check handles it.
        except StepRefusedError as refused:
            events.MIRROR_CLAIM_WAITS.log(log, path=ControllerZnode.PATH, error=refused)
            return False
        return True

    async def _clear_controller(self) -> list[TransactionStep]:
        """Returns steps that delete the children of a `/controller` that belongs to no session; ours has none."""
        found = await self.keeper.read_tree([ControllerZnode.PATH], ())
        below = [path for path in found if path != ControllerZnode.PATH][:CONTROLLER_CHILDREN_MAX]
        return [TransactionStep("delete", path) for path in sorted(below, reverse=True)]


async def check_cluster(keeper: Keeper, cluster_id: str) -> None:
    """Raises WrongClusterError when the tree names another cluster; a tree that names none yet may become ours."""
    found = await keeper.read(ClusterId.PATH)
    if found is None:
        return
    known = decode_or_none(ClusterId.decode, found.data)
    if known is None or known.id != cluster_id:
        raise WrongClusterError(
            f"this ZooKeeper tree is of cluster {known.id if known else 'unreadable'}, "
            f"the quorum is of cluster {cluster_id}; use another tree or a chroot in zookeeper.connect"
        )


async def _prepare(keeper: Keeper, cluster_id: str) -> None:
    """Creates the znodes that a claim needs, without guard, each only if it is missing. Raises WrongClusterError."""
    await keeper.ensure("/", None)
    await keeper.ensure("/cluster", None)
    await keeper.ensure(ClusterId.PATH, ClusterId(cluster_id).encode())
    await check_cluster(keeper, cluster_id)
    await keeper.ensure(
        ControllerEpochZnode.PATH, ControllerEpochZnode(ControllerEpoch(0)).encode()
    )
    await keeper.ensure(Migration.PATH, Migration().encode())
