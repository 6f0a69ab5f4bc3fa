"""Who leads now, for a client that asked the wrong broker: it need not ask for metadata first (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.metadata.endpoints import leader_endpoints
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.quorum.metadata.image import ClusterImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceResponse

VERSION_NAMING_LEADERS = 10


def name_current_leaders(
    response: ProduceResponse,
    appends: Iterable[PartitionAppend],
    partitions: Partitions,
    cluster: ClusterImage,
    listener: str,
) -> None:
    """Into `response`, of version 10 and up: the leaders of partitions that are not led here, and where `listener` of
    each is.
    """
    named = []
    for one in appends:
        if one.response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            state = partitions.state_of(*one.key)
            if state is not None:
                one.response.current_leader = LeaderIdAndEpoch(
                    leader_id=state.leader, leader_epoch=state.leader_epoch
                )
                named.append(one.response.current_leader)
    if named:
        response.node_endpoints = leader_endpoints(NodeEndpoint, named, cluster, listener)
