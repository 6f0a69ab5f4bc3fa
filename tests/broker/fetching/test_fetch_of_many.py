"""A fetch of many partitions pauses after each one, and reads only what it returns."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.batches import append
from tests.broker.calls import started
from tests.broker.fetching import fetch_requests
from tests.broker.fetching.fetch_requests import fill, wanted
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.fetching import fetch as fetching
from trimaran.wire.transport.scheduling.effects import Blocking

COUNT = 7


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition() for _ in range(COUNT)]))
    return harness


def fetch_of(harness, count=COUNT, **terms):
    return fetch_requests.fetch_of(harness, *map(wanted, range(count)), **terms)


def has_records(answer):
    """Returns, by partition index, whether the response has records."""
    return {
        data.partition_index: bool(data.records) for topic in answer for data in topic.partitions
    }


async def test_poll_pauses_after_each_partition(harness):
    fill(harness, *range(COUNT))
    fetch, _, slots = fetch_of(harness)
    found = [fetch.size for _ in fetch.poll()]
    assert len(set(found)) == COUNT
    assert started(fetch.poll()), "there is enough"
    assert has_records(started(fetch.responses(slots))) == dict.fromkeys(range(COUNT), True)


@pytest.mark.parametrize(("least", "counted"), [(COUNT, [COUNT] + [1] * COUNT), (COUNT + 1, [])])
async def test_large_requests_are_frozen_for_the_collector(harness, monkeypatch, least, counted):
    """All slots are frozen first, then the result of each."""
    noted = []
    monkeypatch.setattr(fetching, "FROZEN_ELEMENTS_MIN", least)
    monkeypatch.setattr(fetching, "LongLived", lambda: SimpleNamespace(add=noted.append))
    started(fetch_of(harness)[0].poll())
    assert noted == counted


async def test_released_fetch_reads_no_more_slots(harness):
    """The session's next request reads all of them."""
    fetch, reader, slots = fetch_of(harness)
    fetch.release()
    started(fetch.poll())
    started(fetch.poll_again())
    assert list(reader.changed) == slots


async def test_fetch_released_during_poll_gives_all_slots_back(harness):
    fill(harness, *range(COUNT))
    fetch, reader, slots = fetch_of(harness)
    poll = fetch.poll()
    for _ in range(3):
        next(poll)
    fetch.release()
    with pytest.raises(StopIteration) as end:
        next(poll)
    assert end.value.value, "it waits no longer"
    assert list(reader.changed) == slots


async def test_fetch_released_during_check_gives_all_slots_back(tmp_path):
    """The log that was checked meanwhile is read by the next request of the session."""
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    fill(harness, 0, 1)
    harness.partitions.close()
    harness.directory.close(broker_epoch=None)
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    fetch, reader, slots = fetch_of(harness, 2)
    poll = fetch.poll()
    check = next(poll)
    assert isinstance(check, Blocking)
    await check.wait()
    fetch.release()
    with pytest.raises(StopIteration) as end:
        poll.send(None)
    assert end.value.value, "it waits no longer"
    assert (list(reader.changed), fetch.size) == (slots[::-1], 0)
    assert started(fetch.responses(slots)) == []


@pytest.mark.parametrize("count", [2, COUNT])
async def test_changed_permissions_restart_the_poll(harness, count):
    """The response has no records of topics that have become forbidden."""
    forbidden = set()
    fill(harness, *range(COUNT))
    fetch, _, slots = fetch_of(harness, count, may_read=lambda name: name not in forbidden)
    assert started(fetch.poll())
    assert fetch.size > 0
    forbidden.add("t")
    started(fetch.poll_again())
    assert fetch.size == 0
    assert has_records(started(fetch.responses(slots))) == dict.fromkeys(range(count), False)


@pytest.mark.parametrize(("count", "pauses"), [(1, 0), (2, 2), (COUNT, COUNT)])
async def test_response_pauses_after_each_of_several(harness, count, pauses):
    fetch, _, slots = fetch_of(harness, count)
    started(fetch.poll())
    assert list(fetch.responses(slots)) == [None] * pauses


async def test_unexamined_slots_are_not_answered(harness):
    fetch, reader, slots = fetch_of(harness, 2)
    del reader.changed[slots[1]]
    append(harness, b"a", index=0)
    started(fetch.poll())
    assert list(has_records(started(fetch.responses(slots)))) == [0]
