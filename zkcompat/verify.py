"""Compares the whole tree with the image at the offset that the mirror published.

The tree may be written meanwhile: a reading counts when `/migration` said the same before and after, or when the images
at both offsets have the same content (idle batches only). Otherwise it is read again, up to a time limit. ACLs are not
compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from quorum.metadata.image import MetadataImage
from zkcompat.feed import ImageFeed
from zkcompat.keeper import Keeper
from zkcompat.render import render
from zkcompat.tree import OWNED_ROOTS, SINGLE_PATHS, FoundTree, is_owned, same_data
from zkcompat.znodes import Migration, decode_or_none

RETRY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind` is missing, extra or different; texts are None where there is no data."""

    kind: str
    path: str
    expected: str | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """`lag_records` is how far the published offset is behind the quorum's newest; `settled` is False when the tree
    never held still (or nothing was published) within the time limit, and the differences are against the nearest
    image.
    """

    compared: int
    offset: int
    lag_records: int
    settled: bool
    differences: tuple[Difference, ...] = field(default=())

    def count(self, kind: str) -> int:
        return sum(1 for difference in self.differences if difference.kind == kind)

    @property
    def in_step(self) -> bool:
        return self.settled and not self.differences

    def summary(self) -> str:
        return (
            f"{self.compared} znodes compared, {self.count('missing')} missing, {self.count('extra')} extra, "
            f"{self.count('different')} different, mirror lag {self.lag_records} records"
        )


def compare(found: FoundTree, image: MetadataImage, cluster_id: str) -> tuple[Difference, ...]:
    """The differences of a tree that was read to what `image` should look like. Pure."""
    expected = render(image, cluster_id)
    differences = [
        Difference("extra", path, found=_text(znode.data))
        for path, znode in sorted(found.items())
        if is_owned(path) and path not in expected
    ]
    for path, znode in expected.items():
        actual = found.get(path)
        if actual is None:
            differences.append(Difference("missing", path, expected=_text(znode.data)))
        elif znode.ephemeral != bool(actual.owner) or not same_data(path, znode.data, actual.data):
            differences.append(Difference("different", path, _text(znode.data), _text(actual.data)))
    return tuple(differences)


async def verify(
    feed: ImageFeed, keeper: Keeper, cluster_id: str, time_limit_seconds: float = 10.0
) -> VerifyReport:
    """Compares, again and again until the tree held still. Raises UncertainOutcomeError without ZooKeeper."""
    await feed.wait_for(lambda f: f.ready)
    report = VerifyReport(0, -1, 0, settled=False)
    with trio.move_on_after(time_limit_seconds):
        while not report.in_step:
            previous, report = report, await _attempt(feed, keeper, cluster_id)
            # Twice the same: these are no differences that a mirror is about to write away.
            if report.settled and report.differences and report.differences == previous.differences:
                break
            if not report.in_step:
                await trio.sleep(RETRY_SECONDS)
    return report


async def _attempt(feed: ImageFeed, keeper: Keeper, cluster_id: str) -> VerifyReport:
    before = await _published(keeper)
    found = await keeper.read_tree(OWNED_ROOTS, SINGLE_PATHS)
    after = await _published(keeper)
    image = feed.image_at(after.offset)
    settled = not (before.dirty or after.dirty) and image is not None
    if settled and before.offset != after.offset:
        settled = _same_content(feed.image_at(before.offset), image)
    image = image or feed.image
    return VerifyReport(
        compared=len(found),
        offset=after.offset,
        lag_records=max(0, feed.image.provenance.offset - after.offset),
        settled=settled,
        differences=compare(found, image, cluster_id),
    )


async def _published(keeper: Keeper) -> Migration:
    found = await keeper.read(Migration.PATH)
    return decode_or_none(Migration.decode, found.data if found else None) or Migration(dirty=True)


def _same_content(one: MetadataImage | None, other: MetadataImage | None) -> bool:
    """Same objects: persistent images share what did not change."""
    return (
        one is not None
        and other is not None
        and one.topics is other.topics
        and one.configs is other.configs
        and one.cluster is other.cluster
        and one.producer_ids == other.producer_ids
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
