"""A core among peers that send anything: in no state does any message make it violate one of its own rules.

All other nodes in these runs are dishonest, so committed records are not checked; only that the core continues, that
epochs and the watermark never decrease, and that its memory of peers is bounded. `tests/simulation` has honest peers.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.simulation.cast import Cast
from tests.simulation.nonsense import IDS, Nonsense
from tests.simulation.snapshots import Damaged, decode
from tests.simulation.storage import Disk, Entry, chain
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.core import Raft
from trimaran.quorum.raft.ready import (
    ControlBatch,
    FollowerAppend,
    LeaderAppend,
    Ready,
    SnapshotChunk,
)
from trimaran.quorum.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from trimaran.quorum.raft.types import Timeouts

CASTS = {
    "static": Cast(3),
    "static observer": Cast(2, 1),
    "dynamic": Cast(3, 1, dynamic=True),
    "dynamic joiner": Cast(2, 2, dynamic=True, auto_join=True),
    "alone": Cast(1, 2, dynamic=True),
}
ME = 3
STEPS = 120
# One request to each peer: voters, bootstrap servers, and nodes that want to become voters.
CONNECTIONS_MAX = 16


class Surrounded:
    """One core on its simulated disk; all messages of the others are nonsense."""

    def __init__(self, prng: random.Random, cast: Cast, me: int) -> None:
        self.prng = prng
        self.now = 0.0
        self.disk = Disk()
        if me in cast.formatted:
            self.disk.log.format(cast.first_voters)
        self.identity = cast.identity(me)
        self.roles: set[type] = set()
        self.start()

    def start(self) -> None:
        self.disk.log.recover()
        self.sent: dict[int, core.Request] = {}
        self.part = bytearray()
        self.raft = Raft(
            self.identity,
            self.disk.log,
            self.disk.election,
            timeouts=Timeouts(snapshot_max_bytes=24),
            prng=self.prng,
            now=self.now,
        )
        self.known, self.applied = (0, 0), 0
        self.settle()

    def step(self) -> None:
        """Makes something happen."""
        raft, prng = self.raft, self.prng
        self.now += prng.choice((0.0, 0.001, 0.02))
        nonsense = Nonsense(prng, raft, self.disk.log)
        kind = prng.random()
        if kind < 0.3:
            raft.receive(1 + prng.randrange(1 << 30), nonsense.request(), self.now)
        elif kind < 0.75 and self.sent:
            token = prng.choice(sorted(self.sent))
            self._answer(token, nonsense.response(self.sent.pop(token)))
        elif kind < 0.8 and self.sent:
            token = prng.choice(sorted(self.sent))
            del self.sent[token]
            raft.request_failed(token, self.now)
        elif kind < 0.9:
            deadline = raft.deadline()
            self.now = deadline if self.now < deadline < self.now + 10 else self.now
            raft.handle_timeout(self.now)
        elif kind < 0.97:
            self._flush()
        elif kind < 0.98:
            raft.peer_down(prng.choice(IDS), self.now)
        elif isinstance(raft.role, Leader):
            raft.propose(b"x", prng.randint(1, 3), raft.epoch)
        elif kind > 0.995:
            self.start()
        self.settle()

    def _answer(self, token: int, answer: core.AnyResponse) -> None:
        """Checks a response like the driver: the last chunk of a snapshot is accepted if the whole is valid."""
        if isinstance(answer, core.FetchSnapshotResponse) and len(answer.data):
            whole = bytes(self.part[: answer.position]) + bytes(answer.data)
            try:
                if answer.position + len(answer.data) >= answer.size:
                    decode(whole)
            except (Damaged, ValueError):
                answer = core.not_found(answer)
        str(answer)  # the log has it
        self.raft.receive(token, answer, self.now)

    def _flush(self) -> None:
        log = self.disk.log
        log.finish_flush(log.begin_flush())
        self.raft.flushed(log.flushed_offset, self.now)

    def settle(self) -> None:
        while (ready := self.raft.ready()) is not None:
            self._do(ready)
            for send in ready.sends:
                self.sent[send.token] = send.request
            for reply in ready.replies:
                str(reply.response)
            if ready.append or ready.snapshot or ready.truncate_to is not None:
                self.raft.log_changed(self.now)
        self._look()

    def _do(self, ready: Ready) -> None:
        log = self.disk.log
        if ready.election is not None:
            self.disk.election = ready.election
        if ready.truncate_to is not None:
            assert max(self.applied, log.start_offset) <= ready.truncate_to < log.end_offset
            log.truncate_to(ready.truncate_to)
        if ready.snapshot is not None:
            self._take(ready.snapshot)
        if isinstance(ready.append, LeaderAppend):
            assert ready.append.base_offset == log.end_offset
            for batch in ready.append.batches:
                self._append(ready.append.epoch, batch.record_count, batch)
        elif isinstance(ready.append, FollowerAppend):
            for entry in ready.append.records:
                log.append(entry)  # type: ignore[arg-type]

    def _append(self, epoch: int, count: int, batch: object) -> None:
        log = self.disk.log
        control = batch.records if isinstance(batch, ControlBatch) else ()
        base, fingerprint = log.end_offset, chain(log.end_chain, epoch, log.end_offset)
        log.append(Entry(base, base + count, epoch, base, fingerprint, control))

    def _take(self, chunk: SnapshotChunk) -> None:
        if chunk.position == 0:
            self.part.clear()
        assert len(self.part) == chunk.position, "a snapshot grows without gaps"
        self.part += chunk.data
        if chunk.is_last:
            assert chunk.snapshot_id.offset >= self.applied
            data = bytes(self.part)
            content, log = decode(data), self.disk.log
            log.quorums.pop(chunk.snapshot_id, None)
            log.add_snapshot(chunk.snapshot_id, data, content[1:])
            log.start_at_snapshot(chunk.snapshot_id, content.state, data)

    def _look(self) -> None:
        raft = self.raft
        self.roles.add(type(raft.role))
        known = (raft.epoch, raft.high_watermark or 0)
        assert all(map(int.__ge__, known, self.known)), "nothing goes back"
        self.known = known
        ends = (end for end in self.disk.log.ends if end <= known[1])
        self.applied = max((self.applied, self.disk.log.start_offset, *ends))
        assert len(raft._state.requests._connections) <= CONNECTIONS_MAX
        assert len(self.sent) < STEPS


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
@pytest.mark.parametrize("me", [1, ME])
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, STEPS))
@example(seed=2347, steps=46)  # a new leader answers a request that an earlier leader has answered
def test_arbitrary_messages_break_no_rule(cast: Cast, me: int, seed: int, steps: int) -> None:
    node = Surrounded(random.Random(seed), cast, me)
    for _ in range(steps):
        node.step()  # raises if a rule is violated
    assert node.roles


def test_nonsense_reaches_every_role() -> None:
    """Otherwise `test_arbitrary_messages_break_no_rule` would prove little."""
    roles: set[type] = set()
    for seed in range(60):
        node = Surrounded(random.Random(seed), CASTS["dynamic"], 1)
        for _ in range(STEPS):
            node.step()
        roles |= node.roles
    assert roles == {Unattached, Prospective, Candidate, Follower, Leader, Resigned}
