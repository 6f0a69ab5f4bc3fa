"""One kind of mirrored entity: its part of the image, its znodes, and the operations for a change. Pure.

The name of an entity is text, like that of its znode. The mirror owns the whole entity: a znode below its `roots` that
is not among its `znodes` is extra, unless `spares` is true for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, TypeVar

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.tree.operations import Keeps, TreeOperation, Znode, create, delete, set_data

K = TypeVar("K")


class Section(ABC):
    """`label` names the section, and its operations in the log.

    `directories` are the znodes whose children are the entities.
    """

    label: ClassVar[str]
    directories: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def names(self, image: MetadataImage) -> Iterable[str]:
        """Returns all entities of the image that have znodes."""

    @abstractmethod
    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        """Returns the entities that a delta may have changed."""

    @abstractmethod
    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        """Returns the entities that differ between the images, deleted ones included."""

    @abstractmethod
    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        """Returns the znodes of the entity, parents first; none if the image does not have it."""

    def size(self, name: str, image: MetadataImage) -> int:
        """Estimates the number of the entity's znodes."""
        del name, image
        return 1

    def entity(self, directory: str, child: str) -> str:
        """Returns the entity of a child of one of the directories."""
        del directory
        return child

    def roots(self, name: str) -> tuple[str, ...]:
        """Returns the roots: everything at and below them belongs to the entity."""
        return tuple(f"{directory}/{name}" for directory in self.directories)

    def singles(self, name: str) -> tuple[str, ...]:
        """Returns znodes of the entity below which other clients may write."""
        del name
        return ()

    def plan(
        self, name: str, before: MetadataImage, after: MetadataImage
    ) -> Iterator[TreeOperation]:
        """Yields the operations that lead from one image's znodes to the other's, then their notes."""
        old, new = dict(self.znodes(name, before)), dict(self.znodes(name, after))
        notes: list[TreeOperation] = []
        for path in reversed([path for path in old if path not in new]):
            yield delete(path, f"Delete{self.label}", f"Delete {self.label} {name}", self.keeps())
            notes += self.notes(path)
        for path, znode in new.items():
            if path not in old:
                sentence = f"Create {self.label} {name}"
                yield create(path, znode, f"Update{self.label}", sentence, self.keeps())
            elif old[path].data != znode.data:
                sentence = f"Update {self.label} {name}"
                yield set_data(path, znode, f"Update{self.label}", sentence, self.keeps())
            else:
                continue
            notes += self.notes(path) if znode.data is not None else ()
        yield from notes

    def notes(self, path: str) -> Iterable[TreeOperation]:
        """Returns the notes to write when the znode at `path` has changed."""
        del path
        return ()

    def is_new(self, path: str, znode: Znode) -> bool:
        """True for a missing znode that is created without a note."""
        del path
        return znode.data is None

    def same(self, path: str, expected: bytes | None, found: bytes | None) -> bool:
        """True if nothing needs to be written."""
        del path
        return (expected or b"") == (found or b"")

    def spares(self, path: str, data: bytes | None) -> bool:
        """True for a znode that the image does not have and that contradicts nothing mirrored."""
        del path, data
        return False

    def keeps(self) -> Keeps | None:
        """Returns the predicate for foreign keys of a shared config znode, which stay; None if all keys belong to the
        mirror.
        """
        return None


def differing_keys(before: Mapping[K, object], after: Mapping[K, object]) -> list[K]:
    """Returns the keys whose values are not the same object; persistent maps share unchanged values."""
    if before is after:
        return []
    gone = [key for key in before if key not in after]
    return gone + [key for key, value in after.items() if before.get(key) is not value]
