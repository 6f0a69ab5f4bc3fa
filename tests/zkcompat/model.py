"""A whole tree and whole plans, against which tests compare the mirror: each works on values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.comparing.differences import entities, repair
from trimaran.zkcompat.quorum_feed.feed import PendingChanges
from trimaran.zkcompat.sections.registry import WITHOUT_SECRETS, Sections, sections_of
from trimaran.zkcompat.tree.operations import OperationKind, TreeOperation
from trimaran.zkcompat.tree.znode import FoundTree, Znode


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
    """The same over several deltas at once: `changes` names what may differ between the two images."""
    return [
        operation
        for section in sections
        for name in changes.names(section, before, after)
        for operation in section.plan(name, before, after)
    ]


def render(
    image: MetadataImage, cluster_id: str, sections: Sections | None = None
) -> dict[str, Znode]:
    """Every znode of the mirror except the claim's three; `sections` are those without secrets if not given."""
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
    """`repair` of every entity of a whole tree, those that the image does not have included."""
    chosen = sections_of(cluster_id) if sections is None else sections
    return [
        operation
        for section, name, part in entities(found, image, chosen)
        for operation in repair(section, name, part, image, session_id)
    ]


def apply_to(tree: Mapping[str, Znode], operations: Iterable[TreeOperation]) -> dict[str, Znode]:
    """Returns the tree after the operations, with ZooKeeper's refusals as ValueError; sequential creates leave nothing
    behind.

    The model against which tests check the plan.
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
