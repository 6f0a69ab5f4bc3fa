"""The nodes of a run."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.simulation.snapshots import key_of, voter_of
from trimaran.quorum.raft.types import Identity, Peer, VoterEndpoint
from trimaran.quorum.raft.voters import VoterSet

# the share of seeds with dynamic quorums (KIP-853), in which the voters change
DYNAMIC_SHARE = 0.5


@dataclass(frozen=True)
class Cast:
    """The nodes: voters 1…`voters`, then non-voters. In a dynamic quorum the non-voters are controllers that may become
    voters, and the voters know each other from their bootstrap snapshots. In a static quorum they are observers.
    """

    voters: int
    others: int = 0
    dynamic: bool = False
    auto_join: bool = False

    @classmethod
    def draw(cls, prng: random.Random) -> Cast:
        size = prng.choice((1, 3, 3, 3, 3, 5))
        if prng.random() < DYNAMIC_SHARE:
            return cls(size, prng.choice((0, 1, 2)), True, prng.random() < 0.3)
        return cls(size, prng.choice((0, 0, 1)))

    @classmethod
    def draw_with_brokers(cls, prng: random.Random) -> Cast:
        """Draws a static quorum of controllers, with three brokers as observers."""
        return cls(prng.choice((1, 3, 3)), 3)

    @property
    def ids(self) -> range:
        return range(1, self.voters + self.others + 1)

    @property
    def formatted(self) -> range:
        """The nodes whose directories are formatted with the voter set."""
        return range(1, self.voters + 1) if self.dynamic else range(0)

    @property
    def first_voters(self) -> VoterSet:
        return VoterSet.of(voter_of(i) for i in range(1, self.voters + 1))

    def identity(self, node_id: int) -> Identity:
        is_voter = node_id <= self.voters
        identity = Identity(
            node_id,
            key_of(node_id).directory_id,
            "sim",
            endpoints=(VoterEndpoint("C", "sim", node_id),) if self.dynamic or is_voter else (),
            listener="C",
        )
        if not self.dynamic:
            peers = {i: Peer(i, "sim", i) for i in range(1, self.voters + 1)}
            return replace(identity, voters=peers)
        bootstrap = tuple(Peer(-1 - i, "sim", i) for i in self.ids)
        return replace(identity, bootstrap=bootstrap, is_controller=True, auto_join=self.auto_join)
