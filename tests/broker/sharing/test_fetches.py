"""The fetch of one request: how many bytes are available, how they are divided, and which batches are sent."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import trio

from tests.broker.sharing.rig import sharing_rig, transact
from tests.cluster.data_side import topic_id
from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.sharing import share_fetch
from trimaran.broker.sharing.acquiring import Acquired, BatchBounds
from trimaran.broker.sharing.rules import AcquireMode
from trimaran.broker.sharing.sessions import ShareSession
from trimaran.broker.sharing.share_fetch import (
    FoundRecords,
    ShareFetch,
    ShareTerms,
    _aborted_batches,
    _BatchPlace,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition

MANY = 1 << 20


def key(index):
    return TopicIdPartition(topic_id("t"), index)


def terms(**changes):
    asked = {
        "session": ShareSession("g", "m"),
        "mode": AcquireMode.BATCH_OPTIMIZED,
        "max_records": 500,
        "batch_size": 500,
        "min_bytes": 1,
        "max_bytes": MANY,
        "reads_committed": False,
        **changes,
    }
    return ShareTerms(**asked)


async def opened(rig):
    """Returns all share partitions, loaded."""
    for index in range(rig.image_partitions):
        rig.sharing.open(rig.key(index), rig.harness.leader("t", index))
    await trio.testing.wait_all_tasks_blocked()
    return {key(index): rig.share(index) for index in range(rig.image_partitions)}


def read(rig, offset, upto=MANY, index=0):
    """Returns the bytes of the batches from one offset up to another."""
    log = rig.harness.leader("t", index).log
    return log.read(offset, MANY, upto_offset=upto, min_one=True).read()


def size_of(rig, *offsets, index=0):
    return len(read(rig, *offsets, index=index))


def outcome(found):
    """Returns by partition the acquired ranges and the bytes, or the code."""
    return {
        each.partition: (
            ([part[:2] for part in result.acquired], result.size)
            if isinstance(result, FoundRecords)
            else result.code
        )
        for each, result in found.items()
    }


def steps(handling):
    """Returns the number of pauses, and the result."""
    count = 0
    while True:
        try:
            assert next(handling) is None
        except StopIteration as stop:
            return count, stop.value
        count += 1


async def test_attached_fetch_is_woken(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        shares = await opened(rig)
        fetch = ShareFetch(terms(), shares)
        assert not await fetch.changed.wait(trio.current_time())
        fetch.attach()
        assert [list(share.readers) for share in shares.values()] == [[fetch]] * 2
        rig.produce(1, index=1)
        assert await fetch.changed.wait(trio.current_time())
        fetch.detach()
        fetch.detach()
        assert [share.readers for share in shares.values()] == [{}, {}]


@pytest.mark.parametrize(("more", "enough"), [(-1, True), (0, True), (1, False)])
async def test_minimum_counts_all_partitions(tmp_path, more, enough):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(3, 4)
        rig.produce(5, index=1)
        size = size_of(rig, 0, 7) + size_of(rig, 0, 5, index=1)
        fetch = ShareFetch(terms(min_bytes=size + more), await opened(rig))
        assert steps(fetch.has_enough()) == (2, enough)
        assert done(fetch.size_at_hand()) == size


async def test_first_partition_may_reach_the_minimum(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(3)
        fetch = ShareFetch(terms(), await opened(rig))
        assert steps(fetch.has_enough()) == (1, True)
        assert steps(ShareFetch(terms(), {key(0): rig.share()}).has_enough()) == (0, True)


@pytest.mark.parametrize(("min_bytes", "enough"), [(0, True), (1, False)])
async def test_empty_partition_satisfies_only_minimum_zero(tmp_path, min_bytes, enough):
    async with sharing_rig(tmp_path) as rig:
        fetch = ShareFetch(terms(min_bytes=min_bytes), await opened(rig))
        assert done(fetch.has_enough()) is enough
        assert done(fetch.size_at_hand()) == 0


async def test_fetch_without_loaded_partitions_waits(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.states.open = trio.Event()
        fetch = ShareFetch(terms(min_bytes=0), await opened(rig))
        assert not done(fetch.has_enough())
        assert done(fetch.size_at_hand()) == 0
        assert done(fetch.acquire()) == {key(0): FoundRecords(None, ())}


async def test_ended_partition_ends_the_wait(tmp_path):
    async with sharing_rig(tmp_path, partitions=3) as rig:
        rig.produce(3)
        rig.produce(3, index=1)
        shares = await opened(rig)
        shares[key(1)].end(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
        fetch = ShareFetch(terms(min_bytes=MANY), shares)
        assert steps(fetch.has_enough()) == (2, True)
        size = size_of(rig, 0, 3)
        assert done(fetch.size_at_hand()) == size
        assert outcome(done(fetch.acquire())) == {
            0: ([(0, 2)], size), 1: ErrorCode.LEADER_NOT_AVAILABLE, 2: ([], 0)
        }  # fmt: skip


async def test_unreadable_partition_ends_the_wait(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(3)
        rig.produce(3, index=1)
        shares = await opened(rig)
        leader = shares[key(0)].leader
        leader.replica.watchers.discard(shares[key(0)])
        leader.end()
        fetch = ShareFetch(terms(min_bytes=MANY), shares)
        assert steps(fetch.has_enough()) == (1, True)
        size = size_of(rig, 0, 3, index=1)
        assert done(fetch.size_at_hand()) == size
        assert outcome(done(fetch.acquire())) == {
            0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 1: ([(0, 2)], size)
        }  # fmt: skip


async def test_readable_partitions_get_the_same_bytes(tmp_path):
    async with sharing_rig(tmp_path, partitions=3) as rig:
        for index in (0, 1, 2):
            rig.produce(5, 5, 5, index=index)
        shares = await opened(rig)
        batch = size_of(rig, 0, 5)
        shares[key(2)].end(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
        fetch = ShareFetch(terms(max_bytes=4 * batch + 1, min_bytes=4 * batch), shares)
        assert done(fetch.size_at_hand()) == 4 * batch
        assert steps(ShareFetch(fetch.terms, dict(list(shares.items())[:2])).has_enough()) == (
            2, True
        )  # fmt: skip
        found = outcome(done(fetch.acquire()))
        assert (found[0], found[1]) == (([(0, 9)], 2 * batch),) * 2


async def test_only_the_first_batch_may_be_too_large(tmp_path):
    async with sharing_rig(tmp_path, partitions=3) as rig:
        for index in (1, 2):
            rig.produce(50, 5, index=index)
        fetch = ShareFetch(terms(max_bytes=3, min_bytes=3), await opened(rig))
        size = size_of(rig, 0, 50, index=1)
        assert done(fetch.size_at_hand()) == size
        assert not done(ShareFetch(terms(max_bytes=3, min_bytes=4), fetch.shares).has_enough())
        assert done(ShareFetch(terms(max_bytes=3, min_bytes=2), fetch.shares).has_enough())
        found = outcome(done(fetch.acquire()))
        assert found == {0: ([], 0), 1: ([(0, 49)], size), 2: ([], 0)}


async def test_batch_after_empty_partition_respects_the_bound(tmp_path):
    async with sharing_rig(tmp_path, partitions=3) as rig:
        rig.produce(5)
        rig.produce(50, index=2)
        size = size_of(rig, 0, 5)
        fetch = ShareFetch(terms(max_bytes=3 * size), await opened(rig))
        found = outcome(done(fetch.acquire()))
        assert found == {0: ([(0, 4)], size), 1: ([], 0), 2: ([], 0)}


async def test_partition_always_gets_one_batch(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(5)
        fetch = ShareFetch(terms(max_bytes=1), await opened(rig))
        assert outcome(done(fetch.acquire()))[0] == ([(0, 4)], size_of(rig, 0, 5))


@pytest.mark.parametrize(
    ("most", "second"), [(4, []), (5, []), (6, [(0, 0)]), (9, [(0, 3)]), (10, [(0, 4)])]
)
async def test_record_limit_counts_all_partitions(tmp_path, most, second):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(5)
        rig.produce(5, index=1)
        asked = terms(max_records=most, mode=AcquireMode.RECORD_LIMIT)
        pauses, found = steps(ShareFetch(asked, await opened(rig)).acquire())
        assert [part[:2] for part in found[key(0)].acquired] == [(0, min(most, 5) - 1)]
        assert [part[:2] for part in found[key(1)].acquired] == second
        assert pauses == 1


async def test_partition_is_not_read_beyond_record_limit(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(5)
        rig.produce(5, index=1)
        shares = await opened(rig)
        leader = shares[key(1)].leader
        leader.replica.watchers.discard(shares[key(1)])
        leader.end()
        found = outcome(done(ShareFetch(terms(max_records=5), shares).acquire()))
        assert found == {0: ([(0, 4)], size_of(rig, 0, 5)), 1: ([], 0)}


async def test_exhausted_byte_limit_leaves_other_records_free(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(50)
        rig.produce(5, index=1)
        large = size_of(rig, 0, 50)
        shares = await opened(rig)
        fetch = ShareFetch(terms(max_bytes=large), shares)
        found = outcome(done(fetch.acquire()))
        assert found == {0: ([(0, 49)], large), 1: ([], 0)}
        done(shares[key(0)].release("m", lambda: False))
        small = size_of(rig, 0, 5, index=1)
        more = terms(max_bytes=2 * large)
        found = outcome(done(ShareFetch(more, shares).acquire()))
        assert found == {0: ([], 0), 1: ([(0, 4)], small)}  # the release is not stored yet
        await trio.testing.wait_all_tasks_blocked()
        found = outcome(done(ShareFetch(more, shares).acquire()))
        assert found == {0: ([(0, 49)], large), 1: ([], 0)}


async def test_sent_batches_begin_and_end_with_acquired_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(5, 5, 5, 5)
        shares = await opened(rig)
        share = shares[key(0)]
        await trio.testing.wait_all_tasks_blocked()
        share.acquire([BatchBounds(0, 4)], 0, _demand("n"), [])
        found = done(ShareFetch(terms(max_records=6), shares).acquire())[key(0)]
        assert found.acquired == [Acquired(5, 14, 1)]
        assert found.records.read() == read(rig, 5, 15)
        assert (found.records.first_offset, found.records.end_offset) == (5, 15)
        exact = terms(max_records=2, mode=AcquireMode.RECORD_LIMIT)
        found = done(ShareFetch(exact, shares).acquire())[key(0)]
        assert found.acquired == [Acquired(15, 16, 1)]
        found = done(ShareFetch(exact, shares).acquire())[key(0)]
        assert found.acquired == [Acquired(17, 18, 1)]
        assert found.records.read() == read(rig, 15)
        assert (found.records.first_offset, found.records.end_offset) == (17, 20)


def _demand(member):
    return share_fetch.Demand(member, AcquireMode.BATCH_OPTIMIZED, 500, 500)


@pytest.mark.parametrize(("limit", "last"), [(1, 4), (2, 9), (3, 14), (4, 14)])
async def test_acquisition_examines_limited_number_of_batches(tmp_path, monkeypatch, limit, last):
    monkeypatch.setattr(share_fetch, "LOOKED_AT_MAX", limit)
    async with sharing_rig(tmp_path) as rig:
        rig.produce(5, 5, 5)
        found = done(ShareFetch(terms(), await opened(rig)).acquire())[key(0)]
        assert found.acquired == [Acquired(0, last, 1)]
        assert found.size == size_of(rig, 0, last + 1)


async def test_committed_reader_stops_at_open_transactions(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        transact(rig, 1, 3, is_commit=False)
        rig.produce(2)
        rig.produce(2, is_transactional=True, producer_id=3, producer_epoch=0, base_sequence=0)
        shares = await opened(rig)
        fetch = ShareFetch(terms(reads_committed=True), shares)
        assert done(fetch.size_at_hand()) == size_of(rig, 0, 6)
        assert done(ShareFetch(terms(), shares).size_at_hand()) == size_of(rig, 0, 8)
        found = done(fetch.acquire())[key(0)]
        assert found.acquired == [Acquired(3, 5, 1)]
        assert done(fetch.acquire()) == {key(0): FoundRecords(None, ())}


async def test_fetch_of_aborted_records_is_empty(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        transact(rig, 1, 3, is_commit=False)
        shares = await opened(rig)
        fetch = ShareFetch(terms(reads_committed=True, max_records=3), shares)
        assert done(fetch.acquire()) == {key(0): FoundRecords(None, ())}
        assert shares[key(0)].core.start == 3


class View(NamedTuple):
    """The header of a batch, as `_aborted_batches` reads it."""

    base_offset: int
    last_offset: int
    producer_id: int
    is_transactional: bool = True
    is_control: bool = False


@pytest.mark.parametrize(
    ("views", "listed", "found"),
    [
        ([View(0, 4, 1)], [], []),
        ([View(0, 4, 1)], [(0, 1)], [(0, 4)]),
        ([View(0, 4, 1)], [(4, 1)], [(0, 4)]),
        ([View(0, 4, 1)], [(5, 1)], []),
        ([View(0, 4, 2)], [(0, 1)], []),
        ([View(0, 4, 1, is_transactional=False)], [(0, 1)], []),
        ([View(0, 4, 1), View(5, 6, 2), View(7, 9, 1)], [(0, 1)], [(0, 4), (7, 9)]),
        ([View(0, 4, 1), View(5, 5, 1, is_control=True), View(6, 9, 1)], [(0, 1)], [(0, 4)]),
        ([View(0, 4, 1), View(5, 5, 2, is_control=True), View(6, 9, 1)], [(0, 1)],
         [(0, 4), (6, 9)]),
        ([View(0, 4, 1), View(5, 5, 1, is_control=True), View(6, 9, 1)], [(6, 1), (0, 1)],
         [(0, 4), (6, 9)]),
        ([View(0, 4, 1), View(5, 9, 2)], [(5, 2), (0, 1)], [(0, 4), (5, 9)]),
        ([View(0, 4, 1), View(5, 9, 2)], [(0, 1), (5, 2)], [(0, 4), (5, 9)]),
    ],
)  # fmt: skip
def test_aborted_batches_follow_the_listed_transactions(views, listed, found):
    looks = [_BatchPlace(0, view) for view in views]
    assert _aborted_batches(looks, listed) == [BatchBounds(*bounds) for bounds in found]
