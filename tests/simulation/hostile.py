"""A peer that is no peer: requests that no correct node sends, to whoever listens. They change nothing and leave nothing behind (mA13–mA16).

Not in it: a future epoch within `EPOCH_JUMP_MAX` from a voter of our cluster, which Raft has to believe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorum.raft import messages as core
from quorum.raft.roles import Leader
from quorum.raft.types import EPOCH_JUMP_MAX, EPOCH_MAX, OffsetAndEpoch, ReplicaKey
from tests.simulation.network import CLIENT

if TYPE_CHECKING:
    from tests.simulation.node import SimNode
    from tests.simulation.world import World

FAR = (1 << 63) - 1


class Hostile:
    def __init__(self, world: World) -> None:
        self.world = world

    def act(self) -> None:
        """One request to one node, looked at from both sides of it."""
        node = self.world.prng.choice(list(self.world.nodes.values()))
        if not node.alive:
            return
        request = self._request(node)
        before = self._state(node)
        self.world.happened["hostile"] += 1
        self.world.checker.count("hostile")
        node.probe(CLIENT, request)
        is_alive = self.world.nodes[node.id].alive
        if is_alive and self._state(node) != before:
            self.world.checker.fail("hostile", request, "changes", before, self._state(node))

    def _state(self, node: SimNode) -> tuple[object, ...]:
        role = node.raft.role
        waiting = len(role.reign.parked) if isinstance(role, Leader) else 0
        return (str(node.raft), node.disk.election, node.log.end_chain, waiting)

    def _request(self, node: SimNode) -> core.Request:
        prng = self.world.prng
        epoch = node.raft.epoch
        other = ReplicaKey(prng.choice([i for i in self.world.nodes if i != node.id] or [77]))
        far = prng.choice((EPOCH_MAX, epoch + EPOCH_JUMP_MAX + 1))
        vote = core.VoteRequest(
            cluster_id="sim",
            epoch=far,
            candidate=other,
            voter=None,
            last_epoch=0,
            end_offset=FAR,
            pre_vote=prng.random() < 0.5,
        )
        fetch = core.FetchRequest(
            cluster_id="sim",
            epoch=epoch,
            replica=ReplicaKey(-1),
            fetch_offset=prng.choice((-1, FAR)),
            last_fetched_epoch=epoch,
            high_watermark=FAR,
            max_wait=0.0,
            max_bytes=-1,
        )
        snapshot = core.FetchSnapshotRequest(
            cluster_id="sim",
            epoch=epoch,
            replica=ReplicaKey(-1),
            snapshot_id=prng.choice(
                (
                    OffsetAndEpoch(0, 0),
                    OffsetAndEpoch(FAR, epoch),
                    node.log.latest_snapshot or OffsetAndEpoch(7, 7),
                )
            ),
            position=prng.choice((-1, 13, FAR)),
            max_bytes=prng.choice((-5, 0, FAR)),
        )
        begin = core.BeginQuorumEpochRequest(
            cluster_id="sim", epoch=far, leader_id=other.id, voter=None
        )
        end = core.EndQuorumEpochRequest(
            cluster_id="theirs", epoch=epoch, leader_id=other.id, successors=()
        )
        strange = core.VoteRequest(
            cluster_id="theirs",
            epoch=epoch + 1,
            candidate=other,
            voter=None,
            last_epoch=epoch,
            end_offset=FAR,
            pre_vote=False,
        )
        remove = core.RemoveVoterRequest(cluster_id="theirs", voter=other)
        return prng.choice((vote, fetch, snapshot, begin, end, strange, remove))
