"""Selection of the replica that a consumer reads from: the leader, or a follower that the leader prefers (KIP-392).

Source: Kafka's `RackAwareReplicaSelector`, `ReplicaManager.findPreferredReadReplica`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from trimaran.broker.metadata.endpoints import endpoint_of
from trimaran.broker.partitions.isr import ReplicaProgress
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.quorum.metadata.image import BrokerRegistration, ClusterImage
from trimaran.wire.identity import BrokerId, Offset

FROM_LEADER = BrokerId(-1)


class ClientMetadata(NamedTuple):
    """A consumer's rack and the listener of its connection."""

    rack: str
    listener: str


ReplicaSelector: TypeAlias = Callable[
    [PartitionLeader, Offset, ClientMetadata, ClusterImage, BrokerId], BrokerId
]
"""Returns the broker to read from, or FROM_LEADER, for a leader, offset, client, cluster and the id of this broker."""


def rack_aware(
    leader: PartitionLeader,
    offset: Offset,
    client: ClientMetadata,
    cluster: ClusterImage,
    node_id: BrokerId,
) -> BrokerId:
    """Returns a replica in the client's rack: the leader if it is in that rack, else the most advanced in-sync replica.

    Replicas that do not have `offset` or do not have the client's listener are skipped.
    """
    own = cluster.brokers.get(node_id)
    if not client.rack or (own is not None and own.rack == client.rack):
        return FROM_LEADER
    in_sync = leader.isr.isr
    near = {
        replica_id: progress
        for replica_id, progress in leader.followers.items()
        if replica_id in in_sync
        and (broker := cluster.brokers.get(replica_id)) is not None
        and broker.rack == client.rack
        and _serves(broker, progress, offset, client.listener)
    }
    return max(
        near,
        key=lambda one: (near[one].end_offset, near[one].caught_up_at, one),
        default=FROM_LEADER,
    )


def _serves(
    broker: BrokerRegistration, progress: ReplicaProgress, offset: Offset, listener: str
) -> bool:
    has_offset = progress.log_start_offset <= offset <= progress.end_offset
    return has_offset and not broker.fenced and endpoint_of(broker, listener) is not None


SELECTORS: dict[str, ReplicaSelector] = {
    "rack-aware": rack_aware,
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": rack_aware,
}
"""The selectors by the values of `replica.selector.class`, which `node/config/broker_keys.py` also lists."""
