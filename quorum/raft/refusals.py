"""Checks that precede the handling of a request.

Source: Kafka's `KafkaRaftClient.hasValidClusterId` and `validateLeaderOnlyRequest`.
"""

from __future__ import annotations

from trimaran.quorum.raft.roles import Leader
from trimaran.quorum.raft.state import State
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import LeaderEpoch


def is_our_cluster(state: State, cluster_id: str | None) -> bool:
    ours = state.identity.cluster_id
    return cluster_id is None or ours is None or cluster_id == ours


def leader_refusal(state: State, cluster_id: str | None, epoch: LeaderEpoch) -> ErrorCode | None:
    """Returns the error of a request that only the leader of `epoch` can answer; None if it is valid."""
    if not is_our_cluster(state, cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if epoch < state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > state.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(state.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if state.shutting_down else None
