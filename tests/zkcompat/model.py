"""Whole trees, plans and comparisons, to which tests compare the mirror."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.comparing.differences import differences, repair
from trimaran.zkcompat.comparing.verify import (
    ReportedDifference,
    TreeVerification,
    VerifyReport,
    _difference,
)
from trimaran.zkcompat.quorum_feed.feed import ImageFeed, PendingChanges
from trimaran.zkcompat.sections.registry import SectionIndex, Sections, sections_of
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import (
    FoundTree,
    FoundZnode,
    OperationKind,
    TreeOperation,
    Znode,
)
from trimaran.zkcompat.zookeeper.keeper import Keeper

WITHOUT_SECRETS = sections_of("")


def plan(
    delta: MetadataDelta, image: MetadataImage, sections: Sections = WITHOUT_SECRETS
) -> list[TreeOperation]:
    """Returns the operations that lead from the tree of `delta`'s image to that of `image`."""
    changes = PendingChanges()
    changes.add(delta)
    return plan_changes(delta.image, image, changes, sections)


def plan_changes(
    before: MetadataImage,
    after: MetadataImage,
    changes: PendingChanges,
    sections: Sections = WITHOUT_SECRETS,
) -> list[TreeOperation]:
    """Returns the operations for several deltas together; `changes` names the entities that may differ between the two
    images.
    """
    return [
        operation
        for section in sections
        for name in changes.names(section, before, after)
        for operation in section.plan(name, before, after)
    ]


def render(
    image: MetadataImage, cluster_id: str, sections: Sections | None = None
) -> dict[str, Znode]:
    """Returns every znode of the mirror except the claim's three; `sections` default to those without secrets."""
    chosen = sections_of(cluster_id) if sections is None else sections
    return {
        path: znode
        for section in chosen
        for name in section.names(image)
        for path, znode in section.znodes(name, image)
    }


def reconcile(
    found: FoundTree,
    image: MetadataImage,
    cluster_id: str,
    session_id: int,
    sections: Sections | None = None,
) -> list[TreeOperation]:
    """Repairs every entity of a whole tree with `repair`, including those that the image lacks."""
    chosen = sections_of(cluster_id) if sections is None else sections
    return [
        operation
        for section, name, part in entities(found, image, chosen)
        for operation in repair(section, name, part, image, session_id)
    ]


def apply_to(tree: Mapping[str, Znode], operations: Iterable[TreeOperation]) -> dict[str, Znode]:
    """Returns the tree after the operations, with ZooKeeper's refusals as ValueError; sequential creates leave nothing
    behind.

    Tests check the plan against this model.
    """
    result = dict(tree)
    for operation in operations:
        _apply(result, operation)
    return result


def _apply(tree: dict[str, Znode], operation: TreeOperation) -> None:
    path = operation.path
    parent = path.rpartition("/")[0]
    if operation.kind is OperationKind.CREATE:
        if parent and parent not in tree:
            raise ValueError(f"NoNode: {parent} for {operation}")
        if operation.sequential:
            return
        if path in tree:
            raise ValueError(f"NodeExists: {operation}")
        tree[path] = Znode(operation.data, operation.ephemeral)
        return
    if path not in tree:
        raise ValueError(f"NoNode: {operation}")
    if operation.kind is OperationKind.SET:
        tree[path] = Znode(operation.data, tree[path].ephemeral)
    elif any(other.startswith(f"{path}/") for other in tree):
        raise ValueError(f"NotEmpty: {operation}")
    else:
        del tree[path]


def entities(
    found: FoundTree, image: MetadataImage, sections: Sections
) -> Iterator[tuple[Section, str, FoundTree]]:
    """Yields every entity of the image or the tree with its part of the tree."""
    parts: dict[tuple[str, str], dict[str, FoundZnode]] = defaultdict(dict)
    index = SectionIndex(sections)
    for path, znode in found.items():
        place = index.entity_at(path)
        if place is not None:
            parts[place[0].label, place[1]][path] = znode
    for section in sections:
        known = [name for label, name in parts if label == section.label]
        for name in dict.fromkeys([*section.names(image), *known]):
            singles = {path: found[path] for path in section.singles(name) if path in found}
            yield section, name, {**singles, **parts.get((section.label, name), {})}


def compare(
    found: FoundTree, image: MetadataImage, cluster_id: str, sections: Sections | None = None
) -> tuple[ReportedDifference, ...]:
    """Returns the differences between a tree that was read and `image`, without the claim."""
    chosen = sections_of(cluster_id) if sections is None else sections
    return tuple(
        _difference(*difference)
        for section, name, part in entities(found, image, chosen)
        for difference in differences(section, name, part, image)
    )


async def verify(
    feed: ImageFeed,
    keeper: Keeper,
    cluster_id: str,
    time_limit_seconds: float = 10.0,
    *,
    secrets: bool = False,
) -> VerifyReport:
    """Verifies as `TreeVerification.run` does."""
    sections = sections_of(cluster_id, secrets=secrets)
    return await TreeVerification(feed, keeper, sections).run(time_limit_seconds)
