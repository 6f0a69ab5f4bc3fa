"""Builds images from the Raft driver's batches and snapshots, and passes each image to publishers.

Source: Kafka's `MetadataLoader`, `MetadataBatchLoader`. A transaction of records (KIP-868) becomes visible at its end,
as if its batches were one batch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trimaran.quorum import events
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, MetadataImage, Provenance
from trimaran.quorum.metadata.records import delta_from_nothing
from trimaran.quorum.raft.listener import CommittedBatch, LoadedSnapshot
from trimaran.wire.identity import LeaderEpoch, Offset
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)

_OF_TRANSACTIONS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The origin of a delta; `size_bytes` is 0 for a snapshot."""

    provenance: Provenance
    is_snapshot: bool = False
    batch_count: int = 0
    size_bytes: int = 0


class Publisher(Protocol):
    """A receiver of metadata changes. It is called on the loop and must queue long work."""

    def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: Manifest) -> None:
        """Handles a change from `delta.image` to `image`."""


class MetadataLoader:
    """A `MetadataListener` that builds images; `image` is the newest published one."""

    def __init__(self, publishers: Sequence[Publisher] = (), image: MetadataImage = EMPTY) -> None:
        self.image = image
        self._publishers = list(publishers)
        self._delta = MetadataDelta(image)
        self._in_transaction = False
        self._batch_count = 0
        self._size_bytes = 0

    @property
    def in_transaction(self) -> bool:
        """Returns whether a transaction of records is open; `image` is then the image before it."""
        return self._in_transaction

    def add_publisher(self, *publishers: Publisher) -> None:
        """Adds publishers; if there is an image already, they receive the whole image as a change from the empty
        one.
        """
        self._publishers += publishers
        if self.image is EMPTY:
            return
        delta = delta_from_nothing(self.image)
        manifest = Manifest(self.image.provenance, is_snapshot=True)
        for publisher in publishers:
            publisher.publish(delta, self.image, manifest)

    def apply_committed(self, batch: CommittedBatch) -> None:
        """Replays a batch and publishes at its end, unless a transaction is open then.

        Raises:
            RemoteProtocolError: the log and the image do not match.
        """
        self._batch_count += batch.ends
        self._size_bytes += batch.size_bytes
        for offset, record in enumerate(batch.records, batch.base_offset):
            if type(record) in _OF_TRANSACTIONS:
                self._mark(
                    record, Provenance(Offset(offset - 1), batch.epoch, batch.appended_at_ms)
                )
            else:
                self._delta.replay(record)
        if batch.ends and not self._in_transaction:
            self._publish(Provenance(batch.last_offset, batch.epoch, batch.appended_at_ms))

    def _mark(self, record: Message | UnknownRecord, before: Provenance) -> None:
        """Handles the begin, end or abort of a transaction."""
        match record:
            case BeginTransactionRecord():
                # The records before the transaction must become visible, however it ends.
                if before.offset > self.image.provenance.offset and not self._in_transaction:
                    self._publish(before)
                self._in_transaction = True
            case EndTransactionRecord():
                self._in_transaction = False
            case _:
                self._delta = MetadataDelta(self.image)
                self._in_transaction = False

    def load_snapshot(self, snapshot: LoadedSnapshot) -> None:
        """Replaces the image by the snapshot's and publishes the difference. A snapshot that ends at offset 0 comes
        from `storage format` of Kafka 4.4: its records are not in force until the first active controller has written
        them to the log.
        """
        if snapshot.begins:
            self._delta, self._in_transaction = MetadataDelta(self.image), False
            self._batch_count = self._size_bytes = 0
        if snapshot.end_offset > 0:
            for record in snapshot.records:
                self._delta.replay(record)
        if not snapshot.ends:
            return
        self._delta.finish_snapshot()
        provenance = Provenance(snapshot.end_offset - 1, snapshot.epoch, snapshot.appended_at_ms)
        self._publish(provenance, is_snapshot=True)

    def _publish(self, provenance: Provenance, *, is_snapshot: bool = False) -> None:
        delta = self._delta
        manifest = Manifest(provenance, is_snapshot, self._batch_count, self._size_bytes)
        self.image = delta.apply(provenance)
        self._delta = MetadataDelta(self.image)
        self._batch_count = self._size_bytes = 0
        for publisher in self._publishers:
            try:
                publisher.publish(delta, self.image, manifest)
            except Exception:  # other publishers must still be notified  # noqa: BLE001 - it is logged, with its traceback
                events.METADATA_PUBLISHER_FAILED.log(
                    log, exc_info=True, publisher=type(publisher).__name__, offset=provenance.offset
                )

    async def lead(self, epoch: LeaderEpoch) -> None:
        """Does nothing, because an observer never leads."""
