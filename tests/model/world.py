"""A state of the whole model: three replicas, the messages between them, the facts that cannot be undone, and the
possible next events.

Messages may be delivered in any order, lost, or delivered again. The sender notices a lost request or response, and may
then send the request again. Only responses to votes are delayed; all others arrive immediately or never. `Bounds` makes
the space finite; each bound only excludes runs, and never allows impossible ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, NamedTuple

from tests.model.replica import Permutation, Record, Replica, Token, Watcher, message_key
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.roles import Candidate, Leader, Prospective
from trimaran.quorum.raft.types import ensure

MAJORITY = 2
# All permutations of the ids 1 to 3; 0 and -1 mean no replica.
SYMMETRIES: tuple[Permutation, ...] = tuple((0, *p, 0) for p in permutations((1, 2, 3)))


class Bounds(NamedTuple):
    """The bounds of the model.

    strays: concurrent messages in flight that the sender gave up or that were duplicated.
    letters: concurrent requests and responses in flight, including strays; states with more are not explored.
    discovery: fetches of a replica that looks for a leader arrive; otherwise they stay in flight forever.
    """

    epochs: int = 2
    proposals: int = 1
    crashes: int = 1
    strays: int = 1
    discovery: bool = False
    letters: int = 99


class Letter:
    """A request on its way to `target`, or (with `response`) the answer on its way back from `source`."""

    __slots__ = ("_keys", "request", "response", "source", "target", "token")

    def __init__(
        self,
        source: int,
        target: int,
        token: Token,
        request: core.Request,
        response: core.AnyResponse | None = None,
    ) -> None:
        self.source, self.target, self.token = source, target, token
        self.request, self.response = request, response
        self._keys: dict[Permutation, int] = {}

    def key(self, where: Permutation) -> int:
        found = self._keys.get(where)
        if found is None:
            content = message_key(self.response or self.request, where)
            found = self._keys[where] = hash((where[self.source], where[self.target], content))
        return found

    @property
    def is_brisk(self) -> bool:
        """Returns whether the request is answered in one action: no event in between changes the response, except that
        it may be dropped.
        """
        if isinstance(self.request, core.VoteRequest):
            return self.request.pre_vote
        return True

    def __str__(self) -> str:
        return f"{self.source}→{self.target} {self.response or self.request}"


@dataclass(slots=True)
class World(Watcher):
    """`leaders` by epoch, `votes` by (voter, epoch) and `committed` are never forgotten, as in the simulation's
    checker.
    """

    replicas: dict[int, Replica]
    letters: tuple[Letter, ...] = ()
    leaders: tuple[tuple[int, int], ...] = ()
    votes: frozenset[tuple[int, int, int]] = frozenset()
    committed: tuple[Record, ...] = ()
    committed_epoch: int = 0
    proposals: int = 0
    crashes: int = 0

    @classmethod
    def first(cls, bounds: Bounds) -> World:
        """Returns three voters with empty disks that have just started."""
        world = cls({i: Replica(i, bounds.discovery) for i in (1, 2, 3)})
        for replica in world.replicas.values():
            replica.step(lambda raft: None, world)
        return world

    def copy(self, *touched: int) -> World:
        replicas = dict(self.replicas)
        for node in touched:
            replicas[node] = replicas[node].copy()
        return World(
            replicas,
            self.letters,
            self.leaders,
            self.votes,
            self.committed,
            self.committed_epoch,
            self.proposals,
            self.crashes,
        )

    def key(self) -> int:
        """Returns the same key for worlds that differ only in the names of the voters."""
        awaited = [self._is_awaited(letter) for letter in self.letters]
        ranks = [replica.rank() for replica in self.replicas.values()]
        # only renamings that sort the ranks; among those, the renaming with the smallest key
        ordered = sorted(ranks)
        fitting = [
            w for w in SYMMETRIES if all(ordered[w[i + 1] - 1] == ranks[i] for i in range(3))
        ]
        return min(self._key(where, awaited) for where in fitting)

    def _key(self, where: Permutation, awaited: list[bool]) -> int:
        letters = [
            hash((letter.key(where), wanted))
            for letter, wanted in zip(self.letters, awaited, strict=True)
        ]
        whole: tuple[Any, ...] = (
            frozenset(replica.key(where) for replica in self.replicas.values()),
            tuple(sorted(letters)),
            tuple((epoch, where[leader]) for epoch, leader in self.leaders),
            frozenset((where[voter], epoch, where[whom]) for voter, epoch, whom in self.votes),
            tuple((r.epoch, where[r.leader], r.data) for r in self.committed),
            self.proposals,
            self.crashes,
        )
        return hash(whole)

    # --- possible events

    def successors(self, bounds: Bounds) -> Iterator[tuple[str, World]]:
        for label, world in self._actions(bounds):
            if any(r.raft.epoch > bounds.epochs for r in world.replicas.values()):
                continue
            world._settle()
            for item, after in world._within(label, bounds):
                if len(after.letters) <= bounds.letters:
                    yield item, after

    def _actions(self, bounds: Bounds) -> Iterator[tuple[str, World]]:
        for node, replica in self.replicas.items():
            yield from self._actions_of(node, replica, bounds)
        for at, letter in enumerate(self.letters):
            yield f"deliver {letter}", self._deliver(at)
            if not self._is_awaited(letter):
                continue
            if letter.response is not None:
                yield f"lose {letter}", self._lose(at)
            elif isinstance(letter.request, core.FetchRequest):
                yield f"deliver without answer {letter}", self._deliver(at, answered=False)
            if letter.response is None and bounds.strays:
                yield f"copy {letter}", self._duplicate(letter)

    def _actions_of(
        self, node: int, replica: Replica, bounds: Bounds
    ) -> Iterator[tuple[str, World]]:
        is_leader = isinstance(replica.raft.role, Leader)
        if is_leader or replica.raft.epoch < bounds.epochs:
            yield from self._time_out(node)
        if replica.log.durable != replica.log.records:
            world = self.copy(node)
            world.replicas[node].flush(world)
            yield f"flush {node}", world
        if is_leader and self.proposals < bounds.proposals:
            world = self.copy(node)
            world.proposals += 1
            data = bytes([world.proposals])
            world.replicas[node].step(lambda raft: raft.propose(data, 1, raft.epoch), world)
            yield f"propose {node}", world
        if self.crashes < bounds.crashes:
            losses = (False, True) if replica.log.durable != replica.log.records else (False,)
            for loses_unflushed in losses:
                world = self.copy(node)
                world.crashes += 1
                world.replicas[node].crash(loses_unflushed, world)
                yield f"{'power cut' if loses_unflushed else 'crash'} {node}", world

    def _time_out(self, node: int) -> Iterator[tuple[str, World]]:
        """Lets a deadline expire; a pre-vote that one other voter answers is won within the action, or does not
        happen.
        """
        world = self.copy(node)
        world.replicas[node].time_out(world)
        if not isinstance(world.replicas[node].raft.role, Prospective):
            yield f"time out {node}", world
            return
        for at, letter in enumerate(world.letters):
            if letter.source == node and letter.is_brisk and world._is_awaited(letter):
                after = world._deliver(at)
                if isinstance(after.replicas[node].raft.role, Candidate):
                    yield f"time out {node}, {letter.target} grants a pre-vote", after

    def _deliver(self, at: int, answered: bool = True) -> World:
        letter = self.letters[at]
        world = self.copy(letter.target)
        world.letters = self.letters[:at] + self.letters[at + 1 :]
        replica = world.replicas[letter.target]
        if letter.response is None:
            replica.receive(letter.token, letter.request, world)
            for place, reply in enumerate(world.letters):
                if letter.is_brisk and reply.response is not None and reply.token == letter.token:
                    return world._deliver(place) if answered else world._lose(place)
        else:
            replica.hear(letter.token, letter.response, world)
        return world

    def _lose(self, at: int) -> World:
        letter = self.letters[at]
        world = self.copy(letter.token.source)
        world.letters = self.letters[:at] + self.letters[at + 1 :]
        world.replicas[letter.token.source].miss(letter.token, world)
        return world

    def _duplicate(self, letter: Letter) -> World:
        world = self.copy()
        nobody = letter.token._replace(life=0)
        world.letters += (Letter(letter.source, letter.target, nobody, letter.request),)
        return world

    def _settle(self) -> None:
        """Drops responses to requests that no longer wait, including responses that a replica has not sent yet."""
        self.letters = tuple(x for x in self.letters if x.response is None or self._is_awaited(x))
        for node, replica in list(self.replicas.items()):
            for token, _request in replica.askers.values():
                if not self.replicas[token.source].awaits(token):
                    replica = self.replicas[node] = replica.copy()
                    replica.release(token)

    def _within(self, label: str, bounds: Bounds) -> Iterator[tuple[str, World]]:
        """Yields this state, or, if it has too many strays, a state for each choice of the strays that stay."""
        strays = [letter for letter in self.letters if not self._is_awaited(letter)]
        if len(strays) <= bounds.strays:
            yield label, self
            return
        for kept in combinations(strays, bounds.strays):
            world = self.copy()
            world.letters = tuple(x for x in self.letters if x not in strays or x in kept)
            yield label, world

    def _is_awaited(self, letter: Letter) -> bool:
        return self.replicas[letter.token.source].awaits(letter.token)

    # --- actions of replicas

    def sends(self, token: Token, target: int, request: core.Request) -> None:
        self._speaks(token.source, request)
        if isinstance(request, core.VoteRequest) and not request.pre_vote:
            self._votes(token.source, request.epoch, token.source)
        self.letters += (Letter(token.source, target, token, request),)

    def replies(
        self, replica: Replica, token: Token, request: core.Request, response: core.AnyResponse
    ) -> None:
        self._speaks(replica.id, response)
        granted = isinstance(response, core.VoteResponse) and response.granted
        if granted and isinstance(request, core.VoteRequest) and not request.pre_vote:
            self._votes(replica.id, request.epoch, request.candidate.id)
        self.letters += (Letter(replica.id, token.source, token, request, response),)

    def _speaks(self, node: int, message: Any) -> None:
        election = self.replicas[node].election
        ensure(message.epoch <= election.epoch, "R2", node, "says", message, "with", election)

    def _votes(self, voter: int, epoch: int, whom: int) -> None:
        others = {w for v, e, w in self.votes if (v, e) == (voter, epoch)} - {whom}
        ensure(not others, "R3", voter, "votes twice in", epoch, others, whom)
        self.votes |= {(voter, epoch, whom)}

    def truncates(self, replica: Replica, offset: int) -> None:
        common = len(self.committed)
        lost = replica.log.records[offset:common]
        ensure(lost != self.committed[offset:common] or not lost, "R7", replica.id, "cuts", lost)

    # --- invariants

    def check(self) -> list[str]:
        """Checks every invariant in this state; returns those that applied."""
        said: list[str] = []
        for replica in self.replicas.values():
            role = replica.raft.role
            ensure(replica.election == replica.raft.election, "R2 vote file of", replica.id)
            if isinstance(role, Leader | Candidate):
                said.append("R2")
            if isinstance(role, Leader):
                self._check_leader(replica, role, said)
        self._check_logs(said)
        return said

    def _check_leader(self, replica: Replica, role: Leader, said: list[str]) -> None:
        known = dict(self.leaders).get(role.epoch)
        if known is None:
            self.leaders = tuple(sorted((*self.leaders, (role.epoch, replica.id))))
        ensure(known in (None, replica.id), "R1 two leaders of", role.epoch, known, replica.id)
        said.append("R1")
        if role.epoch >= self.committed_epoch and self.committed:
            said.append("R5")
            common = replica.log.records[: len(self.committed)]
            ensure(common == self.committed, "R5 leader", replica.id, "lacks", self.committed)
        reached = role.leader_state.high_watermark or 0
        if reached > len(self.committed):
            said.append("R6")
            prefix = replica.log.records[:reached]
            ensure(prefix[-1].epoch == role.epoch, "R6 commits by an older epoch", prefix)
            ensure(prefix[: len(self.committed)] == self.committed, "R8 commits over", prefix)
            self.committed, self.committed_epoch = prefix, role.epoch

    def _check_logs(self, said: list[str]) -> None:
        if self.committed:
            holders = sum(
                r.log.durable[: len(self.committed)] == self.committed
                for r in self.replicas.values()
            )
            said.append("R6 durable")
            ensure(holders >= MAJORITY, "R6 durable on", holders, self.committed)
        for replica in self.replicas.values():
            known = replica.raft.high_watermark or 0
            if known:
                said.append("R8")
                ensure(known <= len(self.committed), "R6", replica.id, "knows", known)
                ensure(replica.log.records[:known] == self.committed[:known], "R8 at", replica.id)
        for one, other in combinations(self.replicas.values(), 2):
            if one.log.records and other.log.records:
                said.append("R4")
                _check_matching(one.log.records, other.log.records)


def _check_matching(one: tuple[Record, ...], other: tuple[Record, ...]) -> None:
    """Checks that the last offset with the same epoch in both logs is the end of a common prefix."""
    for end in range(min(len(one), len(other)), 0, -1):
        if one[end - 1].epoch == other[end - 1].epoch:
            ensure(one[:end] == other[:end], "R4 the logs", one, other)
            return
