"""What stands whatever the cluster does: the parents, the cluster's id, the features of ZooKeeper mode."""

from __future__ import annotations

from collections.abc import Iterable

from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import MetadataImage
from zkcompat.sections.section import Section
from zkcompat.tree import Znode
from zkcompat.znodes.cluster_id import ClusterId
from zkcompat.znodes.feature import Feature
from zkcompat.znodes.parents import STANDING_PARENTS

ALL = "all"
_PARENTS = frozenset(STANDING_PARENTS)


class Standing(Section):
    """One entity; the image does not know the cluster's id, so it is given."""

    label = "Standing"

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id

    def names(self, image: MetadataImage) -> Iterable[str]:
        return (ALL,)

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        return ()

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        return ()

    def singles(self, name: str) -> tuple[str, ...]:
        return (*STANDING_PARENTS, ClusterId.PATH, Feature.PATH)

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        for path in STANDING_PARENTS:
            yield path, Znode(None)
        yield ClusterId.PATH, Znode(ClusterId(self._cluster_id).encode())
        yield Feature.PATH, Znode(Feature().encode())

    def same(self, path: str, expected: bytes | None, found: bytes | None) -> bool:
        return path in _PARENTS or super().same(path, expected, found)
