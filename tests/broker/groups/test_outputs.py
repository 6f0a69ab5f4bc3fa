"""The outputs of a shard: each is returned once, with one response to each request that waits for a write."""

from __future__ import annotations

import pytest

from trimaran.broker.coordination.shard import Effects
from trimaran.broker.groups.outputs import AwaitedWrite, Outputs, TimerKey
from trimaran.wire.errors import ErrorCode

E = ErrorCode


def awaited(token="token", response="response", *, refused=True):
    return AwaitedWrite(token, response, (lambda code: f"refused {code.name}") if refused else None)


@pytest.fixture
def outputs():
    return Outputs()


def test_effects_are_taken_once_in_order(outputs):
    write = awaited()
    outputs.respond("a", 1)
    outputs.effects.writes.append(write)
    outputs.respond("b", 2)
    outputs.resolve("g")
    outputs.resolve("h")
    taken = outputs.take()
    assert taken == Effects([("a", 1), ("b", 2)], [write], ["g", "h"])
    assert outputs.take() == Effects()
    outputs.respond("c", 3)
    assert taken.responses == [("a", 1), ("b", 2)]
    assert outputs.take() == Effects([("c", 3)])


@pytest.mark.parametrize(
    "fill", [lambda e: e.responses, lambda e: e.writes, lambda e: e.follow_ups]
)
def test_any_effect_is_taken_alone(outputs, fill):
    empty = outputs.take()
    assert outputs.take() is empty, "idle shards make no objects"
    fill(outputs.effects).append("it")
    assert fill(outputs.take()) == ["it"]
    assert outputs.take() == Effects()


@pytest.mark.parametrize(
    ("write", "code", "expected"),
    [
        (awaited(), E.NONE, [("token", "response")]),
        (awaited(), E.NOT_COORDINATOR, [("token", "refused NOT_COORDINATOR")]),
        (awaited(refused=False), E.NOT_COORDINATOR, [("token", "response")]),
        (awaited(token=None), E.NONE, []),
        (awaited(token=None), E.NOT_COORDINATOR, []),
        (awaited(response=None), E.NONE, []),
        (awaited(response=None), E.NOT_COORDINATOR, []),
    ],
)
def test_write_is_answered_by_its_outcome(outputs, write, code, expected):
    outputs.effects.writes.append(write)
    outputs.take()
    assert outputs.awaited == ({write} if write.token else set())
    outputs.written(write, code)
    assert outputs.take() == Effects(expected)
    assert outputs.awaited == set()
    outputs.close()
    assert outputs.take() == Effects()


def test_closed_shard_refuses_what_waits(outputs):
    writes = [awaited(token) for token in "abc"]
    outputs.effects.writes += writes
    outputs.take()
    outputs.written(writes[1], E.NONE)
    outputs.take()
    outputs.close()
    assert sorted(outputs.take().responses) == [
        ("a", "refused NOT_COORDINATOR"),
        ("c", "refused NOT_COORDINATOR"),
    ]
    assert outputs.awaited == set()


def test_other_writes_are_not_awaited(outputs):
    outputs.effects.writes.append("a write of a kind of group")
    outputs.take()
    assert outputs.awaited == set()


def test_timer_of_the_shard_has_no_group():
    assert TimerKey("expiry") == ("expiry", "", "")
