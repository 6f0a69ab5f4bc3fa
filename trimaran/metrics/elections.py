"""Elections that a controller has seen in the metadata. Source: Kafka's `ControllerMetadataMetricsPublisher`."""

from __future__ import annotations

from trimaran.metrics.families import Table, counter
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from trimaran.quorum.metadata.loader import Manifest, MetadataLoader


class ElectionCounts:
    """A `Publisher`. Counts the elections since this process began to follow the metadata; a snapshot contains no
    elections.
    """

    def __init__(self) -> None:
        self.elections = 0
        self.unclean_elections = 0
        self._follows: MetadataLoader | None = None

    def follow(self, loader: MetadataLoader) -> None:
        """Counts the elections that this loader publishes from now on; a second call with the same loader does
        nothing.
        """
        if self._follows is not loader:
            self._follows = loader
            loader.add_publisher(self)

    def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: Manifest) -> None:  # noqa: ARG002
        if manifest.is_snapshot:
            return
        for topic in delta.topics.changed.values():
            for index, new in topic.partitions.items():
                old = topic.image.partitions.get(index)
                if old is not None and new.leader not in (old.leader, NO_LEADER):
                    self.elections += 1
                    self.unclean_elections += _is_unclean(old, new)


_STATS = "kafka_controller_controllerstats"
ELECTION_METRICS: Table[ElectionCounts] = (
    counter(
        f"{_STATS}_leaderelections", "Partitions that got another leader.", lambda c: c.elections
    ),
    counter(
        f"{_STATS}_uncleanleaderelections",
        "The same, from outside the ISR: committed records may be lost.",
        lambda c: c.unclean_elections,
    ),
)


def _is_unclean(old: PartitionImage, new: PartitionImage) -> bool:
    return new.leader not in old.isr and new.leader not in old.elr
