"""controller.quorum.append.linger.ms: which proposals wait for others, how long, and in which order they are
appended.
"""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quorum.raft.interaction import Middle
from tests.simulation.storage import Entry, SimLog, chain
from trimaran.quorum.raft.core import NotLeader, Raft
from trimaran.quorum.raft.linger import Linger
from trimaran.quorum.raft.ready import ControlBatch, LeaderAppend, Proposal
from trimaran.quorum.raft.types import ElectionState, Identity, Peer, Timeouts

ALONE = Identity(1, bytes([1]) * 16, "ours", {1: Peer(1, "test", 1)})
LINGER = 0.025


class Leading:
    """A single voter that leads; `written` has the sizes of the batches of each write."""

    def __init__(self, linger: float, max_bytes: int = 100) -> None:
        self.log = SimLog()
        timeouts = Timeouts(append_linger=linger, linger_max_bytes=max_bytes)
        self.raft = Raft(
            ALONE, self.log, ElectionState(), timeouts=timeouts, prng=Middle(), now=0.0
        )
        self.now = 0.0
        self.written: list[list[int]] = []
        self.settle()
        self.epoch = self.raft.epoch
        self.written.clear()

    def settle(self) -> None:
        """Does the driver's work after each input, then advances the time to a deadline that is due at once."""
        while True:
            while (ready := self.raft.ready()) is not None:
                if isinstance(ready.append, LeaderAppend):
                    self._write(ready.append)
                    self.raft.log_changed(self.now)
            if self.raft.deadline() > self.now:
                return
            self.raft.handle_timeout(self.now)

    def _write(self, append: LeaderAppend) -> None:
        assert append.base_offset == self.log.end_offset
        self.written.append([batch.record_count for batch in append.batches])
        for batch in append.batches:
            base = self.log.end_offset
            control = batch.records if isinstance(batch, ControlBatch) else ()
            fingerprint = chain(self.log.end_chain, append.epoch, base)
            end = base + batch.record_count
            self.log.append(Entry(base, end, append.epoch, base, fingerprint, control))
        self.log.recover()

    def propose(self, count: int, size: int = 1) -> int:
        base = self.raft.propose(b"x" * size, count, self.epoch)
        self.settle()
        return base

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.raft.handle_timeout(self.now)
        self.settle()


def test_without_linger_nothing_waits():
    leading = Leading(0)
    assert [leading.propose(2), leading.propose(1)] == [1, 3]
    assert leading.written == [[2], [1]]


def test_records_within_linger_are_one_write():
    leading = Leading(LINGER)
    assert leading.propose(2) == 1
    leading.pass_time(0.02)
    assert leading.propose(3) == 3
    assert leading.written == []
    assert leading.raft.deadline() == LINGER, "the first one's time counts, not the last one's"
    leading.pass_time(0.005)
    assert leading.written == [[2, 3]]
    assert leading.log.end_offset == 6
    assert leading.raft.deadline() == inf, "nothing waits"
    leading.propose(1)
    assert leading.raft.deadline() == leading.now + LINGER, "the next one's time is its own"


def test_full_batch_does_not_wait():
    leading = Leading(LINGER, max_bytes=100)
    leading.propose(1, size=60)
    assert leading.written == []
    leading.propose(1, size=40)
    assert leading.written == [[1, 1]]
    assert leading.raft.deadline() == inf


def test_control_record_follows_lingering_ones():
    leading = Leading(LINGER)
    leading.propose(2)
    leading.raft.flushed(leading.log.end_offset, leading.now)
    leading.settle()
    leading.raft.upgrade_kraft_version(1, leading.epoch, validate_only=False)
    leading.settle()
    assert leading.written == [[2, 2]], "the two records, then kraft.version and the voters"
    assert leading.log.history.is_dynamic


def test_lingering_records_are_lost_with_epoch():
    leading = Leading(LINGER)
    leading.propose(2)
    leading.raft.resign(leading.now)
    leading.settle()
    leading.pass_time(1)
    assert [2] not in leading.written
    with pytest.raises(NotLeader):
        leading.propose(1)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 60), st.integers(0, 30))))
def test_every_promised_offset_is_kept(steps: list[tuple[int, int, int]]) -> None:
    """For any linger time: batches are appended in the order of their proposals, at the promised offsets, none later
    than the linger.
    """
    leading = Leading(LINGER)
    promised, flat = [], []
    for count, size, millis in steps:
        promised.append((leading.propose(count, size), count))
        due = leading.raft.deadline()
        assert due <= leading.now + LINGER or due == inf
        leading.pass_time(min(millis / 1000, max(due - leading.now, 0)))
    leading.pass_time(LINGER)
    for write in leading.written:
        flat += write
    offset, expected = 1, []
    for count in flat:
        expected.append((offset, count))
        offset += count
    assert promised == expected


def test_empty_linger_has_no_deadline():
    linger = Linger(LINGER, 10)
    assert not linger.has_ended(1e9)
    linger.add(Proposal(b"x", 4))
    assert (linger.deadline, linger.record_count) == (-inf, 4)
    assert not linger.has_ended(5.0)
    assert linger.deadline == 5.0 + LINGER
    assert linger.take() == [Proposal(b"x", 4)]
    assert linger.deadline == inf


def test_batch_is_full_with_its_last_byte():
    linger = Linger(LINGER, 10)
    for _ in range(2):
        linger.add(Proposal(b"x" * 9, 1))
        assert not linger.is_full
        linger.add(Proposal(b"x", 1))
        assert linger.is_full
        linger.take()
