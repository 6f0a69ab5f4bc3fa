"""The small values that the Raft core is made of: replica keys, peers, elections, timeouts, invariants.

Source: KIP-595, KIP-853 (`ReplicaKey`, `VoterSet`), KIP-996; Kafka's `QuorumConfig` for the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from trimaran.wire.identity import NO_NODE, LeaderEpoch, NodeId, Offset

NO_DIRECTORY = bytes(16)
# Ids from here on downwards belong to nodes at endpoints that are to be a voter's: until such a node has said that it
# is the voter it has no identity, and what was sent to the voter itself goes on.
ASKED_ID = -(1 << 31)

# An epoch that no node can have reached by elections from where we are: one election a second for twelve days. A Vote
# or BeginQuorumEpoch beyond it is a corrupted or hostile message and must not use up the 31 bits.
EPOCH_JUMP_MAX = 1 << 20
EPOCH_MAX = (1 << 31) - 1
# A peer's claims about this epoch or a later one are not believed: as many are left for elections of our own, which
# must not overflow.
EPOCH_LIMIT = 1 << 30


class InvariantViolated(Exception):
    """A safety rule of `reliability.md` 3R does not hold in this process; it must stop, not go on."""


def ensure(holds: bool, invariant: str, *facts: object) -> None:
    """Fail-stop check that stays on in production (`assert` would vanish under `-O`)."""
    if not holds:
        raise InvariantViolated(" ".join([invariant, *map(str, facts)]))


class ReplicaKey(NamedTuple):
    """A replica's identity: node id plus the id of its directory (nil where the version has none)."""

    id: NodeId
    directory_id: bytes = NO_DIRECTORY

    def matches(self, other: ReplicaKey) -> bool:
        """True if `other` is this replica, as far as this key says: without a directory id only the node id counts."""
        return self.id == other.id and self.directory_id in (NO_DIRECTORY, other.directory_id)

    def __str__(self) -> str:
        return str(self.id)


class OffsetAndEpoch(NamedTuple):
    """An end offset and the epoch of the record before it; names a snapshot or a point of divergence."""

    offset: Offset
    epoch: LeaderEpoch

    @property
    def rank(self) -> tuple[int, int]:
        """Orders logs by how up to date they are."""
        return (self.epoch, self.offset)

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


class Peer(NamedTuple):
    """A node to send requests to. Ids below -1 are those of bootstrap servers, since their node id is not known."""

    id: NodeId
    host: str = ""
    port: int = 0


class VoterEndpoint(NamedTuple):
    """One advertised listener of a node."""

    name: str
    host: str
    port: int


class ElectionState(NamedTuple):
    """What `quorum-state` keeps: must be on disk before any message of its epoch leaves (R2, R3)."""

    epoch: LeaderEpoch = LeaderEpoch(0)
    leader_id: NodeId = NO_NODE
    voted: ReplicaKey | None = None

    def __str__(self) -> str:
        leader = f" leader={self.leader_id}" if self.leader_id >= 0 else ""
        voted = f" voted={self.voted}" if self.voted else ""
        return f"epoch={self.epoch}{leader}{voted}"


class Prng(Protocol):
    """The randomness that the core may use."""

    def uniform(self, a: float, b: float, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds and bytes; the defaults are those of Kafka's `controller.quorum.*`, except where said."""

    election: float = 1.0
    fetch: float = 2.0
    election_backoff_max: float = 1.0
    request: float = 2.0
    # After this wait for a response other nodes get the request too, as there may be another leader: a frozen process
    # leaves its sockets open and says nothing.
    patience: float = 0.1
    retry_backoff: float = 0.02
    # Proposals wait for more, at most this time or until there is this amount, and are then written together. Kafka
    # waits 25 ms; without, proposals of one turn of the event loop are written together and those that come meanwhile
    # share an fsync.
    append_linger: float = 0.0
    linger_max_bytes: int = 8 << 20
    # Kafka retries every 20 ms for ever; we double up to this, so that a dead peer costs little.
    retry_backoff_max: float = 0.1
    fetch_max_wait: float = 0.5
    # A voter that has every record gets the watermark with the next one, or after this: only its own image waits for
    # it.
    watermark_linger: float = 0.05
    fetch_max_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 20
    # A vanished leader (closed socket, refused connection) is succeeded by rank: voter number n waits n steps and a
    # jitter, so that the survivors seldom split the vote. A step is longer than a vote round with its two fsyncs.
    succession_step: float = 0.04
    succession_jitter: float = 0.01
    # A voter that starts wants leadership early: a pre-vote disturbs no node that has a leader.
    start_delay: float = 0.05

    @property
    def check_quorum(self) -> float:
        """A leader without fetches of a majority for this time resigns (R11); 1.5 leaves room for slow disks and
        networks.
        """
        return self.fetch * 1.5

    @property
    def begin_quorum_epoch(self) -> float:
        """A voter that has not fetched for this time gets the leader's announcement again."""
        return self.fetch / 2


@dataclass(frozen=True, slots=True)
class Identity:
    """Our own identity and the configuration of the others. `node_id` is -1 for an observer that wants to stay
    invisible.

    `voters` are the static voters by id; they count until the log has a set of voters. `bootstrap` are servers that may
    know more. `endpoints` are our own listeners, for the other voters; `listener` is the name of those where voters
    reach each other. `is_controller`: may become a voter while it runs, so it flushes as one; `auto_join`: and requests
    it by itself.
    """

    node_id: NodeId
    directory_id: bytes = NO_DIRECTORY
    cluster_id: str | None = None
    voters: Mapping[NodeId, Peer] = field(default_factory=dict)
    bootstrap: tuple[Peer, ...] = ()
    endpoints: tuple[VoterEndpoint, ...] = ()
    listener: str = ""
    is_controller: bool = False
    auto_join: bool = False

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def can_vote(self) -> bool:
        """Is a voter, or may become one: keeps its promises on disk."""
        return self.is_controller or self.node_id in self.voters

    @property
    def maintains_voter(self) -> bool:
        """Whether we have something to say about our place among the voters."""
        return self.can_vote and bool(self.endpoints)
