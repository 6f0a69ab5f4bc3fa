"""Records that a shard writes in the transaction of a producer, and the markers that end it (KIP-98, KIP-890)."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import trio.testing

from tests.broker.coordination.counters import Count
from tests.broker.coordination.rig import PRODUCER, code_of, open_rig
from trimaran.broker.coordination.transactions import PendingTransactions
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.wire.errors import ErrorCode

E = ErrorCode


async def test_transactional_write_is_batch_of_its_producer(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        rig.add("a", producer=Producer(7, 3))
        (batch,) = rig.batches()
        assert (batch.producer_id, batch.producer_epoch) == (7, 3)
        assert batch.is_transactional
        assert batch.base_sequence == 0
        assert leader.log.producers.first_unstable_offset == 0
        assert shard.counts == {}, "pending"


async def test_transactional_write_is_one_batch_or_none(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        records = [Count(f"{n}", n) for n in range(1_500)]
        rig.epoch().submit(Result(records, None, atomic=False, producer=PRODUCER))
        assert [batch.count for batch in rig.batches()] == [1_500]


@pytest.mark.parametrize(("is_commit", "counts"), [(True, {"a": 2, "b": 5}), (False, {"b": 5})])
async def test_marker_completes_the_transaction(tmp_path, is_commit, counts):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        rig.add("a", 2, producer=PRODUCER)
        rig.add("b", 5)
        rig.mark(is_commit=is_commit)
        assert shard.counts == counts
        assert rig.batches()[-1].is_control
        assert leader.log.producers.first_unstable_offset is None
        assert (await rig.reload()).counts == counts


async def test_completed_transaction_is_visible_after_its_marker(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        rig.add("a", producer=PRODUCER)
        leader.holding = True
        rig.mark(is_commit=True)
        read = rig.epoch().submit(Result((), None))
        after = rig.add("a")
        assert after.response == 2
        assert not read.ready()
        leader.high_watermark.advance(2)
        assert read.ready()
        assert not after.ready()
        leader.commit()
        assert after.ready()


async def test_waiters_for_transaction_wake_with_its_marker(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        pending = PendingResponse()
        rig.epoch().step(lambda shard, _at: shard.wait_for("a", 1, pending))
        rig.add("a", producer=PRODUCER)
        assert not pending.ready()
        rig.mark(is_commit=True)
        assert pending.ready()


async def test_marker_ends_only_its_producers_transaction(tmp_path):
    async with open_rig(tmp_path) as rig:
        _, shard = await rig.serve()
        rig.add("a", producer=PRODUCER)
        rig.add("b", producer=Producer(8, 0))
        rig.mark(is_commit=True)
        assert shard.counts == {"a": 1}


async def test_marker_completes_writes_of_earlier_epoch(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        rig.add("a", producer=PRODUCER)
        shard = await rig.reload()
        assert shard.counts == {}
        assert [producer for _, _, producer in shard.replayed] == [PRODUCER]
        rig.mark(is_commit=True)
        assert shard.counts == {"a": 1}


@pytest.mark.parametrize("piece", [1, 1 << 20], ids=["loaded batch by batch", "loaded at once"])
async def test_plain_record_overrides_older_transactional_one(tmp_path, piece):
    async with open_rig(tmp_path, load_buffer_bytes=piece) as rig:
        _, shard = await rig.serve()
        rig.add("a", 9, producer=PRODUCER)
        rig.add("a", 1)
        rig.mark(is_commit=True)
        assert shard.counts == {"a": 1}
        assert (await rig.reload()).counts == {"a": 1}


async def test_transactional_record_overrides_older_plain_one(tmp_path):
    async with open_rig(tmp_path) as rig:
        _, shard = await rig.serve()
        rig.add("a", 1)
        rig.add("a", 9, producer=PRODUCER)
        rig.mark(is_commit=True)
        assert shard.counts == {"a": 10}
        assert (await rig.reload()).counts == {"a": 10}


async def test_producer_of_older_epoch_writes_nothing(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        rig.add("a", producer=Producer(7, 3))
        before = leader.log.log_end_offset
        assert code_of(lambda: rig.add("a", producer=Producer(7, 2))) is E.INVALID_PRODUCER_EPOCH
        assert leader.log.log_end_offset == before


async def test_refused_marker_completes_nothing(tmp_path):
    """From transaction version 2 on, a marker's epoch is above that of the records (KIP-890)."""
    async with open_rig(tmp_path) as rig:
        _, shard = await rig.serve()
        rig.add("a", producer=PRODUCER)
        late = code_of(lambda: rig.mark(is_commit=True, version=2))
        assert late is E.INVALID_PRODUCER_EPOCH
        assert shard.counts == {}
        rig.mark(is_commit=True, epoch=1, version=2)
        assert shard.counts == {"a": 1}


async def test_marker_is_refused_during_load_and_afterwards(tmp_path, held_load):
    """A marker that is appended behind the part being loaded would never be replayed. A transaction coordinator
    retries.
    """
    async with open_rig(tmp_path) as rig:
        leader = rig.lead()
        await trio.testing.wait_all_tasks_blocked()
        assert code_of(lambda: rig.mark(is_commit=True)) is E.NOT_LEADER_OR_FOLLOWER
        held_load.set()
        await rig.loaded()
        rig.resign()
        assert code_of(lambda: rig.mark(is_commit=True)) is E.NOT_LEADER_OR_FOLLOWER
        assert leader.log.log_end_offset == 0


@pytest.mark.parametrize("producers", [(7, 8), (8, 7)])
def test_newest_record_of_key_is_identified(producers):
    pending = PendingTransactions()
    for offset, producer_id in enumerate(producers):
        pending.add(offset, Producer(producer_id, 0), "a", offset)
    assert pending.last("a") == 1
    pending.end(producers[1], is_commit=False)
    assert pending.last("a") == 0


class Twin:
    """Keeps pending records as a list in log order and scans it for each query."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, str]] = []

    def supersede(self, key, offset):
        self.records = [r for r in self.records if r[2] != key or r[0] > offset]

    def add(self, offset, producer_id, key):
        self.records = [r for r in self.records if (r[1], r[2]) != (producer_id, key)]
        self.records.append((offset, producer_id, key))

    def end(self, producer_id, is_commit):
        ended = [r for r in self.records if r[1] == producer_id]
        self.records = [r for r in self.records if r[1] != producer_id]
        for offset, _, key in ended if is_commit else ():
            self.supersede(key, offset)
        return ended if is_commit else []


@pytest.mark.parametrize("seed", range(20))
def test_pending_records_are_those_of_a_naive_twin(seed):
    """The pending records are also counted by key and summed by weight: each record has a different weight."""
    rng, twin = random.Random(seed), Twin()
    pending = PendingTransactions(part_of=lambda key: key == "a", weigh=lambda value: 10 * value)
    for offset in range(300):
        producer, key = rng.randrange(4), rng.choice("abc")
        match rng.randrange(4):
            case 0:
                pending.supersede(key, offset)
                twin.supersede(key, offset)
            case 1:
                is_commit = rng.random() < 0.7
                ended = pending.end(producer, is_commit)
                assert [(r.offset, r.producer.id, r.key) for r in ended] == twin.end(
                    producer, is_commit
                )
            case _:
                pending.add(offset, Producer(producer, 0), key, offset + 1)
                twin.add(offset, producer, key)
        assert [(r.offset, r.producer.id, r.key) for r in pending] == twin.records
        keys = {key for _, _, key in twin.records}
        assert {key for key in "abc" if key in pending} == set(pending.keys) == keys
        assert pending.weight == sum(10 * (offset + 1) for offset, _, _ in twin.records)
        assert dict(pending.parts) == dict(Counter(key == "a" for key in keys))
        for key in keys:
            newest = max(offset for offset, _, name in twin.records if name == key)
            assert pending.last(key) == newest + 1
    assert len(pending._by_key) <= 3
