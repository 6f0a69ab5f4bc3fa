"""The brokers and replicas that a client of one listener can reach, according to the metadata.

Source: Kafka's `KRaftMetadataCache` (`getAliveEndpoint`, `isReplicaOffline`), KIP-858 for directories.
"""

from __future__ import annotations

from trimaran.broker.metadata.endpoints import endpoint_of
from trimaran.quorum.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from trimaran.wire.identity import BrokerId


class Reachable:
    """The live brokers of `cluster` that have the named listener."""

    def __init__(self, cluster: ClusterImage, listener: str) -> None:
        self._brokers = {
            broker.id: broker
            for broker in cluster.brokers.values()
            if not broker.fenced and endpoint_of(broker, listener) is not None
        }

    def __contains__(self, broker_id: BrokerId) -> bool:
        return broker_id in self._brokers

    def leader(self, partition: PartitionImage) -> BrokerId:
        """Returns the leader, or -1 if there is none or it cannot be reached."""
        return partition.leader if partition.leader in self._brokers else NO_LEADER

    def offline(self, partition: PartitionImage) -> list[BrokerId]:
        """Returns the replicas whose broker cannot be reached or has lost their directory."""
        return [
            replica
            for replica, directory in zip(partition.replicas, partition.directories, strict=True)
            if (broker := self._brokers.get(replica)) is None or not broker.has_online(directory)
        ]
