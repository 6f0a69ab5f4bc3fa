"""Pauses, work in threads and the end of the leader epoch in lookups of logs."""

from __future__ import annotations

from types import SimpleNamespace

import outcome
import pytest

from trimaran.broker.partitions.lookups import in_steps, pausing, resolve_timestamp
from trimaran.log.partitions.timestamps import SMALL_BYTES, CandidateBatch, TimestampOffset
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.effects import INLINE_COST_MAX, Compute

FOUND = TimestampOffset(1, 2, 3)


class Candidate(CandidateBatch):
    """A batch that has been found, and that raises an error if it is `damaged`."""

    def find(self):
        if self.timestamp_ms < 0:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return FOUND


def candidate(size, *, damaged=False):
    header = SimpleNamespace(attributes=0, magic=2, size=size)
    return Candidate(None, None, 0, header, -1 if damaged else 1, 0)


@pytest.fixture
def leader():
    return SimpleNamespace(ended=False)


def three_steps(done):
    for step in range(3):
        done.append(step)
        yield step
    return "found"


def run(handling, after=lambda _effect: None):
    """Returns the effects of a part of a handler, and its result; computations are carried out immediately."""
    effects, result = [], None
    while True:
        try:
            effect = handling.send(result)
        except StopIteration as end:
            return effects, end.value
        effects.append(effect)
        result = effect.call() if isinstance(effect, Compute) else None
        after(effect)


def test_lookup_pauses_after_each_step(leader):
    done = []
    assert run(pausing(three_steps(done))) == ([None, None, None], "found")
    assert done == [0, 1, 2]
    assert run(in_steps(three_steps(done), leader)) == ([None, None, None], "found")
    assert done == [0, 1, 2] * 2


def test_lookup_without_steps_does_not_pause(leader):
    assert run(pausing(iter(()))) == ([], None)
    assert run(in_steps(iter(()), leader)) == ([], None)


@pytest.mark.parametrize("lookup", [in_steps, resolve_timestamp])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_lookup_ends_with_leader_epoch(leader, lookup, steps):
    """The epoch ends before each step in turn, because the log may then be closed."""
    done = []

    def end(_effect):
        leader.ended = len(done) == steps

    leader.ended = steps == 0
    with pytest.raises(KafkaError) as caught:
        run(lookup(three_steps(done), leader), end)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert done == list(range(steps))


def test_only_large_batches_are_searched_in_thread(leader):
    sent = []

    def lookup():
        sent.append((yield 100))
        for size in (SMALL_BYTES, SMALL_BYTES + 1):
            sent.append((yield candidate(size)))
            sent.append((yield 100))
        return "last"

    effects, result = run(resolve_timestamp(lookup(), leader))
    assert [effect and effect.cost_bytes for effect in effects] == [
        None,
        0,
        None,
        INLINE_COST_MAX + 1,
        None,
    ]
    assert (sent, result) == ([None, FOUND, None, FOUND, None], "last")


def test_lookup_receives_error_of_its_batch(leader):
    def lookup():
        with pytest.raises(KafkaError) as caught:
            yield candidate(1, damaged=True)
        yield 100
        return caught.value.code

    effects, result = run(resolve_timestamp(lookup(), leader))
    computed, pause = effects
    assert isinstance(computed.call(), outcome.Error)
    assert (pause, result) == (None, ErrorCode.MESSAGE_TOO_LARGE)
