"""The roles of a replica: frozen values with the state that ends with the role, and the table of allowed transitions.

Source: Kafka's `QuorumState` and the `EpochState` classes (KIP-595, KIP-996). An observer is a replica that is only
ever `Unattached` or `Follower`. Kafka restarts a voter that had voted for itself as a candidate of the same epoch; here
it restarts unattached with its vote, so that it can never lead one epoch twice after losing an unflushed tail.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from trimaran.quorum.raft.types import ElectionState, OffsetAndEpoch, Peer, ReplicaKey
from trimaran.wire.identity import NO_NODE, LeaderEpoch, NodeId, Offset, Position

if TYPE_CHECKING:
    from trimaran.quorum.raft.leader_state import LeaderState


class Unattached(NamedTuple):
    """No leader to fetch from in this epoch. `leader_id` may be known without an address; `voted` is our vote."""

    epoch: LeaderEpoch
    deadline: float = inf
    leader_id: NodeId = NO_NODE
    voted: ReplicaKey | None = None


class Prospective(NamedTuple):
    """Requests pre-votes, to find out whether it would win an election without a higher epoch."""

    epoch: LeaderEpoch
    deadline: float
    leader: Peer | None
    leader_id: NodeId
    voted: ReplicaKey | None
    granted: frozenset[NodeId]
    rejected: frozenset[NodeId] = frozenset()
    leader_down: bool = False


class Candidate(NamedTuple):
    """Stands for election in its own new epoch, with its own vote."""

    epoch: LeaderEpoch
    deadline: float
    voted: ReplicaKey
    granted: frozenset[NodeId]
    rejected: frozenset[NodeId] = frozenset()


class SnapshotFetch(NamedTuple):
    """A fetch of the leader's snapshot, complete up to `position`."""

    snapshot_id: OffsetAndEpoch
    position: Position = Position(0)


class SnapshotLoss(NamedTuple):
    """A snapshot of the leader that was damaged or missing `losses` times in a row; it is not fetched again before
    `until`.
    """

    snapshot_id: OffsetAndEpoch
    losses: int
    until: float


class Follower(NamedTuple):
    """Fetches from a leader; `deadline` is the end of the fetch timeout (infinite for an observer).

    `has_fetched`: this leader has answered us, so we refuse pre-votes against it. `leader_down`: it resigned or its
    process has ended, so we grant them again. `next_voter_check`: the time of the next check that the voter set has our
    correct entry (infinite if there is no entry to check). `resume`: no request before that time (after a snapshot was
    lost). `has_updated_voter`: a leader of a static quorum knows our directory and versions. `has_caught_up`: our log
    has reached this leader's high watermark.
    """

    epoch: LeaderEpoch
    deadline: float
    leader: Peer
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    leader_down: bool = False
    snapshot: SnapshotFetch | None = None
    loss: SnapshotLoss | None = None
    resume: float = -inf
    next_voter_check: float = inf
    has_updated_voter: bool = False
    has_caught_up: bool = False

    @property
    def leader_id(self) -> NodeId:
        return self.leader.id


class Leader(NamedTuple):
    """Leads `epoch` from `start_offset` on; `leader_state` has its knowledge of the other replicas."""

    epoch: LeaderEpoch
    start_offset: Offset
    leader_state: LeaderState
    deadline: float = inf


class Resigned(NamedTuple):
    """Led this epoch, also before a restart; notifies the other voters and waits for a higher epoch."""

    epoch: LeaderEpoch
    deadline: float
    unacked: frozenset[NodeId] = frozenset()
    successors: tuple[ReplicaKey, ...] = ()


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned

# From each role, the roles that may follow in the same epoch; in a higher epoch every role may become Unattached or
# Follower.
SAME_EPOCH: dict[type, tuple[type, ...]] = {
    Unattached: (Unattached, Prospective, Follower),
    Prospective: (Prospective, Unattached, Follower),
    Candidate: (Candidate, Prospective, Leader, Follower),
    Follower: (Follower, Prospective),
    Leader: (Leader, Resigned),
    Resigned: (Resigned, Prospective),
}
HIGHER_EPOCH: dict[type, tuple[type, ...]] = {
    Unattached: (Unattached, Follower),
    Prospective: (Unattached, Follower, Candidate),
    Candidate: (Unattached, Follower),
    Follower: (Unattached, Follower),
    Leader: (Unattached, Follower),
    Resigned: (Unattached, Follower),
}


def is_allowed(before: Role, after: Role) -> bool:
    """Returns whether the transition is allowed: epochs never decrease, and one epoch has one leader and one vote."""
    if after.epoch < before.epoch:
        return False
    if after.epoch > before.epoch:
        return type(after) in HIGHER_EPOCH[type(before)]
    return type(after) in SAME_EPOCH[type(before)] and _keeps_vote_and_leader(before, after)


def _keeps_vote_and_leader(before: Role, after: Role) -> bool:
    was, now = election_of(before, NO_NODE), election_of(after, NO_NODE)
    if was.leader_id != NO_NODE and now.leader_id not in (was.leader_id, NO_NODE):
        return False
    if isinstance(after, Leader) or was.voted is None:
        return True
    return now.voted == was.voted


def election_of(role: Role, node_id: NodeId) -> ElectionState:
    """Returns the content of `quorum-state` for a role; `node_id` is our own."""
    if isinstance(role, (Follower, Unattached, Prospective)):
        return ElectionState(role.epoch, role.leader_id, role.voted)
    if isinstance(role, Candidate):
        return ElectionState(role.epoch, NO_NODE, role.voted)
    return ElectionState(role.epoch, node_id, None)


def grants(role: Role, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
    """Returns whether a (pre-)vote request of the role's own epoch is granted."""
    if pre_vote:
        return up_to_date and _grants_pre_vote(role)
    match role:
        case (
            Unattached(voted=voted, leader_id=leader_id)
            | Prospective(voted=voted, leader_id=leader_id)
        ):
            if voted is not None:
                return voted.matches(candidate)
            return leader_id == NO_NODE and up_to_date
        case _:
            return False


def _grants_pre_vote(role: Role) -> bool:
    match role:
        case Leader():
            return False
        case Follower(has_fetched=has_fetched, leader_down=leader_down):
            return leader_down or not has_fetched
        case _:
            return True


def vote_of(role: Role) -> ReplicaKey | None:
    match role:
        case Unattached() | Prospective() | Follower() | Candidate():
            return role.voted
        case _:
            return None


def describe(role: Role) -> str:
    """Returns a line for logs and transcripts."""
    extra = ""
    match role:
        case Unattached():
            extra = f" leader={role.leader_id}" if role.leader_id >= 0 else ""
            extra += f" voted={role.voted}" if role.voted else ""
        case Prospective() | Candidate():
            extra = f" granted={sorted(role.granted)} rejected={sorted(role.rejected)}"
        case Follower():
            extra = f" leader={role.leader.id}" + (" down" if role.leader_down else "")
            extra += f" snapshot={role.snapshot.snapshot_id}" if role.snapshot else ""
        case Leader():
            extra = f" start={role.start_offset} hw={role.leader_state.high_watermark}"
        case Resigned():
            extra = f" unacked={sorted(role.unacked)}"
    return f"{type(role).__name__} epoch={role.epoch}{extra}"
