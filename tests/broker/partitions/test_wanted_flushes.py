"""The flushes that a leader epoch requests, and the directories that a replica claims."""

from __future__ import annotations

import pytest
import trio.testing

from tests.broker.batches import append, batch
from tests.cluster.data_side import partition, topic
from trimaran.log.batches.batch import iter_batches
from trimaran.quorum.metadata.image import NO_LEADER


def lead(harness):
    harness.set_image(topic("t", partition()))
    return harness.leader()


def dirty(harness):
    return [item.log for item in harness.group_commit._dirty.values()]


async def test_deferred_flush_is_brought_forward(harness):
    leader = lead(harness)
    data = batch(b"a")
    leader.append(data, list(iter_batches(data)), acks=1, is_awaited=False)
    assert dirty(harness) == []
    leader.expedite()
    assert dirty(harness) == [leader.log]


async def test_flush_of_an_offset_is_awaited(harness, nursery):
    leader, flushed = lead(harness), []

    async def wait(offset):
        await leader.wait_flushed(offset)
        flushed.append(offset)

    append(harness, b"a")
    for offset in (0, 1):
        nursery.start_soon(wait, offset)
    await trio.testing.wait_all_tasks_blocked()
    assert flushed == [0]
    harness.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert flushed == [0, 1]


def test_deletion_of_records_is_flushed(harness):
    """Once the client knows that records are deleted, no crash may restore them."""
    leader = lead(harness)
    append(harness, b"a")
    harness.flush()
    leader.delete_records_before(1)
    assert dirty(harness) == [leader.log]


@pytest.mark.parametrize(
    ("replicas", "leader", "claims"),
    [
        ((11, 12), 11, []),
        ((11, 12), 12, [True]),
        ((11, 12), NO_LEADER, [False]),
        ((11,), NO_LEADER, [True]),
        ((11,), 11, []),
    ],
)
def test_dispensable_or_sole_replica_may_start_empty(
    harness, monkeypatch, replicas, leader, claims
):
    """Otherwise a replica that is not led by this broker may be all that is left of its records."""
    found = []
    monkeypatch.setattr(
        harness.directories, "claim", lambda *_, may_begin_anew: found.append(may_begin_anew)
    )
    harness.set_image(topic("t", partition(replicas, leader)))
    assert found == claims
