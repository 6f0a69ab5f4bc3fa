"""The state of a quorum as known to one of its nodes: for DescribeQuorum, `quorum status` and metrics.

Source: KIP-595, KIP-836. Wall-clock times are computed from the core's monotonic times.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from trimaran.quorum.raft.core import Raft
from trimaran.quorum.raft.leader_state import FetchProgress
from trimaran.quorum.raft.roles import Leader
from trimaran.wire.identity import NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, NodeId, Offset


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The state of one replica. Times are wall-clock milliseconds, `NO_TIMESTAMP` if unknown; the end offset may be
    `NO_OFFSET`.
    """

    id: NodeId
    directory_id: bytes
    log_end_offset: Offset
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """The state of the quorum. `voters` and `observers` are empty unless this node leads."""

    node_id: NodeId
    role: str
    leader_id: NodeId | None
    epoch: LeaderEpoch
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    flushed_offset: Offset
    voted_id: NodeId | None = None
    voters: tuple[ReplicaStatus, ...] = ()
    observers: tuple[ReplicaStatus, ...] = ()


def status_of(raft: Raft, now: float, wall_ms: int) -> QuorumStatus:
    """Returns the state of the quorum; `now` and `wall_ms` are the same moment on the two clocks."""
    role = raft.role
    voters: tuple[ReplicaStatus, ...] = ()
    observers: tuple[ReplicaStatus, ...] = ()
    # A leader shows its own watermark, not the one that it knew before its election.
    reached = role.leader_state.high_watermark if isinstance(role, Leader) else raft.high_watermark
    if isinstance(role, Leader):
        voters = tuple(_replica(raft, p, now, wall_ms) for p in role.leader_state.voters.values())
        watching = role.leader_state.active_observers(now)
        if raft.identity.key not in role.leader_state.voter_set:
            # This leader has been removed from the voters, and leads until that is committed.
            watching.insert(0, role.leader_state.own)
        observers = tuple(_replica(raft, p, now, wall_ms) for p in watching)
    return QuorumStatus(
        node_id=raft.identity.node_id,
        role=type(role).__name__,
        leader_id=raft.leader_id,
        epoch=raft.epoch,
        high_watermark=NO_OFFSET if reached is None else reached,
        log_start_offset=raft.log.start_offset,
        log_end_offset=raft.log.end_offset,
        flushed_offset=raft.flushed_offset,
        voted_id=None if raft.election.voted is None else raft.election.voted.id,
        voters=voters,
        observers=observers,
    )


def _replica(raft: Raft, progress: FetchProgress, now: float, wall_ms: int) -> ReplicaStatus:
    is_self = progress.key == raft.identity.key
    return ReplicaStatus(
        id=progress.key.id,
        directory_id=progress.key.directory_id,
        log_end_offset=raft.log.end_offset if is_self else progress.end_offset,
        last_fetch_ms=wall_ms if is_self else _wall(progress.last_fetch, now, wall_ms),
        last_caught_up_ms=wall_ms if is_self else _wall(progress.last_caught_up, now, wall_ms),
    )


def _wall(moment: float, now: float, wall_ms: int) -> int:
    return NO_TIMESTAMP if isinf(moment) else wall_ms - int((now - moment) * 1000)
