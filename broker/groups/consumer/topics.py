"""The topics of the metadata as groups see them.

Source: Kafka's `Utils.computeGroupHash` (KIP-1101): a group notices by a hash that topics which it reads have come,
gone or grown. Different on purpose: racks are not in it, as no assignor looks at them, and it is another function. So
a coordinator of Apache Kafka that takes over finds another hash than its own, and counts the group's epoch up once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from trimaran.quorum.metadata.image import MetadataImage

_COUNT = struct.Struct(">i")


class Topic(NamedTuple):
    """A topic that members may be assigned partitions of."""

    name: str
    id: bytes
    partition_count: int


class Topics(Protocol):
    """One state of the metadata."""

    @property
    def version(self) -> object:
        """Another object whenever anything may have changed."""

    @property
    def offset(self) -> int:
        """The offset of this state in the metadata log."""

    def find(self, name: str) -> Topic | None: ...

    def name_of(self, topic_id: bytes) -> str | None: ...

    def names(self) -> Iterable[str]:
        """All of them."""

    def __len__(self) -> int: ...


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Returns a hash of ids and partition counts of the topics that exist; 0 if there are none. 64 bits with a sign."""
    found = [topic for name in sorted(names) if (topic := topics.find(name)) is not None]
    if not found:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for topic in found:
        digest.update(topic.id + _COUNT.pack(topic.partition_count))
    return int.from_bytes(digest.digest(), "big", signed=True)


class ImageTopics:
    """The topics of one image of the metadata, as consumer groups ask for them (`Topics`)."""

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
    """Returns a function that gives the topics of the newest image; one object for each image."""
    known: list[tuple[MetadataImage, ImageTopics]] = []

    def topics() -> Topics:
        now = image()
        if not known or known[0][0] is not now:
            known[:] = [(now, ImageTopics(now))]
        return known[0][1]

    return topics
