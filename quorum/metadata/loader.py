"""From committed batches to images, and from each new image to those who want to know.

Source: Kafka's `MetadataLoader` and `MetadataPublisher`. A metadata transaction (KIP-868) becomes visible as a whole at its end, or not
at all. Publishers are called on the loop, in order, and must not block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from quorum.listener import CommittedBatch, LoadedSnapshot
from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import EMPTY, MetadataImage, Provenance
from wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from wire.schema import Message


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was loaded to make an image."""

    kind: Literal["log", "snapshot"]
    provenance: Provenance
    size_bytes: int


class Publisher(Protocol):
    """Somebody who follows the images."""

    def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: Manifest) -> None:
        """`image` is `delta` applied to the image before; called for every batch and every snapshot."""


class MetadataLoader:
    """A `MetadataListener` that never leads. `image` is the newest published one."""

    def __init__(self, publishers: Sequence[Publisher] = ()) -> None:
        self.image = EMPTY
        self._publishers = list(publishers)
        self._transaction: MetadataDelta | None = None

    def add(self, publisher: Publisher) -> None:
        """From now on `publisher` is called too; it is not told of what came before."""
        self._publishers.append(publisher)

    def apply_committed(self, batch: CommittedBatch) -> None:
        delta = self._transaction or MetadataDelta(self.image)
        for record in batch.records:
            delta = self._replay(delta, record)
        if self._transaction is None:
            provenance = Provenance(batch.last_offset, batch.epoch, batch.appended_at_ms)
            self._publish(delta, Manifest("log", provenance, batch.size_bytes))

    def _replay(self, delta: MetadataDelta, record: Message) -> MetadataDelta:
        match record:
            case BeginTransactionRecord():
                self._transaction = delta
            case EndTransactionRecord():
                self._transaction = None
            case AbortTransactionRecord():
                self._transaction = None
                return MetadataDelta(self.image)
            case _:
                delta.replay(record)
        return delta

    def load_snapshot(self, snapshot: LoadedSnapshot) -> None:
        self._transaction = None
        delta = MetadataDelta(self.image)
        for record in snapshot.records:
            delta.replay(record)
        delta.finish_snapshot()
        provenance = Provenance(snapshot.end_offset - 1, snapshot.epoch, snapshot.appended_at_ms)
        self._publish(delta, Manifest("snapshot", provenance, 0))

    def _publish(self, delta: MetadataDelta, manifest: Manifest) -> None:
        self.image = delta.apply(manifest.provenance)
        for publisher in self._publishers:
            publisher.publish(delta, self.image, manifest)

    async def lead(self, epoch: int) -> None:
        """An observer never leads."""
