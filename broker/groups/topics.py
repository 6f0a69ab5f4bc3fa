"""The topics of the metadata as seen by groups.

Source: Kafka's `Utils.computeGroupHash` (KIP-1101): a group detects by a hash that its topics were created, deleted or
extended. Intentional differences: racks are not part of the hash, because no assignor uses them, and the hash function
is a different one. A coordinator of Apache Kafka that takes over therefore computes a different hash, and increments
the group's epoch once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.identity import Offset

_COUNT = struct.Struct(">i")


class Topic(NamedTuple):
    """A topic whose partitions may be assigned to members."""

    name: str
    id: bytes
    partition_count: int


class Topics(Protocol):
    """One version of the metadata."""

    @property
    def version(self) -> object:
        """An object that differs whenever any topic may have changed."""

    @property
    def offset(self) -> Offset:
        """The offset of this version in the metadata log."""

    def find(self, name: str) -> Topic | None: ...

    def name_of(self, topic_id: bytes) -> str | None: ...

    def names(self) -> Iterable[str]:
        """Returns the names of all topics."""

    def __len__(self) -> int: ...


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Returns a signed 64-bit hash of the ids and partition counts of the existing topics; 0 if there are none."""
    found = [topic for name in sorted(names) if (topic := topics.find(name)) is not None]
    if not found:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for topic in found:
        digest.update(topic.id + _COUNT.pack(topic.partition_count))
    return int.from_bytes(digest.digest(), "big", signed=True)


class ImageTopics:
    """The topics of one metadata image, in the form that consumer groups use (`Topics`)."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.topics
        self.version: object = image.topics.by_name
        self.offset = image.provenance.offset

    def find(self, name: str) -> Topic | None:
        found = self._topics.by_name.get(name)
        return None if found is None else Topic(name, found.id, len(found.partitions))

    def name_of(self, topic_id: bytes) -> str | None:
        found = self._topics.by_id.get(topic_id)
        return None if found is None else found.name

    def names(self) -> Iterable[str]:
        return self._topics.by_name.keys()

    def __len__(self) -> int:
        return len(self._topics.by_name)


def newest_topics(image: Callable[[], MetadataImage]) -> Callable[[], Topics]:
    """Returns a function that returns the topics of the newest image; one object per image."""
    known: list[tuple[MetadataImage, ImageTopics]] = []

    def topics() -> Topics:
        now = image()
        if not known or known[0][0] is not now:
            known[:] = [(now, ImageTopics(now))]
        return known[0][1]

    return topics
