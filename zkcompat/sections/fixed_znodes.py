"""Znodes that exist independently of the cluster's state: the parents, the cluster's id, the features of ZooKeeper
mode.

The parents of users' ACLs are created with the first of these, and stay. The parents of tokens exist if tokens are
mirrored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.records.security import AccessControlEntryRecord
from trimaran.wire.security.acls import ResourceType
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import OperationKind, TreeOperation, Znode
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.znodes.feature import FeatureZnode
from trimaran.zkcompat.znodes.parents import FIXED_PARENTS, TOKEN_PARENTS, USER_ACL_PARENTS

ALL = "all"
_PARENTS = frozenset((*FIXED_PARENTS, *TOKEN_PARENTS, *USER_ACL_PARENTS))


class FixedZnodes(Section):
    """One entity. The cluster's id is an argument, because the image does not contain it. `tokens`: whether they are
    mirrored.
    """

    label = "Fixed"

    def __init__(self, cluster_id: str, *, tokens: bool = False) -> None:
        self._cluster_id = cluster_id
        self._parents = (*FIXED_PARENTS, *(TOKEN_PARENTS if tokens else ()))

    def names(self, image: MetadataImage) -> Iterable[str]:
        return (ALL,)

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        return (ALL,) if any(map(_is_of_user, delta.acls.changed.values())) else ()

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        return () if before.acls is after.acls else (ALL,)

    def singles(self, name: str) -> tuple[str, ...]:
        return (*self._parents, *USER_ACL_PARENTS, ClusterId.PATH, FeatureZnode.PATH)

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        for path in self._parents:
            yield path, Znode(None)
        if any(map(_is_of_user, image.acls.values())):
            for path in USER_ACL_PARENTS:
                yield path, Znode(None)
        yield ClusterId.PATH, Znode(ClusterId(self._cluster_id).encode())
        yield FeatureZnode.PATH, Znode(FeatureZnode().encode())

    def plan(
        self, name: str, before: MetadataImage, after: MetadataImage
    ) -> Iterator[TreeOperation]:
        return (
            operation
            for operation in super().plan(name, before, after)
            if operation.kind is not OperationKind.DELETE
        )

    def spares(self, path: str, data: bytes | None) -> bool:
        return path in USER_ACL_PARENTS

    def same(self, path: str, expected: bytes | None, found: bytes | None) -> bool:
        return path in _PARENTS or super().same(path, expected, found)


def _is_of_user(record: AccessControlEntryRecord | None) -> bool:
    return record is not None and record.resource_type == ResourceType.USER
