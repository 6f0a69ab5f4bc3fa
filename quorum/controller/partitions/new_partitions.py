"""New partitions: replicas from the request or from placement, and their first leader.

Source: Kafka's `ReplicationControlManager`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.partitions.placement import PlacementPrng, place_replicas
from trimaran.quorum.metadata.image import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionImage,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId


def check_assignment(
    broker_ids: Sequence[BrokerId], image: MetadataImage, factor: int | None = None
) -> None:
    """Raises KafkaError INVALID_REPLICA_ASSIGNMENT unless the ids are distinct registered brokers, `factor` of them."""
    why = None
    unknown = sorted(
        broker_id_ for broker_id_ in broker_ids if broker_id_ not in image.cluster.brokers
    )
    twice = sorted(broker_id for broker_id, times in Counter(broker_ids).items() if times > 1)
    if not broker_ids:
        why = "an empty replica list."
    elif unknown:
        why = f"broker {unknown[0]}, but no such broker is registered."
    elif twice:
        why = f"the broker {twice[0]} more than once."
    elif factor not in (None, len(broker_ids)):
        why = (
            f"a partition with {len(broker_ids)} replica(s), but this is not consistent with previous partitions, "
            f"which have {factor} replica(s)."
        )
    if why is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes {why}",
        )


class NewPartitions:
    """Builds partitions from replicas. The state of brokers is read once, because there may be thousands of partitions.
    Partitions with the same replicas share one value.
    """

    def __init__(self, image: MetadataImage) -> None:
        brokers = image.cluster.brokers
        self._active = {broker_id for broker_id, broker in brokers.items() if broker.active}
        self._directory = {broker: default_directory(image, broker) for broker in brokers}
        self.image = image
        self._made: dict[tuple[BrokerId, ...], PartitionImage] = {}

    def placed(self, count: int, factor: int, prng: PlacementPrng) -> Steps[list[PartitionImage]]:
        """Places `count` partitions. Raises KafkaError INVALID_REPLICATION_FACTOR if `factor` exceeds the number of
        brokers.
        """
        made = []
        for replicas in place_replicas(self.image.cluster.brokers.values(), count, factor, prng):
            made.append(self.make(replicas))
            yield 1
        return made

    def make(self, replicas: tuple[BrokerId, ...]) -> PartitionImage:
        """Returns a partition with these replicas. Raises KafkaError INVALID_REPLICATION_FACTOR if no replica is
        active.
        """
        made = self._made.get(replicas)
        if made is None:
            made = self._made[replicas] = self._make(replicas)
        return made

    def assigned(
        self, index: int, broker_ids: Sequence[BrokerId], factor: int | None = None
    ) -> PartitionImage:
        """Returns partition `index` with the assigned replicas. Raises KafkaError INVALID_REPLICA_ASSIGNMENT if they
        are invalid.
        """
        check_assignment(broker_ids, self.image, factor)
        try:
            return self.make(tuple(broker_ids))
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                f"controlled "
                "shutdown.",
            ) from error

    def _make(self, replicas: tuple[BrokerId, ...]) -> PartitionImage:
        """Builds a partition. Active replicas are in sync from the start, as there is nothing to replicate; the first
        one leads.
        """
        isr = tuple([replica for replica in replicas if replica in self._active])
        if not isr:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "All brokers are currently fenced or in controlled shutdown.",
            )
        directories = tuple([self._directory[replica] for replica in replicas])
        return PartitionImage(replicas=replicas, directories=directories, isr=isr, leader=isr[0])


def default_directory(image: MetadataImage, broker_id: BrokerId) -> bytes:
    """Returns the directory of a new replica: a broker with several directories chooses one itself and reports it
    later.
    """
    broker = image.cluster.brokers.get(broker_id)
    directories = () if broker is None else broker.directories
    if len(directories) == 1:
        return directories[0]
    return UNASSIGNED_DIRECTORY if directories else MIGRATING_DIRECTORY
