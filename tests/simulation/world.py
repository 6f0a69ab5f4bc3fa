"""One seeded run: a heap of (time, sequence, action), nodes, network, faults, clients; a safety phase, then a liveness
phase. In the safety phase faults are unbounded, and progress is not required. In the liveness phase faults stop and
every node is started: within ten election timeouts there must be a leader, a new proposal must be committed and applied
by all nodes, and all of them must agree.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import trio

from tests.simulation.cast import Cast
from tests.simulation.checker import Checker, Violation
from tests.simulation.faults import Faults
from tests.simulation.hostile import Hostile
from tests.simulation.metadata import Metadata, Rules
from tests.simulation.network import CLIENT, Network
from tests.simulation.node import SimNode
from tests.simulation.operator import Operator
from tests.simulation.tasks import Tasks, step_through
from trimaran.node.replicated import operations
from trimaran.quorum.controller.nodes import liveness
from trimaran.quorum.controller.nodes.liveness import ProbeResult
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.roles import Leader
from trimaran.quorum.raft.types import Timeouts
from trimaran.quorum.raft.types import VoterEndpoint as Listener
from trimaran.wire.text.endpoint import Endpoint

CHAOS_SECONDS = 12.0
# ten election timeouts, and a fetch timeout until followers notice
RECOVERY_SECONDS = 12.0
# the share of seeds with real metadata records above the log
METADATA_SHARE = 0.25
# Low enough for most decisions to take several turns, with requests arriving meanwhile; the real limit is 500.
STEPS_PER_TURN = 4
# the share of seeds with the real controller and brokers
CONTROLLERS_SHARE = 0.05
# the mean time between proposals of one to three batches
CLIENT_SECONDS = 0.25
# the share of voter changes that name an endpoint of another node
WRONG_ENDPOINTS = 0.25
# the mean time between bit flips in snapshots that are being served
ROT_SECONDS = 1.5
# twice the maximum of thousands of runs
EVENTS_MAX = 12_000
# the faults; `happened` counts other events, too
FAULTS = (
    *("crash", "clog", "partition", "message lost", "duplication", "false gone"),
    *("bit flip", "bit flip in snapshot", "bit flip in vote file", "torn write"),
    *("clock jump", "hostile", "voters changed"),
)


@dataclass
class Result:
    seed: int
    acked: int
    committed: int
    epochs: int
    events: int
    faults: Counter[str]
    evaluations: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def made_progress(self) -> bool:
        return self.acked > 0 and not self.faults.keys().isdisjoint(FAULTS)


class World:
    def __init__(
        self,
        seed: int,
        node_class: type[SimNode] = SimNode,
        faults: Faults | None = None,
        metadata: bool = False,
        controllers: bool = False,
        checker_class: type[Checker] = Checker,
        chaos_seconds: float = CHAOS_SECONDS,
    ) -> None:
        self.seed = seed
        self.chaos_seconds = chaos_seconds
        self.prng = random.Random(seed)
        self.now = 0.0
        self.events = 0
        self.acked = 0
        self.happened: Counter[str] = Counter()
        # a line for each event, or None
        self.trace: list[str] | None = None
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._payload = 0
        self.faults = faults or Faults.draw(self.prng)
        self.checker = checker_class()
        self.network = Network(self)
        has_controllers = controllers or (faults is None and self.prng.random() < CONTROLLERS_SHARE)
        self.tasks = Tasks(self)
        self.is_calm = False
        self.proposed: list[SimNode] = []
        if has_controllers:
            cast = Cast.draw_with_brokers(self.prng)
        else:
            cast = Cast.draw(self.prng) if faults is None else Cast(3)
        timeouts = Timeouts(snapshot_max_bytes=24)
        self.cast = cast
        self.nodes = {i: node_class(self, cast.identity(i), timeouts) for i in cast.ids}
        for i in cast.formatted:
            self.nodes[i].disk.log.format(cast.first_voters)
        self.checker.nodes = self.nodes
        self.hostile = Hostile(self)
        is_shared = metadata or (faults is None and self.prng.random() < METADATA_SHARE)
        rules = Rules.draw(self.prng) if has_controllers else None
        self.metadata = Metadata(self, rules) if is_shared or rules else None
        self.operator = Operator(self.metadata) if self.metadata and rules else None

    # --- time

    def say(self, *words: object) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:9.4f} " + " ".join(map(str, words)))

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (when, self._sequence, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    async def run_until(self, end: float, done: Callable[[], bool] = lambda: False) -> bool:
        heap, has_tasks = self._heap, self.operator is not None
        looks_at_all = type(self.checker) is not Checker
        while heap and heap[0][0] <= end:
            self.now, _, action = heapq.heappop(heap)
            self.events += 1
            action()
            if has_tasks:
                await self.tasks.settle()
            if looks_at_all:
                self.checker.look(self)
            if self.events % 16 == 0:
                if self.events > EVENTS_MAX:
                    raise Violation(f"L1 more than {EVENTS_MAX} events: a node is busy in a loop")
                if done():
                    return True
        self.now = end
        return done()

    def between_turns(self) -> None:
        """Sends the proposals of tasks before anything else happens."""
        while self.proposed:
            self.proposed.pop().settle()

    # --- faults

    def crash(self, node: SimNode) -> None:
        if not node.alive:
            return
        power_cut = self.prng.random() < self.faults.power_cut
        self.say(node.id, "loses power" if power_cut else "is killed")
        node.crash(power_cut)
        self.happened["crash"] += 1
        downtime = self.prng.choice((0.05, 0.3, 1.0, 3.0))
        self.after(self.prng.uniform(0, downtime), lambda: self._restart(node))

    def _restart(self, node: SimNode) -> None:
        if not node.alive and node.refused is None:
            node.start()

    def _every(self, seconds: float, action: Callable[[], None]) -> None:
        """Repeats an action at exponentially distributed intervals until the faults stop."""
        if not seconds:
            return

        def happen() -> None:
            if self.now < self.chaos_seconds:
                action()
                self.after(self.prng.expovariate(1 / seconds), happen)

        self.after(self.prng.expovariate(1 / seconds), happen)

    def _schedule_faults(self) -> None:
        network, faults = self.network, self.faults
        self._every(
            faults.crash_every, lambda: self.crash(self.prng.choice(list(self.nodes.values())))
        )
        if len(self.nodes) > 1:
            self._every(faults.clog_every, lambda: self._count("clog", network.clog))
            self._every(faults.partition_every, self._partition)
            self._every(faults.false_gone, self._false_gone)
            change = self._change_voters if self.cast.dynamic else self._upgrade
            if not faults.bit_flips:
                self._every(faults.change_voters_every, change)
        self._every(faults.clock_jumps_every, self._jump)
        self._every(faults.hostile_every, self.hostile.act)
        if faults.bit_flips and len(self.nodes) > 1:
            self._every(ROT_SECONDS, self._rot)

    def may_damage(self, node: SimNode) -> bool:
        """Whether the node's data may be damaged. A majority of the other voters must have it, so at most one of three
        or more voters is damaged at a time.
        """
        others = [other for other in self.nodes.values() if other is not node]
        is_one_of_many = self.cast.voters >= 3 and len(node.log.history.voters) in (0, *range(3, 9))
        is_whole = node.refused is None and not node.is_rotten
        return is_one_of_many and is_whole and not any(other.is_damaged for other in others)

    def _rot(self) -> None:
        """Flips a bit in a snapshot of a running node; fetching replicas must notice it."""
        node = self.prng.choice(list(self.nodes.values()))
        if node.alive and self.may_damage(node):
            node.rot()

    def _jump(self) -> None:
        node = self.prng.choice(list(self.nodes.values()))
        if node.alive:
            self.happened["clock jump"] += 1
            node.jump(self.prng.uniform(0.1, 5.0))

    def _partition(self) -> None:
        self._count("partition", self.network.partition)
        self.say("cut:", " ".join(f"{a}→{b}" for a, b in sorted(self.network.cut)))
        self.after(self.prng.uniform(0.3, 5.0), self.network.heal)

    def _false_gone(self) -> None:
        """Lets a node take a living peer for dead, which may cost an election but never safety."""
        node, other = (
            self.prng.choice(list(self.nodes.values())),
            self.prng.choice(list(self.nodes)),
        )
        if node.alive and other != node.id:
            self.happened["false gone"] += 1
            node.peer_down(other)

    def _upgrade(self) -> None:
        """Makes the static quorum dynamic, as an operator does; changes its voters once it is dynamic."""
        for node in list(self.nodes.values()):
            if node.alive:
                node.upgrade()
        self._change_voters()

    def _change_voters(self) -> None:
        """Sends an operator's request to a leader: to add a node or to remove a voter, perhaps the leader itself."""
        leaders = [n for n in self.nodes.values() if n.alive and isinstance(n.raft.role, Leader)]
        controllers = [n for n in self.nodes.values() if n.identity.can_vote]
        if not leaders:
            return
        leader, other = self.prng.choice(leaders), self.prng.choice(controllers)
        request: core.Request
        if not self.faults.hostile_every and self.prng.random() < WRONG_ENDPOINTS:
            request = self._wrong_endpoint(leader)
        elif other.identity.key in leader.log.history.voters:
            request = core.RemoveVoterRequest(cluster_id="sim", voter=other.identity.key)
        else:
            request = core.AddVoterRequest(
                cluster_id="sim",
                voter=other.identity.key,
                endpoints=other.identity.endpoints,
                ack_when_committed=self.prng.random() < 0.5,
            )
        leader.request(CLIENT, 0, 0, request)

    def _wrong_endpoint(self, leader: SimNode) -> core.Request:
        """Returns a request that names another node's address for a voter, or a broker as a voter."""
        named, there = self.prng.sample(list(self.nodes.values()), 2)
        if self.prng.random() < 0.3:
            there = named if not named.identity.can_vote else there
        endpoints, key = (Listener("C", "sim", there.id),), named.identity.key
        self.happened["wrong endpoint"] += 1
        if key in leader.log.history.voters:
            return core.UpdateVoterRequest("sim", leader.raft.epoch, key, endpoints, 0, 1)
        return core.AddVoterRequest("sim", key, endpoints)

    def told_client(self, response: core.AnyResponse) -> None:
        if isinstance(response, core.ChangeResponse):
            self.happened["voters refused" if response.error else "voters changed"] += 1

    def _count(self, kind: str, action: Callable[[], None]) -> None:
        self.happened[kind] += 1
        action()

    # --- clients

    def _propose(self) -> None:
        if self.operator is not None:
            self.operator.act()
            return
        for node in list(self.nodes.values()):
            if node.alive and isinstance(node.raft.role, Leader):
                batches = self._batches_of(node)
                node.propose(batches)

    def _batches_of(self, node: SimNode) -> list[tuple[int, int]]:
        if self.metadata is not None and node.metadata is not None:
            records = node.metadata.decide(self.prng)
            if not records:
                return []
            payload = self.next_payload()
            self.metadata.batches[payload] = records
            return [(payload, len(records))]
        return [
            (self.next_payload(), self.prng.randint(1, 3)) for _ in range(self.prng.randint(1, 3))
        ]

    def next_payload(self) -> int:
        self._payload += 1
        return self._payload

    def _client(self) -> None:
        self._propose()
        self.after(self.prng.expovariate(1 / CLIENT_SECONDS), self._client)

    # --- the run

    def run(self) -> Result:
        if self.operator is None:
            return step_through(self._play())
        return self.tasks.run(
            self._play,
            # the only operation for which the controller opens its own sockets
            mock.patch.object(liveness, "probe", self._probe),
            mock.patch.object(operations, "STEPS_PER_TURN", STEPS_PER_TURN),
            # frozen objects of the world would never be freed
            mock.patch.object(operations, "OBJECTS_PER_STEP", 0),
        )

    async def _probe(self, endpoints: Iterable[Endpoint]) -> ProbeResult:
        """Returns the result of probing a broker's process. It may be wrong: another process may have the port."""
        await trio.sleep(0.01)
        ports = {endpoint.port for endpoint in endpoints}
        answered = frozenset(("sim", port) for port in ports if self.nodes[port].alive)
        if self.faults.false_gone and self.prng.random() < 0.1:
            self.happened["false gone"] += 1
            answered = frozenset()
        refused = frozenset(("sim", port) for port in ports) - answered
        return ProbeResult(answered, refused, is_down=not answered)

    async def _play(self) -> Result:
        for node in self.nodes.values():
            self.after(self.prng.uniform(0, 0.3), lambda node=node: self._restart(node))  # type: ignore[misc]
        self._client()
        self._schedule_faults()
        await self.run_until(self.chaos_seconds)
        self.say("faults stop")
        self._stop_faults()
        await self._check_liveness()
        self._check_agreement()
        return Result(
            self.seed,
            self.acked,
            self.checker.committed_end,
            max(self.checker.epochs.values(), default=0),
            self.events,
            self.happened,
            self.checker.evaluations,
            self.now,
        )

    def _stop_faults(self) -> None:
        lost = self.network.lost
        if lost:
            self.happened["message lost"] += lost
        if self.faults.duplication:
            self.happened["duplication"] += 1
        self.faults.stop()
        self.is_calm = True
        if self.operator is not None and self.prng.random() < 0.5:
            gone = self.nodes[self.cast.ids[-1]]
            gone.crash(power_cut=False)
            gone.refused = "gone for good"
        self.network.heal_all()
        for node in self.nodes.values():
            self._restart(node)

    async def _check_liveness(self) -> None:
        acked, target = self.acked, 0

        def done() -> bool:
            nonlocal target
            if self.acked > acked + 1 and not target:
                target = self.checker.committed_end
            if self.operator is not None and not self.operator.is_in_order():
                return False
            return bool(target) and all(
                node.refused is not None or (node.alive and node.applied >= target)
                for node in self.nodes.values()
            )

        if not await self.run_until(self.now + RECOVERY_SECONDS, done):
            states = "; ".join(node.refused or str(node.raft) for node in self.nodes.values())
            raise Violation(f"L1 no progress in {RECOVERY_SECONDS} s without faults: {states}")

    def _check_agreement(self) -> None:
        """Checks that all nodes have applied the same committed records, and that these contain every acknowledged
        batch.
        """
        committed = self.checker.committed
        for node in self.nodes.values():
            if node.refused is None:
                self.checker.applies(node, node.applied, node.state)
        for end, fingerprint in self.checker.acked.items():
            self.checker.count("R5 acked")
            if committed.get(end) != fingerprint:
                raise Violation(f"R5 acked batch that ends at {end} is lost")


def run_seed(seed: int, node_class: type[SimNode] = SimNode, **options: Any) -> Result:
    """Runs one seed.

    Raises:
        Violation, trimaran.quorum.raft.types.InvariantViolated: with the seed in a note.
    """
    try:
        return World(seed, node_class, **options).run()
    except Exception as error:
        error.add_note(f"seed {seed}: ./dev simulate --seed {seed}")
        raise
