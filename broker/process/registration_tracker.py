"""Has the broker register again, in the same incarnation, once the cluster can store its log directories.

Below metadata.version 3.7-IV2 a registration has no room for them, and a directory that the controller does not know
cannot fail.
Source: Kafka's `BrokerRegistrationTracker`, KIP-858.
"""

from __future__ import annotations

from collections.abc import Callable

from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.loader import Manifest


class RegistrationTracker:
    """A `Publisher`; `register_again` is called once for each image that lacks the directories and might not."""

    def __init__(self, node_id: int, register_again: Callable[[], None]) -> None:
        self._node_id = node_id
        self._register_again = register_again

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        registered = image.cluster.brokers.get(self._node_id)
        has_changed = (
            delta.features.metadata_version is not None
            or self._node_id in delta.cluster.changed_brokers
        )
        can_be_told = image.features.metadata_version >= versions.DIRECTORY_ASSIGNMENT
        if has_changed and can_be_told and registered is not None and not registered.directories:
            self._register_again()
