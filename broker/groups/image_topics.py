"""The topics of a metadata image, as consumer groups see them (`trimaran.broker.groups.consumer.topics.Topics`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trimaran.broker.groups.consumer.topics import Topic, Topics
from trimaran.quorum.metadata.image import MetadataImage


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
    """Of the newest image at each call; one object for each image."""
    known: list[tuple[MetadataImage, ImageTopics]] = []

    def topics() -> Topics:
        now = image()
        if not known or known[0][0] is not now:
            known[:] = [(now, ImageTopics(now))]
        return known[0][1]

    return topics
