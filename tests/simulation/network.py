"""The simulated network: loss, duplication, reordering by delay, clogged and cut links, in one direction or both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from trimaran.quorum.raft import messages as core
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.node import SimNode
    from tests.simulation.world import World

Link = tuple[int, int]
# The sender of requests to change voters, which reaches the leader directly.
CLIENT = 0


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[Link] = set()
        self.clogged_until: dict[Link, float] = {}
        self.lost = 0

    def request(self, source: SimNode, target: int, token: int, message: core.Request) -> None:
        node = self.world.nodes[target]
        arrive = partial(self._request_arrives, source, source.life, node, token, message)
        self._transmit((source.id, target), arrive)

    def _request_arrives(
        self, source: SimNode, life: int, target: SimNode, token: int, message: core.Request
    ) -> None:
        if target.alive:
            target.request(source.id, life, token, message)
        else:  # the port is closed: the kernel refuses, and the sender is notified
            refused = partial(self._refused, source, life, token, target)
            self._transmit((target.id, source.id), refused)

    def _refused(self, source: SimNode, life: int, token: int, target: SimNode) -> None:
        if source.alive and source.life == life:
            if self.world.faults.sees_deaths and not target.alive:
                source.peer_down(target.id)
            if source.alive and source.life == life:
                source.failed(token)

    def call(
        self, source: SimNode, target: int, request: Message, done: Callable[[Any], object]
    ) -> None:
        """Sends a broker's request to a controller; calls `done` with the response if one reaches the same process."""
        life, node = source.life, self.world.nodes[target]

        def back(response: Any) -> None:
            self._transmit((target, source.id), lambda: finish(response))

        def finish(response: Any) -> None:
            if source.alive and source.life == life:
                done(response)

        def arrive() -> None:
            if node.alive and node.metadata is not None:
                node.metadata.serve(source, request, back)

        self._transmit((source.id, target), arrive)

    def response(
        self, source: SimNode, target: int, target_life: int, token: int, message: core.AnyResponse
    ) -> None:
        if target == CLIENT:
            self.world.told_client(message)
            return
        node = self.world.nodes[target]
        arrive = partial(self._answer_arrives, node, target_life, token, message)
        self._transmit((source.id, target), arrive)

    def _answer_arrives(
        self, target: SimNode, life: int, token: int, message: core.AnyResponse
    ) -> None:
        if target.alive and target.life == life:
            target.response(token, message)

    def _transmit(self, link: Link, arrive: Callable[[], None]) -> None:
        world = self.world
        prng, faults = world.prng, world.faults
        if link in self.cut or (faults.loss and prng.random() < faults.loss):
            self.lost += 1
            return
        is_doubled = faults.duplication and prng.random() < faults.duplication
        for _ in (1, 2) if is_doubled else (1,):
            late = prng.random()
            at = world.now + 0.0002 + faults.delay_max * late * late * late
            if self.clogged_until:
                at = max(at, self.clogged_until.get(link, 0.0))
            world.at(at, arrive)

    # --- faults

    def partition(self) -> None:
        """Cuts a random group off, in one direction or both, or cuts random links."""
        prng = self.world.prng
        ids = list(self.world.nodes)
        group = set(prng.sample(ids, prng.randint(1, len(ids) - 1)))
        kind = prng.choice(("both", "in", "out", "links"))
        if kind == "links":
            pairs = [(a, b) for a in ids for b in ids if a != b]
            self.cut = set(prng.sample(pairs, prng.randint(1, len(pairs) // 2)))
            return
        out = {(a, b) for a in group for b in ids if b not in group}
        into = {(b, a) for a, b in out}
        self.cut = {"both": out | into, "in": into, "out": out}[kind]

    def heal(self) -> None:
        self.cut = set()

    def clog(self) -> None:
        """Stalls one direction between two nodes for longer than an election timeout; then all its messages arrive at
        once.
        """
        prng = self.world.prng
        a, b = prng.sample(list(self.world.nodes), 2)
        self.clogged_until[(a, b)] = self.world.now + prng.uniform(0.5, 3.0)

    def heal_all(self) -> None:
        self.cut = set()
        self.clogged_until = {}
