"""Reads the tree in parts: each part has a few entities with all their znodes, so that memory and waits stay small."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.sections.registry import SectionIndex, Sections
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import FoundTree, FoundZnode
from trimaran.zkcompat.zookeeper.errors import PathRefusedError
from trimaran.zkcompat.zookeeper.keeper import Keeper

# This number is read in a few milliseconds; an entity with more znodes is a slice of its own.
ZNODES_IN_PART = 1000
ENTITIES_IN_PART = 200
# Kafka's layout has five below an entity's root. A level is a round trip or two, and another client may make a chain of
# thousands; deeper znodes are not read, so the znode above them cannot be deleted, and is held back.
LEVELS_MAX = 16


@dataclass(frozen=True, slots=True)
class TreePart:
    """A part of the tree; `found` has the znodes of each of the entities `names`."""

    section: Section
    names: Sequence[str]
    found: FoundTree

    def parts(self) -> Iterator[tuple[str, FoundTree]]:
        """Yields each entity with its part of the tree."""
        index = SectionIndex((self.section,))
        parts: dict[str, dict[str, FoundZnode]] = {name: {} for name in self.names}
        for path, znode in self.found.items():
            place = index.entity_at(path)
            if place is not None and place[1] in parts:
                parts[place[1]][path] = znode
        for name in self.names:
            singles = {p: self.found[p] for p in self.section.singles(name) if p in self.found}
            yield name, {**singles, **parts[name]}


Visit = Callable[[TreePart], Awaitable[None]]


async def visit_tree(
    keeper: Keeper,
    sections: Sections,
    image: MetadataImage,
    quarantine: Quarantine,
    visit: Visit,
) -> None:
    """Passes to `visit`, slice by slice, all entities that are in the tree or should be."""
    for section in sections:
        standing = await _standing(keeper, section, quarantine)
        names = dict.fromkeys([*section.names(image), *(standing or ())])
        await visit_entities(keeper, section, names, image, visit, standing)


async def visit_entities(
    keeper: Keeper,
    section: Section,
    names: Iterable[str],
    image: MetadataImage,
    visit: Visit,
    standing: set[str] | None = None,
) -> None:
    """Passes these entities to `visit`. `standing` are the entities with znodes, if known; other entities are not
    read.
    """
    for part in _portions(section, names, image):
        there = [name for name in part if standing is None or name in standing]
        roots = [root for name in there for root in section.roots(name)]
        singles = [path for name in part for path in section.singles(name)]
        await visit(TreePart(section, part, await read_entities(keeper, roots, singles)))


async def read_entities(
    keeper: Keeper, roots: Iterable[str], singles: Iterable[str]
) -> dict[str, FoundZnode]:
    """Returns the znodes of entities, down to `LEVELS_MAX`."""
    return await keeper.read_tree(roots, singles, levels_max=LEVELS_MAX)


def _portions(section: Section, names: Iterable[str], image: MetadataImage) -> Iterator[list[str]]:
    portion: list[str] = []
    size = 0
    for name in names:
        more = section.size(name, image)
        if portion and (size + more > ZNODES_IN_PART or len(portion) >= ENTITIES_IN_PART):
            yield portion
            portion, size = [], 0
        portion.append(name)
        size += more
    if portion:
        yield portion


async def _standing(keeper: Keeper, section: Section, quarantine: Quarantine) -> set[str] | None:
    """Returns the entities that have znodes; None if their parents may not be read."""
    found: set[str] = set()
    readable = True
    for directory in section.directories:
        try:
            children = await keeper.children(directory)
        except PathRefusedError as refused:
            quarantine.add(directory, "read", refused.reason)
            readable = False
            continue
        found.update(section.entity(directory, child) for child in children)
    return found if readable else None
