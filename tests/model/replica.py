"""A replica of the model: the real core over a log of tuples, without time, cheap to copy and to compare.

Time does not advance. A deadline is either far away or, for one action, expired; a pause after a failure ends
immediately. The remaining state of a replica is a finite value, which `key` returns under a permutation of the voters.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.core import Raft
from trimaran.quorum.raft.ready import FollowerAppend, LeaderAppend, Proposal, Ready
from trimaran.quorum.raft.requests import RequestManager
from trimaran.quorum.raft.roles import Follower, Leader
from trimaran.quorum.raft.types import ElectionState, Identity, OffsetAndEpoch, Peer, Timeouts
from trimaran.quorum.raft.voters import QuorumHistory

Permutation = tuple[int, ...]
"""The image of each id; index 0 is no node (-1 wraps to the last, which is no node either)."""

VOTERS = {i: Peer(i, "model", i) for i in (1, 2, 3)}
TIMEOUTS = Timeouts(retry_backoff=0.0, retry_backoff_max=0.0, fetch_max_wait=0.0)
FAR = 1.0


class Record(NamedTuple):
    """A record, which is a batch of its own; `data` is 0 for the record that opens an epoch."""

    epoch: int
    leader: int
    data: int


class ModelLog:
    """A `LogView` of records from offset 0; `durable` is the state that a power cut leaves, including a truncation that
    was not flushed.
    """

    __slots__ = ("durable", "history", "records")

    def __init__(self, history: QuorumHistory) -> None:
        self.history = history
        self.records: tuple[Record, ...] = ()
        self.durable: tuple[Record, ...] = ()

    start_offset = 0
    earliest_snapshot: OffsetAndEpoch | None = None
    latest_snapshot: OffsetAndEpoch | None = None
    refetch_end: int | None = None

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        return self.records[-1].epoch if self.records else 0

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        end = sum(1 for record in self.records if record.epoch <= epoch)
        if end == 0:
            return OffsetAndEpoch(0, epoch if self.records else 0)
        return OffsetAndEpoch(end, self.records[end - 1].epoch)

    def snapshot_size(self, _snapshot_id: OffsetAndEpoch) -> int | None:
        return None


class NoChance:
    """A random source without chance: deadlines are far away or expired, so no draw matters."""

    def uniform(self, a: float, _b: float, /) -> float:
        return a


class Token(NamedTuple):
    """A request of one life of a replica; a response after the end of that life is dropped."""

    source: int
    life: int
    number: int


class Watcher:
    """Events of a replica's work that the world observes."""

    def sends(self, token: Token, target: int, request: core.Request) -> None: ...
    def replies(
        self, replica: Replica, token: Token, request: core.Request, response: core.AnyResponse
    ) -> None: ...
    def truncates(self, replica: Replica, offset: int) -> None: ...


class Replica:
    """The core, its log, its vote file, and the pending answers: token → (asker, the asker's token, request)."""

    __slots__ = ("_keys", "askers", "discovery", "election", "id", "life", "log", "raft")

    def __init__(self, node_id: int, discovery: bool) -> None:
        self.id = node_id
        self.discovery = discovery
        self.life = 0
        self.log = ModelLog(QuorumHistory())
        self.election = ElectionState()
        self._open()

    def _open(self) -> None:
        """Opens vote file and log; the data found is flushed before it counts."""
        self.life += 1
        self.log.durable = self.log.records
        self.askers: dict[int, tuple[Token, core.Request]] = {}
        identity = Identity(self.id, cluster_id="model", voters=VOTERS)
        self.raft = Raft(
            identity, self.log, self.election, timeouts=TIMEOUTS, prng=NoChance(), now=0.0
        )
        self._keys: dict[Permutation, int] = {}

    def copy(self) -> Replica:
        """Returns a copy that shares every value that is never changed in place."""
        new = object.__new__(Replica)
        new.id, new.election, new.life = self.id, self.election, self.life
        new.askers = dict(self.askers)
        new.discovery = self.discovery
        new._keys = {}
        new.log = ModelLog(self.log.history)
        new.log.records, new.log.durable = self.log.records, self.log.durable
        new.raft = object.__new__(Raft)
        new.raft.__dict__.update(self.raft.__dict__)
        state = copy(self.raft._state)
        state.log = new.log
        state.requests = _copy_requests(state.requests)
        state._replies, state._sends, state._pending = [], [], []
        role = state.role
        if isinstance(role, Leader):
            state.role = role._replace(leader_state=_copy_leader_state(role.leader_state))
        new.raft._state = state
        return new

    # --- actions

    def step(self, action: Callable[[Raft], object], watcher: Watcher) -> None:
        """Handles one input and all its consequences."""
        action(self.raft)
        self._settle(watcher)
        self._forget_time()
        self._keys.clear()

    def time_out(self, watcher: Watcher) -> None:
        """Lets the role's deadline expire: election, fetch, resignation, or a leader's check of its quorum."""
        state = self.raft._state
        if isinstance(state.role, Leader):
            state.role.leader_state.check_deadline = 0.0
        else:
            state.role = state.role._replace(deadline=0.0)
        self.step(lambda raft: raft.handle_timeout(0.0), watcher)

    def crash(self, loses_unflushed: bool, watcher: Watcher) -> None:
        """Kills the process and starts it again immediately; a power cut loses unflushed data."""
        if loses_unflushed:
            self.log.records = self.log.durable
        self._open()
        self.step(lambda raft: None, watcher)

    def receive(self, token: Token, request: core.Request, watcher: Watcher) -> None:
        number = max(self.askers, default=0) + 1
        self.askers[number] = (token, request)
        self.step(lambda raft: raft.receive(number, request, 0.0), watcher)

    def hear(self, token: Token, response: core.AnyResponse, watcher: Watcher) -> None:
        self.step(lambda raft: raft.receive(token.number, response, 0.0), watcher)

    def miss(self, token: Token, watcher: Watcher) -> None:
        """Notes that a request of ours stays unanswered."""
        self.step(lambda raft: raft.request_failed(token.number, 0.0), watcher)

    def flush(self, watcher: Watcher) -> None:
        self.log.durable = self.log.records
        self.step(lambda raft: raft.flushed(self.log.end_offset, 0.0), watcher)

    def _settle(self, watcher: Watcher) -> None:
        while (ready := self.raft.ready()) is not None:
            self._perform(ready, watcher)
            for reply in ready.replies:
                token, request = self.askers.pop(reply.token)
                watcher.replies(self, token, request, self._fill(reply.response))
            for send in ready.sends:
                if self._is_lost(send.request):
                    continue
                token = Token(self.id, self.life, send.token)
                watcher.sends(token, send.to.id, send.request)
            if ready.append or ready.truncate_to is not None:
                self.raft.log_changed(0.0)

    def _is_lost(self, request: core.Request) -> bool:
        """Returns whether the bounds drop a request of a replica that looks for a leader."""
        if self.discovery or not isinstance(request, core.FetchRequest):
            return False
        return not isinstance(self.raft.role, Follower)

    def _perform(self, ready: Ready, watcher: Watcher) -> None:
        if ready.election is not None:
            self.election = ready.election
        if ready.truncate_to is not None:
            watcher.truncates(self, ready.truncate_to)
            self.log.records = self.log.records[: ready.truncate_to]
        if isinstance(ready.append, LeaderAppend):
            for batch in ready.append.batches:
                data = batch.batch[0] if isinstance(batch, Proposal) else 0
                self.log.records += (Record(ready.append.epoch, self.id, data),)
        elif isinstance(ready.append, FollowerAppend):
            self.log.records += tuple(ready.append.records)  # type: ignore[arg-type]

    def _fill(self, response: core.AnyResponse) -> core.AnyResponse:
        if isinstance(response, core.FetchResponse) and response.read is not None:
            return core.with_records(response, self.log.records[response.read.offset :])  # type: ignore[arg-type]
        return response

    def _forget_time(self) -> None:
        state = self.raft._state
        role = state.role
        if isinstance(role, Leader):
            role.leader_state.check_deadline, role.leader_state.begin_deadline = FAR, 0.0
        elif role.deadline != FAR:
            state.role = role._replace(deadline=FAR)

    # --- its state

    def awaits(self, token: Token) -> bool:
        return self.life == token.life and token.number in self.raft._state.requests._by_token

    def release(self, token: Token) -> None:
        """Forgets a waiting fetch whose sender no longer waits, since its response would not be received."""
        for number, (asker, _request) in list(self.askers.items()):
            if asker == token:
                del self.askers[number]
                role = self.raft._state.role
                assert isinstance(role, Leader)
                del role.leader_state.deferred[number]
        self._keys.clear()

    def rank(self) -> tuple[Any, ...]:
        """Returns a part of the state that contains no ids."""
        state = self.raft._state
        role = state.role
        return (
            type(role).__name__,
            role.epoch,
            len(self.log.records),
            len(self.log.durable),
            state.high_watermark or 0,
            state.flushed_offset,
        )

    def key(self, where: Permutation) -> int:
        """Returns a key that is equal for replicas with the same future behaviour; `where` renames the ids."""
        found = self._keys.get(where)
        if found is None:
            found = self._keys[where] = hash(self._key(where))
        return found

    def _key(self, where: Permutation) -> tuple[Any, ...]:
        state = self.raft._state
        others = [i for i in VOTERS if i != self.id]
        waiting = (
            (where[token.source], message_key(request, where))
            for token, request in self.askers.values()
        )
        return (
            where[self.id],
            _role_key(state.role, where),
            tuple((r.epoch, where[r.leader], r.data) for r in self.log.records),
            tuple((r.epoch, where[r.leader], r.data) for r in self.log.durable),
            state.flushed_offset,
            state.high_watermark,
            where[others[state._next_discovery % 2]] if self.discovery else 0,
            frozenset(waiting),
        )


def _copy_requests(requests: RequestManager) -> RequestManager:
    new = object.__new__(RequestManager)
    new._timeouts = requests._timeouts
    new._connections = {}
    for peer, line in requests._connections.items():
        twin = object.__new__(type(line))
        twin.token, twin.overdue, twin.expires = line.token, line.overdue, line.expires
        twin.resume, twin.failures = line.resume, line.failures
        new._connections[peer] = twin
    new._by_token = dict(requests._by_token)
    new._next_token = requests._next_token
    new._next_expiry = requests._next_expiry
    return new


def _copy_leader_state(leader_state: Any) -> Any:
    voters = {i: replace(progress) for i, progress in leader_state.voters.items()}
    return replace(
        leader_state,
        own=voters[leader_state.me.id],
        voters=voters,
        observers=dict(leader_state.observers),
        deferred=dict(leader_state.deferred),
        fetched=set(leader_state.fetched),
    )


def _renamed(ids: frozenset[int], where: Permutation) -> frozenset[int]:
    return frozenset(where[i] for i in ids)


def _role_key(role: Any, where: Permutation) -> tuple[Any, ...]:
    if isinstance(role, Leader):
        leader_state = role.leader_state
        ends = frozenset(
            (where[i], p.end_offset, p.last_fetch) for i, p in leader_state.voters.items()
        )
        return ("Leader", role.epoch, role.start_offset, leader_state.high_watermark, ends)
    voted = getattr(role, "voted", None)
    leader = getattr(role, "leader", None)
    return (
        type(role).__name__,
        role.epoch,
        where[getattr(role, "leader_id", 0)],
        where[leader.id] if leader else 0,
        where[voted.id] if voted else 0,
        _renamed(getattr(role, "granted", frozenset()), where),
        _renamed(getattr(role, "rejected", frozenset()), where),
        _renamed(getattr(role, "unacked", frozenset()), where),
        getattr(role, "leader_down", False),
        getattr(role, "has_fetched", False),
    )


# Fields that name nodes, and the only other fields that differ between messages of the model.
_NODE_FIELDS = ("candidate", "voter", "replica", "leader_id")
_PLAIN_FIELDS = (
    "error",
    "epoch",
    "last_epoch",
    "end_offset",
    "pre_vote",
    "granted",
    "fetch_offset",
    "last_fetched_epoch",
    "high_watermark",
    "diverging",
)


def message_key(message: core.Message, where: Permutation) -> tuple[Any, ...]:
    nodes = (getattr(message, name, 0) for name in _NODE_FIELDS)
    renamed = tuple(where[getattr(node, "id", node)] if node else 0 for node in nodes)
    plain = tuple(getattr(message, name, None) for name in _PLAIN_FIELDS)
    records = tuple((r.epoch, where[r.leader], r.data) for r in getattr(message, "records", ()))
    return (type(message).__name__, renamed, plain, records)
