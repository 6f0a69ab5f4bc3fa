"""Small values of the Raft core: replica keys, peers, elections, timeouts, invariants.

Source: KIP-595, KIP-853 (`ReplicaKey`, `VoterSet`), KIP-996; Kafka's `QuorumConfig` for the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from trimaran.wire.identity import NO_NODE, LeaderEpoch, NodeId, Offset

NO_DIRECTORY = bytes(16)
# Ids from here downwards represent the queried endpoints of future voters. Such a node has no identity until it has
# confirmed that it is the voter, and requests in flight to the voter itself continue.
ASKED_ID = -(1 << 31)

# No node can get this many epochs ahead of us by elections: one election a second for twelve days. A Vote or
# BeginQuorumEpoch beyond it is corrupt or hostile and must not use up the 31 bits.
EPOCH_JUMP_MAX = 1 << 20
EPOCH_MAX = (1 << 31) - 1
# A peer's claims about this epoch or later ones are ignored: the rest is reserved for our own elections, which must not
# overflow.
EPOCH_LIMIT = 1 << 30


class InvariantViolated(Exception):
    """A safety rule of `reliability.md` 3R does not hold in this process, which must stop."""


def ensure(holds: bool, invariant: str, *facts: object) -> None:
    """Raises InvariantViolated; stays active in production (`assert` would vanish under `-O`)."""
    if not holds:
        raise InvariantViolated(" ".join([invariant, *map(str, facts)]))


class ReplicaKey(NamedTuple):
    """A replica's identity: node id and directory id (nil if the version has none)."""

    id: NodeId
    directory_id: bytes = NO_DIRECTORY

    def matches(self, other: ReplicaKey) -> bool:
        """Returns whether `other` is this replica, as far as the key determines it: without a directory id only the
        node id is compared.
        """
        return self.id == other.id and self.directory_id in (NO_DIRECTORY, other.directory_id)

    def __str__(self) -> str:
        return str(self.id)


class OffsetAndEpoch(NamedTuple):
    """An end offset and the epoch of the record before it; identifies a snapshot or a point of divergence."""

    offset: Offset
    epoch: LeaderEpoch

    @property
    def rank(self) -> tuple[int, int]:
        """Returns a key that orders logs by how up to date they are."""
        return (self.epoch, self.offset)

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


class Peer(NamedTuple):
    """A node that can receive requests. Ids below -1 are those of bootstrap servers, because their node id is not
    known.
    """

    id: NodeId
    host: str = ""
    port: int = 0


class VoterEndpoint(NamedTuple):
    """One advertised listener of a node."""

    name: str
    host: str
    port: int


class ElectionState(NamedTuple):
    """The content of `quorum-state`: it must be on disk before any message of its epoch is sent (R2, R3)."""

    epoch: LeaderEpoch = LeaderEpoch(0)
    leader_id: NodeId = NO_NODE
    voted: ReplicaKey | None = None

    def __str__(self) -> str:
        leader = f" leader={self.leader_id}" if self.leader_id >= 0 else ""
        voted = f" voted={self.voted}" if self.voted else ""
        return f"epoch={self.epoch}{leader}{voted}"


class Prng(Protocol):
    """The source of randomness of the core."""

    def uniform(self, a: float, b: float, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds and sizes in bytes; the defaults are those of Kafka's `controller.quorum.*`, unless noted."""

    election: float = 1.0
    fetch: float = 2.0
    election_backoff_max: float = 1.0
    request: float = 2.0
    # After this wait for a response, other nodes get the request too, because there may be another leader: a frozen
    # process leaves its sockets open and does not respond.
    patience: float = 0.1
    retry_backoff: float = 0.02
    # Proposals wait for further ones at most this time, or until they reach this size, and are then written together.
    # Kafka waits 25 ms; at 0, proposals of one turn of the event loop are written together, and those made during an
    # fsync share the next one.
    append_linger: float = 0.0
    linger_max_bytes: int = 8 << 20
    # Kafka retries every 20 ms without end; the backoff here doubles up to this, so that a dead peer costs little.
    retry_backoff_max: float = 0.1
    fetch_max_wait: float = 0.5
    # A voter that has every record gets the watermark with the next record, or after this time: only its own image
    # waits for it.
    watermark_linger: float = 0.05
    fetch_max_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 20
    # A vanished leader (closed socket, refused connection) is succeeded by rank: voter number n waits n steps and a
    # jitter, so that the survivors seldom split the vote. A step is longer than a round of votes with its two fsyncs.
    succession_step: float = 0.04
    succession_jitter: float = 0.01
    # A starting voter tries to be elected early: a pre-vote does not disturb nodes that have a leader.
    start_delay: float = 0.05

    @property
    def check_quorum(self) -> float:
        """Returns the time after which a leader without fetches from a majority resigns (R11); the factor 1.5 allows
        for slow disks and networks.
        """
        return self.fetch * 1.5

    @property
    def begin_quorum_epoch(self) -> float:
        """Returns the time without a fetch after which a voter gets the leader's announcement again."""
        return self.fetch / 2


@dataclass(frozen=True, slots=True)
class Identity:
    """Our own identity and the configuration of the quorum. `node_id` is -1 for an observer that is not to be recorded.

    `voters` are the static voters by id; they are in effect until the log has a voter set. `bootstrap` are servers that
    may know more. `endpoints` are our own listeners, for the other voters; `listener` is the name of the one that
    voters use among themselves. `is_controller`: the node may become a voter while it runs, so it flushes like one;
    `auto_join`: the node requests to become a voter automatically.
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
        """Returns whether this node is a voter or may become one, and therefore must keep its votes and acknowledged
        records on disk.
        """
        return self.is_controller or self.node_id in self.voters

    @property
    def maintains_voter(self) -> bool:
        """Returns whether this node keeps its entry in the voter set up to date."""
        return self.can_vote and bool(self.endpoints)
