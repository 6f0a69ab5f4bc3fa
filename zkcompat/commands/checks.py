"""Commands that compare the tree with the quorum: plain blocking functions with plain results.

Each function runs trio itself and follows the quorum as an observer. Only `resync` writes: it creates its request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeVar

import trio

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.identity import NO_OFFSET, Offset
from trimaran.zkcompat.commands.mirror_process import QUORUM_SECONDS
from trimaran.zkcompat.commands.session import with_keeper
from trimaran.zkcompat.comparing.differences import repair
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.comparing.tree_parts import TreePart, visit_tree
from trimaran.zkcompat.comparing.verify import TreeVerification, VerifyReport
from trimaran.zkcompat.mirroring.resync import request_resync
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.quorum_feed.observer import (
    QuorumUnreachableError,
    find_cluster_id,
    open_observer,
    parse_controllers,
)
from trimaran.zkcompat.sections.registry import Sections, sections_of
from trimaran.zkcompat.settings import Properties, mirror_config, quorum_security
from trimaran.zkcompat.tree.operations import TreeOperation
from trimaran.zkcompat.znodes.controller import ControllerZnode
from trimaran.zkcompat.zookeeper.keeper import Keeper

T = TypeVar("T")
VERIFY_SECONDS = 10.0
RESYNC_SECONDS = 60.0
NEWER_SECONDS = 2.0


class OffsetUnknownError(Exception):
    """The log has no image at the requested offset."""


@dataclass(frozen=True, slots=True)
class Target:
    """The quorum and the tree to compare, with the settings of both connections."""

    controllers: str
    zookeeper: str
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _View:
    feed: ImageFeed
    keeper: Keeper
    sections: Sections


def verify(
    target: Target,
    time_limit_seconds: float = VERIFY_SECONDS,
    watch: Callable[[VerifyReport], object] | None = None,
    interval_seconds: float = 0.0,
) -> VerifyReport:
    """Compares every mirrored znode with the metadata image; with `watch` repeatedly, at this interval.

    Raises ValueError, QuorumUnreachableError, ZooKeeperUnreachableError or ZNodeRefusedError.
    """

    async def work(view: _View) -> VerifyReport:
        verification = TreeVerification(view.feed, view.keeper, view.sections)
        while True:
            report = await verification.run(time_limit_seconds)
            if watch is None:
                return report
            watch(report)
            await trio.sleep(interval_seconds)

    return _with_view(target, work)


def diff(target: Target, offset: Offset) -> tuple[VerifyReport, MetadataImage]:
    """Compares the tree with the image at `offset`, or before it if the log has a gap there, and returns the image too.

    Raises as `verify` does, and OffsetUnknownError.
    """

    async def work(view: _View) -> tuple[VerifyReport, MetadataImage]:
        with trio.move_on_after(
            NEWER_SECONDS
        ):  # A published offset may be newer than the first response that we received.
            await view.feed.wait_for(lambda feed: feed.image.provenance.offset >= offset)
        image = view.feed.kept
        if view.feed.image.provenance.offset < offset:
            newest = view.feed.image.provenance.offset
            raise OffsetUnknownError(f"the log ends at offset {newest}")
        if image.provenance.offset < 0:
            raise OffsetUnknownError(
                f"offset {offset} is inside the first batch, or its records went into a later snapshot"
            )
        verification = TreeVerification(view.feed, view.keeper, view.sections)
        return await verification.against(image), image

    return _with_view(target, work, keep_until=offset)


def planned_repairs(target: Target) -> list[TreeOperation]:
    """Returns the operations that a resynchronisation would write, without writing them. Raises as `verify` does."""

    async def work(view: _View) -> list[TreeOperation]:
        operations: list[TreeOperation] = []
        image, keeper = view.feed.image, view.keeper
        owner = await _owner(keeper)

        async def plan(piece: TreePart) -> None:
            for name, found in piece.parts():
                operations.extend(repair(piece.section, name, found, image, owner))

        await visit_tree(keeper, view.sections, image, Quarantine(trio.current_time), plan)
        return operations

    return _with_view(target, work)


def resync(target: Target, time_limit_seconds: float = RESYNC_SECONDS) -> bool:
    """Requests that the leading mirror compare everything now; False if no mirror did so within the limit.

    Raises ZooKeeperUnreachableError, ZNodeRefusedError or ValueError.
    """

    async def ask(keeper: Keeper) -> bool:
        return await request_resync(keeper, time_limit_seconds)

    return with_keeper(target.zookeeper, target.properties, ask)


async def _owner(keeper: Keeper) -> int:
    """Returns the session of the leading mirror, which may own ephemeral znodes."""
    claim = await keeper.read(ControllerZnode.PATH)
    return claim.owner if claim is not None else 0


def _with_view(
    target: Target, work: Callable[[_View], Awaitable[T]], *, keep_until: Offset = NO_OFFSET
) -> T:
    bootstrap = parse_controllers(target.controllers)
    security = quorum_security(target.properties)
    secrets = mirror_config(target.properties).secrets

    async def read(keeper: Keeper) -> T:
        cluster_id = await find_cluster_id(bootstrap, QUORUM_SECONDS, security)
        sections = sections_of(cluster_id, secrets=secrets)
        observer: AbstractAsyncContextManager[ImageFeed] = open_observer(
            cluster_id, bootstrap, security, keep_until=keep_until
        )
        async with observer as feed:
            with trio.move_on_after(QUORUM_SECONDS):
                await feed.wait_for(lambda f: f.ready)
            if not feed.ready:
                raise QuorumUnreachableError("the quorum has no leader, or its log cannot be read")
            return await work(_View(feed, keeper, sections))

    return with_keeper(target.zookeeper, target.properties, read)
