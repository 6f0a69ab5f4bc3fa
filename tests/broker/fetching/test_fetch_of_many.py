"""A fetch of more partitions than one turn takes: the loop has its turns, and nothing is examined in vain."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio

from tests.broker.batches import append
from tests.broker.fetching import fetch_requests
from tests.broker.fetching.fetch_requests import fill, wanted
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.fetching import fetch as fetching
from trimaran.node.runtime.steps import at_once

COUNT, TURN = 7, 3


@pytest.fixture
def harness(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "SLOTS_PER_TURN", TURN)
    monkeypatch.setattr(fetching, "ANSWERED_PER_TURN", TURN)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition() for _ in range(COUNT)]))
    return harness


def fetch_of(harness, count=COUNT, **terms):
    return fetch_requests.fetch_of(harness, *map(wanted, range(count)), **terms)


def has_records(answer):
    """Partition index to whether it is given records."""
    return {data.partition_index: bool(data.records) for one in answer for data in one.partitions}


def turns_of(reader, monkeypatch):
    """How many partitions are left to look at whenever others have a turn."""
    left = []

    async def others():
        left.append(len(reader.changed))
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(fetching, "yield_to_loop", others)
    return left


async def test_loop_yields_between_pieces_except_last(harness, monkeypatch):
    fill(harness, *range(COUNT))
    fetch, reader, slots = fetch_of(harness)
    left = turns_of(reader, monkeypatch)
    await fetch.look_ahead()
    assert left == [COUNT - TURN, COUNT - 2 * TURN]
    assert fetch.size > 0, "of what was looked at"
    assert fetch.look()
    assert has_records(at_once(fetch.answer_all(slots))) == dict.fromkeys(range(COUNT), True)


async def test_last_turn_of_slots_is_left(harness, monkeypatch):
    fetch, reader, _ = fetch_of(harness, 2 * TURN)
    left = turns_of(reader, monkeypatch)
    await fetch.look_ahead()
    assert left == [TURN]


@pytest.mark.parametrize(("least", "counted"), [(COUNT, [COUNT, TURN, TURN]), (COUNT + 1, [])])
async def test_large_requests_are_frozen_for_the_collector(harness, monkeypatch, least, counted):
    """The slots before the first turn, what was found of them at the end of each."""
    told = []
    monkeypatch.setattr(fetching, "FROZEN_ELEMENTS_MIN", least)
    monkeypatch.setattr(fetching, "LongLived", lambda: SimpleNamespace(add=told.append))
    await fetch_of(harness)[0].look_ahead()
    assert told == counted


async def test_released_fetch_examines_no_more_slots(harness):
    """The next request of the session looks, at all that there is."""
    fetch, reader, slots = fetch_of(harness)
    fetch.release()
    await fetch.look_ahead()
    await fetch.look_again()
    assert list(reader.changed) == slots


@pytest.mark.parametrize(("count", "left"), [(2, []), (COUNT, [COUNT - TURN, COUNT - 2 * TURN])])
async def test_changed_permissions_restart_the_examination(harness, monkeypatch, count, left):
    """Both what fits a turn and what does not: nothing is given of what is forbidden by then."""
    forbidden = set()
    fill(harness, *range(COUNT))
    fetch, reader, slots = fetch_of(harness, count, may_read=lambda name: name not in forbidden)
    assert fetch.look()
    assert fetch.size > 0
    forbidden.add("t")
    turns = turns_of(reader, monkeypatch)
    await fetch.look_again()
    assert turns == left
    assert fetch.size == 0
    assert has_records(at_once(fetch.answer_all(slots))) == dict.fromkeys(range(count), False)


@pytest.mark.parametrize(("count", "turns"), [(1, 1), (TURN, 1), (TURN + 1, 2), (COUNT, 3)])
async def test_answer_takes_turns_by_number_of_partitions(harness, count, turns):
    fetch, _, slots = fetch_of(harness, count)
    fetch.look()
    steps = list(fetch.answer_all(slots))
    assert len(steps) == turns - 1
    assert all(step == TURN for step in steps), "what a step stands for"
    assert fetch.is_small == (turns == 1)


async def test_unexamined_slots_are_not_answered(harness):
    fetch, reader, slots = fetch_of(harness, 2)
    del reader.changed[slots[1]]
    append(harness, b"a", index=0)
    fetch.look()
    assert list(has_records(at_once(fetch.answer_all(slots)))) == [0]
