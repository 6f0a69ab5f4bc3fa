"""A hostile peer: requests that no correct node sends, and answers that contradict known facts. They must change
nothing and leave nothing behind (mA13–mA16). A request that looks like an observer's must be remembered for a while,
but a flood of such requests fills only bounded memory. Two attacks are excluded: a future epoch within `EPOCH_JUMP_MAX`
from a voter of our cluster, which Raft must believe, and a voter that lies about its votes or its log, which no Raft
quorum tolerates. `nonsense` includes both, with the sole requirement that no node fails.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.network import CLIENT
from tests.simulation.nonsense import MANY_SUCCESSORS, Nonsense
from tests.simulation.snapshots import key_of
from trimaran.quorum.raft import leader_state, leading
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.roles import Leader
from trimaran.quorum.raft.types import (
    EPOCH_JUMP_MAX,
    EPOCH_LIMIT,
    EPOCH_MAX,
    OffsetAndEpoch,
    ReplicaKey,
)

if TYPE_CHECKING:
    from tests.simulation.node import SimNode
    from tests.simulation.world import World

FAR = (1 << 63) - 1
# the share of floods among hostile acts, and the number of requests in a flood
FLOOD_SHARE, FLOOD_REQUESTS = 0.1, 30
# the share of forged responses among the remaining acts
ANSWER_SHARE = 0.3
IN_FLIGHT = "requests in flight"
# In addition to parked fetches: one request of every peer, a voter change, and a flood's requests to a node that does
# not park them.
UNANSWERED_MAX = 20


class Hostile:
    def __init__(self, world: World) -> None:
        self.world = world

    def act(self) -> None:
        """Sends one request to one node, and compares its state before and after."""
        node = self.world.prng.choice(list(self.world.nodes.values()))
        if not node.alive:
            return
        request = self._request(node)
        if self.world.prng.random() < FLOOD_SHARE:
            self.flood(node, FLOOD_REQUESTS)
            return
        if self.world.prng.random() < ANSWER_SHARE and node.awaited:
            self.response(node)
            return
        before = self._state(node)
        self.world.happened["hostile"] += 1
        self.world.checker.count("hostile")
        node.probe(CLIENT, request)
        is_alive = self.world.nodes[node.id].alive
        if is_alive and self._state(node) != before:
            self.world.checker.fail("hostile", request, "changes", before, self._state(node))

    def response(self, node: SimNode) -> None:
        """Forges one of the pending answers before the true one arrives; the node must ignore it."""
        token = self.world.prng.choice(sorted(node.awaited))
        response = self._response(node, node.awaited[token])
        before = self._promised(node)
        self.world.happened["hostile answer"] += 1
        self.world.checker.count("hostile answer")
        node.probe_response(token, response)
        if node.alive and self._promised(node) != before:
            self.world.checker.fail(
                "hostile answer", response, "changes", before, self._promised(node)
            )

    def flood(self, node: SimNode, count: int) -> None:
        """Sends fetches of many new observers, all with an endless maximum wait."""
        before = self._what_counts(node)
        self.world.happened["flood"] += 1
        for _ in range(count):
            if node.alive:
                node.probe(CLIENT, self._fetch_of_a_stranger(node))
        if not node.alive:
            return
        self.world.checker.count("hostile flood")
        for name, (size, bound) in self.held(node).items():
            if size > bound:
                self.world.checker.fail("hostile", node.id, "holds", size, name, "of", bound)
        if self._what_counts(node) != before:
            self.world.checker.fail("hostile flood changes", before, self._what_counts(node))

    def held(self, node: SimNode) -> dict[str, tuple[int, int]]:
        """Returns the number of remembered requests of each kind, and its bound."""
        role, peers = node.raft.role, len(self.world.nodes)
        parked_max = leading.DEFERRED_MAX + leading.DEFERRED_BY_VOTERS_MAX
        # at most one request to each peer, as a voter and as a bootstrap server
        found = {IN_FLIGHT: (len(node.raft._state.requests._by_token), 2 * peers)}
        if isinstance(role, Leader):
            found["parked fetches"] = (len(role.leader_state.deferred), parked_max)
            found["observers"] = (len(role.leader_state.observers), leader_state.OBSERVERS_MAX)
        found["unanswered requests"] = (node.unanswered, parked_max + UNANSWERED_MAX)
        return found

    def _what_counts(self, node: SimNode) -> tuple[object, ...]:
        return (str(node.raft), node.disk.election, node.log.end_chain)

    def _promised(self, node: SimNode) -> tuple[object, ...]:
        """Returns the state that must not change. Repeatable requests are excluded: a snapshot fetch restarts, and a
        pre-vote may be lost.
        """
        raft = node.raft
        return (raft.election, raft.high_watermark, node.disk.election, node.log.end_chain)

    def _state(self, node: SimNode) -> tuple[object, ...]:
        held = self.held(node)
        del held[IN_FLIGHT]  # the node's own requests, which may progress at each poll
        return (*self._what_counts(node), *(size for size, _bound in held.values()))

    def _fetch_of_a_stranger(self, node: SimNode) -> core.Request:
        prng = self.world.prng
        return core.FetchRequest(
            cluster_id="sim",
            epoch=node.raft.epoch,
            replica=ReplicaKey(prng.randrange(1000, FAR), prng.randbytes(16)),
            fetch_offset=node.log.end_offset,
            last_fetched_epoch=node.log.last_epoch,
            high_watermark=FAR,
            max_wait=1e9,
            max_bytes=FAR,
        )

    def _response(self, node: SimNode, request: core.Request) -> core.AnyResponse:
        """Returns a response of the right class from `Nonsense` with an impossible field."""
        prng, raft = self.world.prng, node.raft
        response = Nonsense(prng, raft, node.log).response(request)
        known = raft.election.leader_id
        kinds = [
            {"epoch": prng.choice((EPOCH_LIMIT, EPOCH_MAX))},
            {"epoch": raft.epoch - 1},
            {"epoch": -1, "error": 9999},
        ]
        if known >= 0:
            kinds.append({"epoch": raft.epoch, "leader_id": known + 1, "error": 0})
            kinds.append({"epoch": raft.epoch, "leader_id": known, "error": 9999})
        if isinstance(response, core.FetchResponse) and known >= 0:
            kinds += self._taken_back(node)
        return replace(response, **prng.choice(kinds))  # type: ignore[arg-type]

    def _taken_back(self, node: SimNode) -> list[dict[str, object]]:
        """Returns fetch responses, in the name of the current leader, that contradict earlier commits."""
        raft, log = node.raft, node.log
        head = {"epoch": raft.epoch, "leader_id": raft.election.leader_id, "error": 0}
        committed = raft._state.committed_offset
        below = OffsetAndEpoch(self.world.prng.randrange(committed), 0) if committed else None
        there = OffsetAndEpoch(log.end_offset, raft.epoch)
        old = OffsetAndEpoch(log.end_offset, log.last_epoch)
        no_leader = {**head, "leader_id": -1}
        return [
            {**head, "diverging": below or there, "records": ()},
            {**head, "diverging": there},
            {**head, "diverging": None, "snapshot_id": old},
            {**head, "diverging": None, "snapshot_id": old._replace(epoch=raft.epoch + 1)},
            {**no_leader, "diverging": None, "snapshot_id": None},
        ]

    def _request(self, node: SimNode) -> core.Request:
        prng = self.world.prng
        epoch = node.raft.epoch
        known = node.raft.election.leader_id
        successors = (key_of(node.id),) * prng.choice((1, MANY_SUCCESSORS))
        usurpers = [i for i in (*self.world.nodes, 77) if i not in (known, node.id)]
        other = ReplicaKey(prng.choice([i for i in self.world.nodes if i != node.id] or [77]))
        far = prng.choice((EPOCH_LIMIT, EPOCH_MAX, epoch + EPOCH_JUMP_MAX + 1))
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
        requests = [vote, fetch, snapshot, begin, end, strange, remove]
        if known >= 0:
            usurper = prng.choice(usurpers)
            requests.append(begin._replace(epoch=epoch, leader_id=usurper))
            requests.append(
                end._replace(cluster_id="sim", leader_id=usurper, successors=successors)
            )
        return prng.choice(requests)
