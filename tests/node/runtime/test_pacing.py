"""Work that yields to the loop between its parts."""

from __future__ import annotations

import pytest

from trimaran.node.runtime import pacing
from trimaran.node.runtime.pacing import HOLD_SECONDS_MAX, Paced, run_handling, run_paced
from trimaran.node.runtime.steps import pieces
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.effects import Blocking, Compute, Wait


@pytest.fixture
def yielded(monkeypatch):
    """Returns a list that grows by one whenever other tasks have had a turn."""
    found = []

    async def others():
        found.append(1)

    monkeypatch.setattr(pacing, "yield_to_loop", others)
    return found


def steps_of(clock, seconds, had, yielded):
    """Takes each of `seconds`, in parts of what a task may hold the loop."""
    for part in seconds:
        had.append(len(yielded))
        clock.jump(part * HOLD_SECONDS_MAX)
        yield part
    return "result"


CASES = [
    ([], [], 0),
    ([0.9], [0], 0),
    ([0.4, 0.4, 0.4, 0.4, 0.4, 0.4], [0, 0, 0, 1, 1, 1], 2),
    ([3, 0.5, 3], [0, 1, 1], 2),
]


@pytest.mark.parametrize(("seconds", "turns_before", "turns_after"), CASES)
async def test_loop_yields_after_bounded_time(
    mock_clock, yielded, seconds, turns_before, turns_after
):
    had = []
    items = [item async for item in Paced(steps_of(mock_clock, seconds, had, yielded))]
    assert items == seconds
    assert had == turns_before
    assert len(yielded) == turns_after


@pytest.mark.parametrize(("seconds", "turns_before", "turns_after"), CASES)
async def test_paced_run_returns_the_result(
    mock_clock, yielded, seconds, turns_before, turns_after
):
    had = []
    assert await run_paced(steps_of(mock_clock, seconds, had, yielded)) == "result"
    assert had == turns_before
    assert len(yielded) == turns_after


@pytest.mark.parametrize(("seconds", "turns_before", "turns_after"), CASES)
async def test_paced_handling_returns_the_result(
    mock_clock, yielded, seconds, turns_before, turns_after
):
    had = []

    def handling():
        steps = steps_of(mock_clock, seconds, had, yielded)
        for _ in steps:
            yield None
        return "result"

    assert await run_handling(handling()) == "result"
    assert had == turns_before
    assert len(yielded) == turns_after


async def test_handling_gets_results_of_its_waits():
    """The waits run in order and each returns its result; a pause has no result."""
    came = []

    async def work(result):
        came.append(f"awaits {result}")
        if isinstance(result, Exception):
            raise result
        return result

    def handling():
        came.append((yield Blocking(lambda: work(1))))
        came.append((yield None))
        with pytest.raises(KafkaError) as caught:
            yield Wait(lambda: work(KafkaError(ErrorCode.NOT_COORDINATOR)))
        came.append(caught.value.code)
        came.append((yield None))
        came.append((yield Wait(lambda: work(2))))
        came.append((yield None))
        return 3

    assert await run_handling(handling()) == 3
    assert came == [
        "awaits 1",
        1,
        None,
        "awaits NOT_COORDINATOR",
        ErrorCode.NOT_COORDINATOR,
        None,
        "awaits 2",
        2,
        None,
    ]


async def test_errors_of_handling_reach_its_caller():
    async def fail():
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def handling(effect):
        yield effect

    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        await run_handling(handling(Wait(fail)))
    with pytest.raises(AssertionError):
        await run_handling(handling(Compute(0, print)))


async def test_zero_hold_yields_before_each_item(mock_clock, yielded, monkeypatch):
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)
    assert [len(yielded) async for _ in Paced(range(3))] == [1, 2, 3]


def test_hold_is_a_tenth_of_the_longest_step():
    assert HOLD_SECONDS_MAX <= 0.005


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [[0]]), (3, [[0, 1, 2]]), (4, [[0, 1, 2], [3]]), (6, [[0, 1, 2], [3, 4, 5]])],
)
def test_items_come_in_pieces_of_given_size(count, expected):
    assert list(pieces(iter(range(count)), 3)) == expected


def test_pieces_reflect_items_at_request():
    items = [1, 2, 3]
    found = pieces(items, 2)
    assert next(found) == [1, 2]
    items.clear()
    assert list(found) == [[3]]
