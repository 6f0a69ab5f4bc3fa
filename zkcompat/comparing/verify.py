"""Compares the whole tree with the image at the offset that the mirror published, independently of the mirror.

The tree may be written meanwhile: a reading counts if `/migration` was the same before and after, or if the images at
both offsets have the same content (idle batches only). Otherwise the tree is read again, up to a time limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import trio

from trimaran.quorum.metadata.image import BROKER_RESOURCE, MetadataImage
from trimaran.wire.identity import NO_OFFSET, Offset
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.zkcompat.comparing.differences import differences
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.comparing.tree_parts import TreePart, visit_tree
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.sections.registry import Sections
from trimaran.zkcompat.sections.users import CONFIG_USERS
from trimaran.zkcompat.tree.claim import QuorumLeader
from trimaran.zkcompat.tree.operations import FoundTree, FoundZnode, Znode
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.entity_config import CONFIG_BROKERS, EntityConfig
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.znodes.scram_credential import SCRAM_KEYS
from trimaran.zkcompat.zookeeper.keeper import Keeper
from trimaran.zkcompat.zookeeper.znode_acls import (
    is_open_to_others,
    is_sensitive_path,
    is_writable_by_others,
)

RETRY_SECONDS = 0.1
# The replacement for a secret, and for text that may be one.
HIDDEN = "(hidden)"
_WITH_SECRETS = (f"{CONFIG_USERS}/", f"{CONFIG_BROKERS}/")
CLAIM_PATHS = (ControllerZnode.PATH, ControllerEpochZnode.PATH, Migration.PATH)


@dataclass(frozen=True, slots=True)
class ReportedDifference:
    """`kind` is missing, extra, different, unreadable or acl; texts are None where there is no data."""

    kind: str
    path: str
    expected: str | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """`lag_records` and `lag_ms` are the lag of the published offset behind the quorum's newest, in records and in
    time; None for a past image. `settled` is False if the tree never stopped changing (or no offset was published)
    within the time limit, and the differences are against the nearest image. `unknown` names the records of a later
    Kafka, because of which image and tree may both be stale.
    """

    compared: int
    offset: Offset
    lag_records: int | None
    lag_ms: int | None
    settled: bool
    differences: tuple[ReportedDifference, ...] = field(default=())
    unknown: str = ""

    def count(self, kind: str) -> int:
        return sum(1 for difference in self.differences if difference.kind == kind)

    @property
    def in_step(self) -> bool:
        return self.settled and not self.differences

    def summary(self) -> str:
        """Returns one readable line; rare events are named only if they happened."""
        seldom = [
            f"{self.count(kind)} {words}"
            for kind, words in (("unreadable", "unreadable"), ("acl", "with another ACL"))
            if self.count(kind)
        ]
        counts = [f"{self.count(kind)} {kind}" for kind in ("missing", "extra", "different")]
        lag = (
            f"with offset {self.offset}"
            if self.lag_records is None or self.lag_ms is None
            else f"mirror lag {self.lag_records} records, {self.lag_ms / 1000:.1f} s"
        )
        return f"{self.compared} znodes compared, {', '.join(counts + seldom)}, {lag}"


def compare_claim(found: FoundTree, leader: QuorumLeader | None) -> Iterator[ReportedDifference]:
    """Yields the faults of the three znodes of the claim; `leader` is the quorum's, None if it is not known."""
    claim = found.get(ControllerZnode.PATH)
    controller = decode_or_none(ControllerZnode.decode, claim.data) if claim else None
    expected = None if leader is None else f"controller {leader.id} of epoch {leader.epoch}"
    if claim is None:
        yield ReportedDifference("missing", ControllerZnode.PATH, expected)
    elif controller is None or not claim.owner or leader not in (None, _leader(controller)):
        yield ReportedDifference("different", ControllerZnode.PATH, expected, _text(claim.data))
    for path, decode in (
        (ControllerEpochZnode.PATH, ControllerEpochZnode.decode),
        (Migration.PATH, Migration.decode),
    ):
        znode = found.get(path)
        if znode is None:
            yield ReportedDifference("missing", path)
        elif decode_or_none(decode, znode.data) is None:
            yield ReportedDifference("different", path, None, _text(znode.data))


def _leader(controller: ControllerZnode) -> QuorumLeader:
    return QuorumLeader(controller.broker_id, controller.kraft_controller_epoch)


@dataclass(frozen=True, slots=True)
class TreeVerification:
    """One comparison: `keeper` reads the tree, `sections` render its expected content."""

    feed: ImageFeed
    keeper: Keeper
    sections: Sections

    async def run(self, time_limit_seconds: float) -> VerifyReport:
        """Compares repeatedly until the tree does not change during a comparison. Raises PathRefusedError or
        UncertainOutcomeError.
        """
        await self.feed.wait_for(lambda f: f.ready)
        report = VerifyReport(0, NO_OFFSET, 0, 0, settled=False)
        with trio.move_on_after(time_limit_seconds):
            while not report.in_step:
                previous, report = report, await self.attempt()
                # The differences are the same twice, so the mirror is not about to repair them.
                if report.settled and report.differences == previous.differences != ():
                    break
                if not report.in_step:
                    await trio.sleep(RETRY_SECONDS)
        return report

    async def against(self, image: MetadataImage) -> VerifyReport:
        """Compares the tree once with any image, without checking the claim."""
        compared, found = await self._compare(image)
        offset = image.provenance.offset
        return VerifyReport(
            compared,
            offset,
            None,
            None,
            settled=True,
            differences=tuple(found),
            unknown=image.unknown.text,
        )

    async def attempt(self) -> VerifyReport:
        """Compares once, even if the mirror writes meanwhile. Raises PathRefusedError or UncertainOutcomeError."""
        before = await self._published()
        leader = self.feed.leader
        image = self.feed.image_at(before.offset) or self.feed.image
        compared, found = await self._compare(image)
        claim = await self.keeper.read_many(CLAIM_PATHS)
        if leader == self.feed.leader:
            found.extend(compare_claim(claim, leader))
        after = await self._published()
        settled = self._settled(before, after)
        return VerifyReport(
            compared=compared,
            offset=after.offset,
            lag_records=max(0, self.feed.image.provenance.offset - after.offset),
            lag_ms=self.feed.lag_ms(after.offset),
            settled=settled,
            differences=tuple(found),
            unknown=self.feed.image.unknown.text,
        )

    def _settled(self, before: Migration, after: Migration) -> bool:
        image = self.feed.image_at(after.offset)
        if before.dirty or after.dirty or image is None:
            return False
        earlier = self.feed.image_at(before.offset)
        return before.offset == after.offset or (
            earlier is not None and earlier.shares_content(image)
        )

    async def _compare(self, image: MetadataImage) -> tuple[int, list[ReportedDifference]]:
        quarantine = Quarantine(trio.current_time)
        compared = 0
        found: list[ReportedDifference] = []

        async def compare(piece: TreePart) -> None:
            nonlocal compared
            compared += len(piece.found)
            for name, part in piece.parts():
                await trio.lowlevel.checkpoint()
                found.extend(
                    _difference(*difference)
                    for difference in differences(piece.section, name, part, image)
                )
            found.extend(await self._acl_differences(piece.found))

        await visit_tree(self.keeper, self.sections, image, quarantine, compare)
        found += [
            ReportedDifference("unreadable", entry.path, found=entry.reason) for entry in quarantine
        ]
        return compared, found

    async def _acl_differences(self, found: FoundTree) -> list[ReportedDifference]:
        """Returns excessive rights of others, if the tree is secured."""
        if not self.keeper.config.secured:
            return []
        paths = list(found)
        acls = await self.keeper.acls(paths)
        return [
            ReportedDifference(
                "acl", path, found="others may " + ("read" if sensitive else "write")
            )
            for path, acl in zip(paths, acls, strict=True)
            if acl is not None and path != "/consumers"
            for sensitive in (is_sensitive_path(path),)
            if (is_open_to_others(acl) if sensitive else is_writable_by_others(acl))
        ]

    async def _published(self) -> Migration:
        found = await self.keeper.read(Migration.PATH)
        state = decode_or_none(Migration.decode, found.data if found else None)
        return state or Migration(dirty=True)


def _difference(
    kind: str, path: str, expected: Znode | None, found: FoundZnode | None
) -> ReportedDifference:
    texts = (_public(path, znode.data) if znode else None for znode in (expected, found))
    return ReportedDifference("different" if kind == "owner" else kind, path, *texts)


def _public(path: str, data: bytes | None) -> str | None:
    """Returns the text without the credentials and passwords in it."""
    if data is None or not path.startswith(_WITH_SECRETS):
        return _text(data)
    known = decode_or_none(EntityConfig.decode, data)
    if known is None:
        return HIDDEN
    of_broker = path.startswith(f"{CONFIG_BROKERS}/")
    shown = {
        key: HIDDEN if _is_secret(key, of_broker=of_broker) else value
        for key, value in known.config.items()
    }
    return _text(EntityConfig(shown).encode())


def _is_secret(key: str, *, of_broker: bool) -> bool:
    return is_sensitive(key, BROKER_RESOURCE) if of_broker else key in SCRAM_KEYS.values()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
