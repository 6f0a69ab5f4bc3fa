"""The broker's view of the cluster: the newest applied image, and a way to wait for a later one.

Source: Kafka's `KRaftMetadataCache`. Handlers may read the image freely: it never changes.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from trimaran.quorum.metadata.image import BrokerRegistration, MetadataImage
from trimaran.wire.identity import BrokerId
from trimaran.wire.transport.scheduling.events import Notifier

# The time for which a fenced broker is still listed: a client that lost it requests metadata within a second or two.
LISTED_SECONDS = 3.0


class BrokerMetadata:
    """The newest image; `applied_offset` is the offset of the last image that this broker's partitions have applied."""

    def __init__(self, image: MetadataImage, now: Callable[[], float] = trio.current_time) -> None:
        self.image = image
        self.applied_offset = image.provenance.offset
        self._now = now
        self._changed = Notifier()
        self._fenced_at: dict[BrokerId, float] = {}  # bounded by the registered brokers

    def set(self, image: MetadataImage) -> None:
        """Replaces the image; `BrokerPublisher` updates the partitions."""
        if image.cluster is not self.image.cluster:
            self._note_fenced(image)
        self.image = image
        self._changed.notify_all()

    def is_listed(self, broker: BrokerRegistration) -> bool:
        """Whether Metadata lists the broker: it is live, or was until a moment ago.

        librdkafka drops a broker as soon as it is not listed, and with it, for a second, the partitions that are about
        to move to their new leader. A dead address in the list costs a client one refused connection.
        """
        if not broker.fenced:
            return True
        fenced_at = self._fenced_at.get(broker.id)
        return fenced_at is not None and self._now() - fenced_at < LISTED_SECONDS

    def _note_fenced(self, image: MetadataImage) -> None:
        before = self.image.cluster.brokers
        for broker_id, broker in image.cluster.brokers.items():
            if not broker.fenced:
                self._fenced_at.pop(broker_id, None)
            elif (known := before.get(broker_id)) is not None and not known.fenced:
                self._fenced_at[broker_id] = self._now()

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> MetadataImage:
        """Returns the first image that satisfies `predicate`; callers bound the wait with a cancel scope."""
        while not predicate(self.image):
            await self._changed.wait()
        return self.image
