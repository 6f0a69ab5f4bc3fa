"""The history of one resource, change by change, as far back as a metadata log reaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trimaran.inspect.metadata.events import (
    Change,
    ConfigChange,
    Happened,
    events_of,
    kind_of,
    shown,
)
from trimaran.quorum.metadata.replay import Replay
from trimaran.wire.identity import Offset, TopicPartition

if TYPE_CHECKING:
    from trimaran.inspect.metadata.source import MetadataSource
    from trimaran.quorum.metadata.image import MetadataImage

NOT_KNOWN = -1  # the time of changes before the snapshot


class History:
    """The histories in one log, which is read once. Raises UserError and RemoteProtocolError as the source does."""

    def __init__(self, source: MetadataSource) -> None:
        self._source = source
        self._replay = Replay()
        base = source.begins_after()
        if base is not None:
            self._replay.load_snapshot(base.end_offset, base.epoch, base.data)
        self._begin_offset = self._replay.next_offset - 1

    def of_partition(self, wanted: TopicPartition) -> Iterator[tuple[bytes, Change]]:
        """Returns leaders, ISRs and replicas with the topic id, the oldest first, for every topic that had the name."""
        known = self._replay.state.image.topics.by_name.get(wanted.topic)
        now = None if known is None else known.partitions.get(wanted.partition)
        if known is not None and now is not None:
            yield (
                known.id,
                Change(self._begin_offset, NOT_KNOWN, now.leader, now.isr, now.replicas),
            )
        for happened, image in self._batches():
            for (topic_id, index), change in happened.changes.items():
                if wanted == (image.topics.by_id[topic_id].name, index):
                    yield topic_id, change

    def of_configs(self, resource: tuple[int, str] | None) -> Iterator[ConfigChange]:
        """Returns the changes of configs, the oldest first: those of one resource by type and name, or all."""
        wanted = None if resource is None else (kind_of(resource[0]), resource[1])
        for change in configs_of(self._replay.state.image, self._begin_offset):
            if wanted in (None, (change.kind, change.resource)):
                yield change
        for happened, _ in self._batches():
            for change in happened.configs:
                if wanted in (None, (change.kind, change.resource)):
                    yield change

    def knows(self, topic: str) -> bool:
        """Whether the log has a topic of this name."""
        return topic in self._replay.state.image.topics.by_name

    @property
    def unknown(self) -> str:
        """Names the skipped records of a later Kafka; empty if there were none."""
        return self._replay.state.unknown

    def _batches(self) -> Iterator[tuple[Happened, MetadataImage]]:
        """Yields the events of each batch, and the state after it."""
        for batch in self._source.batches(self._replay.next_offset):
            before = self._replay.state.image
            self._replay.apply(batch)
            after = self._replay.state.image
            yield events_of(batch, before, after), after


def configs_of(image: MetadataImage, offset: Offset) -> Iterator[ConfigChange]:
    """Returns the configs in the image at the beginning of a log; their times are unknown."""
    for (kind, resource), values in image.configs.by_resource.items():
        for name, value in values.items():
            yield ConfigChange(
                *(offset, NOT_KNOWN, kind_of(kind), resource),
                *(name, shown(kind, name, value), None),
            )
