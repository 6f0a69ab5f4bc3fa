"""Differences between a tree that was read and the image, and the operations that repair them, entity by entity. Pure.

Znodes that may not be read are reported separately and left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import (
    FoundTree,
    FoundZnode,
    TreeOperation,
    Znode,
    create,
    delete,
    set_data,
)

Kind = Literal["missing", "extra", "different", "owner", "unreadable"]
Spared = Callable[[str], bool]


class Difference(NamedTuple):
    """A difference. The kind `owner` means that the znode is wrongly ephemeral or persistent, or belongs to another
    session.
    """

    kind: Kind
    path: str
    expected: Znode | None
    found: FoundZnode | None


def nothing(path: str) -> bool:
    """The predicate `spared` that spares no path."""
    del path
    return False


def differences(
    section: Section,
    name: str,
    found: FoundTree,
    image: MetadataImage,
    session_id: int | None = None,
    spared: Spared = nothing,
) -> Iterator[Difference]:
    """Yields extra znodes first, children before their parents; then all other differences, parents first.

    `session_id` is the session that must own ephemeral znodes, None for any. Znodes for which `spared` is true are left
    alone.
    """
    expected = dict(section.znodes(name, image))
    standing: set[str] = set()
    for path in sorted((path for path in found if path not in expected), reverse=True):
        actual = found[path]
        if spared(path) or _means_nothing(section, path, actual):
            standing.add(path.rpartition("/")[0])
        elif path in standing:
            standing.add(path.rpartition("/")[0])
            if section.spares(path, None):  # It stays as the parent of other znodes, without data.
                yield Difference("different", path, Znode(None), actual)
        else:
            yield Difference("extra", path, None, actual)
    for path, znode in expected.items():
        kind = _kind(section, path, znode, found.get(path), session_id)
        if kind is not None and not spared(path):
            yield Difference(kind, path, znode, found.get(path))


def repair(
    section: Section,
    name: str,
    found: FoundTree,
    image: MetadataImage,
    session_id: int,
    spared: Spared = nothing,
) -> list[TreeOperation]:
    """Returns the operations that make the znodes of an entity equal to the image's, then their notes."""
    operations: list[TreeOperation] = []
    notes: list[TreeOperation] = []  # Notes come last, since their parent may be missing too.
    for difference in differences(section, name, found, image, session_id, spared):
        operations += _operations(section, difference)
        if _is_reported(section, difference):
            notes += section.notes(difference.path)
    return operations + notes


def _kind(
    section: Section, path: str, znode: Znode, actual: FoundZnode | None, session_id: int | None
) -> Kind | None:
    if actual is None:
        return "missing"
    if actual.refusal:
        return "unreadable"
    if znode.ephemeral != bool(actual.owner):
        return "owner"
    if znode.ephemeral and session_id is not None and actual.owner != session_id:
        return "owner"
    return None if section.same(path, znode.data, actual.data) else "different"


def _means_nothing(section: Section, path: str, actual: FoundZnode) -> bool:
    return not actual.refusal and not actual.owner and section.spares(path, actual.data)


def _operations(section: Section, difference: Difference) -> Iterable[TreeOperation]:
    path, znode = difference.path, difference.expected
    if znode is None:
        sentence = f"Deleting {path}, which the image does not have"
        yield delete(path, "DeleteExtra", sentence, section.keeps())
    elif difference.kind == "missing":
        sentence = f"Creating {path}, which was missing"
        yield create(path, znode, "CreateMissing", sentence, section.keeps())
    elif difference.kind == "different":
        sentence = f"Updating {path}, which differed"
        yield set_data(path, znode, "UpdateDifferent", sentence, section.keeps())
    elif difference.kind == "owner" and difference.found is not None:
        owner = difference.found.owner
        whose = f"session {owner:#x}" if owner else "no session"
        sentence = f"Taking over {path}, which belonged to {whose}"
        yield delete(path, "TakeOver", sentence)
        yield create(path, znode, "TakeOver", sentence)


def _is_reported(section: Section, difference: Difference) -> bool:
    if difference.kind in ("owner", "unreadable"):
        return False
    if difference.kind != "missing" or difference.expected is None:
        return True
    return not section.is_new(difference.path, difference.expected)
