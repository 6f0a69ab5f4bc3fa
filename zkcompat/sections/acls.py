"""ACLs: one znode for each resource, and a note for each change.

Not mirrored: resources whose names are not valid znode names, such as those with a slash; ZooKeeper mode could not keep
them either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import ClassVar

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import AclsImage, MetadataImage
from trimaran.wire.records.security import AccessControlEntryRecord
from trimaran.wire.security.acls import Operation as AclOperation
from trimaran.wire.security.acls import PatternType, Permission, ResourceType
from trimaran.zkcompat.sections.notes import note
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import TreeOperation, Znode
from trimaran.zkcompat.znodes.acl_change import AclChangeNote
from trimaran.zkcompat.znodes.acl_entries import (
    ACLS,
    PREFIXED_ACLS,
    AclEntries,
    AclEntry,
    AclResource,
)
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.names import is_znode_name
from trimaran.zkcompat.znodes.parents import ACL_TYPES

Grouped = dict[str, list[AclEntry]]


class AclSection(Section):
    """An entity is named by its path."""

    label = "Acls"
    directories: ClassVar[tuple[str, ...]] = tuple(
        f"{root}/{kind}" for root in (ACLS, PREFIXED_ACLS) for kind in ACL_TYPES
    )

    def __init__(self) -> None:
        # Grouping walks over all ACLs, so the groups of the last two images are kept.
        self._grouped: list[tuple[AclsImage, Grouped]] = []

    def names(self, image: MetadataImage) -> Iterable[str]:
        return sorted(self._by_path(image.acls))

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        for acl_id, record in delta.acls.changed.items():
            for version in (delta.image.acls.get(acl_id), record):
                path = version and path_of(version)
                if path:
                    yield path

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        if before.acls is after.acls:
            return ()
        old, new = self._by_path(before.acls), self._by_path(after.acls)
        return [path for path in {**old, **new} if _entries(old, path) != _entries(new, path)]

    def entity(self, directory: str, child: str) -> str:
        return f"{directory}/{child}"

    def roots(self, name: str) -> tuple[str, ...]:
        return (name,)

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        entries = _entries(self._by_path(image.acls), name)
        if entries:
            yield name, Znode(AclEntries(entries).encode())

    def notes(self, path: str) -> Iterable[TreeOperation]:
        resource = AclResource.of_path(path)
        if resource is None:
            return ()
        change = AclChangeNote(resource.type.name, resource.name, resource.prefixed)
        sentence = f"Telling of changed ACLs of {path}"
        return (note(change.prefix, change.encode(), sentence, "AclChange", path),)

    def same(self, path: str, expected: bytes | None, found: bytes | None) -> bool:
        """True for equal sets, since Kafka kept no order."""
        if expected == found:
            return True
        wanted, actual = (decode_or_none(AclEntries.decode, data) for data in (expected, found))
        return wanted is not None and wanted == actual

    def _by_path(self, acls: AclsImage) -> Grouped:
        for known, grouped in self._grouped:
            if known is acls:
                return grouped
        grouped = _group(acls)
        self._grouped = [*self._grouped[-1:], (acls, grouped)]
        return grouped


def path_of(record: AccessControlEntryRecord) -> str | None:
    """Returns the path of the ACL's znode; None for one that ZooKeeper cannot show."""
    try:
        kind = ResourceType(record.resource_type)
        pattern = PatternType(record.pattern_type)
    except ValueError:
        return None
    known = kind > ResourceType.ANY and pattern in (PatternType.LITERAL, PatternType.PREFIXED)
    if not known or not is_znode_name(record.resource_name):
        return None
    return AclResource(kind, record.resource_name, pattern is PatternType.PREFIXED).path


def _group(acls: AclsImage) -> Grouped:
    grouped: Grouped = defaultdict(list)
    for record in acls.values():
        path, entry = path_of(record), _entry(record)
        if path is not None and entry is not None:
            grouped[path].append(entry)
    return dict(grouped)


def _entry(record: AccessControlEntryRecord) -> AclEntry | None:
    try:
        operation, permission = AclOperation(record.operation), Permission(record.permission_type)
    except ValueError:  # The ACL is from a later Kafka.
        return None
    if operation <= AclOperation.ANY or permission <= Permission.ANY:
        return None
    return AclEntry(record.principal, record.host, operation, permission)


def _entries(grouped: Grouped, path: str) -> frozenset[AclEntry]:
    return frozenset(grouped.get(path, ()))
