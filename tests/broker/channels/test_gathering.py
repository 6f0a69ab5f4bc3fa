"""Batching of items: when they are sent together, how many, and what happens to them when the broker stops."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from trimaran.broker.channels import gathering
from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.channels.gathering import IN_FLIGHT_MAX, Gathering


class Broker:
    """A broker that accepts items (a key and a number) until `gate` opens, and answers each with its number."""

    def __init__(self) -> None:
        self.requests: list[list[tuple[str, int]]] = []
        self.gate = trio.Event()
        self.error: Exception | None = None

    async def send(self, _broker_id: int, items: Sequence[tuple[str, int]]) -> list[int]:
        self.requests.append(list(items))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [number for _, number in items]


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
async def gathered(broker, nursery):
    found = Gathering(broker.send, key=lambda item: item[0])
    await nursery.start(found.run)
    return found


async def begin(nursery, gathered, answers, *items):
    """Submits all items in this order; returns when all wait."""

    async def one(item):
        try:
            answers.append(await gathered.ask(7, item))
        except (NotSent, OutcomeUnknown) as error:
            answers.append(type(error))

    for item in items:
        nursery.start_soon(one, item)
        await trio.testing.wait_all_tasks_blocked()


async def test_items_arriving_together_share_a_request(broker, gathered, nursery):
    answers = []
    items = [(f"k{number}", number) for number in range(IN_FLIGHT_MAX + 3)]
    await begin(nursery, gathered, answers, *items)
    assert broker.requests == [[item] for item in items[:IN_FLIGHT_MAX]]
    broker.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert broker.requests[IN_FLIGHT_MAX:] == [items[IN_FLIGHT_MAX:]]
    assert sorted(answers) == list(range(len(items)))


async def test_request_never_holds_one_key_twice(broker, gathered, nursery):
    answers = []
    first = [(f"k{number}", number) for number in range(IN_FLIGHT_MAX)]
    await begin(nursery, gathered, answers, *first, ("a", 10), ("a", 11), ("b", 12))
    broker.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert broker.requests[IN_FLIGHT_MAX:] == [[("a", 10), ("b", 12)], [("a", 11)]]
    assert sorted(answers) == [0, 1, 2, 3, 10, 11, 12]


async def test_request_has_bounded_number_of_items(broker, gathered, nursery, monkeypatch):
    monkeypatch.setattr(gathering, "ITEMS_MAX", 2)
    items = [(f"k{number}", number) for number in range(IN_FLIGHT_MAX + 3)]
    await begin(nursery, gathered, [], *items)
    broker.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert [len(request) for request in broker.requests[IN_FLIGHT_MAX:]] == [2, 1]


async def test_failure_of_request_reaches_each_caller(broker, gathered, nursery):
    answers = []
    broker.error = OutcomeUnknown("no answer came")
    broker.gate.set()
    await begin(nursery, gathered, answers, ("a", 1), ("b", 2))
    assert answers == [OutcomeUnknown, OutcomeUnknown]


async def test_waiting_callers_fail_when_broker_stops(broker):
    answers = []
    found = Gathering(broker.send, key=lambda item: item[0])
    items = [(f"k{number}", number) for number in range(IN_FLIGHT_MAX + 2)]
    async with trio.open_nursery() as asking:
        async with trio.open_nursery() as running:
            await running.start(found.run)
            await begin(asking, found, answers, *items)
            running.cancel_scope.cancel()
    assert sorted(answers, key=str) == [NotSent] * 2 + [OutcomeUnknown] * IN_FLIGHT_MAX
    with pytest.raises(NotSent):
        await found.ask(7, ("a", 1))


async def test_item_of_cancelled_caller_is_not_sent(broker, gathered, nursery):
    items = [(f"k{number}", number) for number in range(IN_FLIGHT_MAX)]
    await begin(nursery, gathered, [], *items)
    with trio.move_on_after(0):
        await gathered.ask(7, ("late", 1))
    broker.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert len(broker.requests) == IN_FLIGHT_MAX
