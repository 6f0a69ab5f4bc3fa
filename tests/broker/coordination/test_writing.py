"""The batches of a shard's writes: their sizes, and which records stay together."""

from __future__ import annotations

import dataclasses

import pytest

from tests.broker.coordination.counters import Count
from tests.broker.coordination.rig import PRODUCER, code_of, open_rig
from trimaran.broker.coordination.writing import RECORD_OVERHEAD_MAX
from trimaran.log.batches.batch import HEADER_BYTES
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.errors import ErrorCode

E = ErrorCode


def limit(leader, **config):
    leader.log.config = dataclasses.replace(leader.log.config, **config)


@pytest.mark.parametrize("key", ["max_message_bytes", "segment_bytes"])
async def test_batch_size_is_limited_by_topic(tmp_path, key):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        rig.add("a")
        [batch] = rig.batches()
        limit(leader, **{key: batch.size})
        rig.add("b")
        assert code_of(lambda: rig.add("cc")) is E.UNKNOWN_SERVER_ERROR
        assert list(shard.counts) == ["a", "b"]


async def test_atomic_write_is_one_batch_or_none(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        rig.epoch().submit(Result([Count(f"{n}", n) for n in range(2_500)], None))
        assert [batch.count for batch in rig.batches()] == [2_500]
        large = Result([Count(f"{n}".rjust(1_000), n) for n in range(1_100)], None)
        assert code_of(lambda: rig.epoch().submit(large)) is E.UNKNOWN_SERVER_ERROR
        assert len(shard.counts) == 2_500
        limit(leader, max_message_bytes=2 << 20)
        rig.epoch().submit(large)
        assert [batch.count for batch in rig.batches()] == [2_500, 1_100]


async def test_transactional_write_is_one_batch(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        limit(leader, max_message_bytes=10_000)
        records = [Count(f"{n}".rjust(1_000), n) for n in range(11)]
        result = Result(records, None, atomic=False, producer=PRODUCER)
        assert code_of(lambda: rig.epoch().submit(result)) is E.UNKNOWN_SERVER_ERROR
        assert rig.batches() == []


@pytest.mark.parametrize(
    ("name_bytes", "counts"), [(3, [2_500]), (2_000, [515, 515, 514, 514, 442])]
)
async def test_non_atomic_write_is_split_by_bytes(tmp_path, name_bytes, counts):
    async with open_rig(tmp_path) as rig:
        _, shard = await rig.serve()
        records = [Count(f"{n}".rjust(name_bytes), n) for n in range(2_500)]
        assert rig.epoch().submit(Result(records, None, atomic=False)).ready()
        assert [batch.count for batch in rig.batches()] == counts
        assert len(shard.counts) == 2_500


async def test_batches_are_filled_to_their_limit(tmp_path):
    """The sizes of records are upper bounds."""
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        record = Count("n" * (1_000 - RECORD_OVERHEAD_MAX - 1), 1)
        for size, counts in ((0, [2, 2, 1]), (-1, [1] * 5), (1_000, [3, 2])):
            limit(leader, max_message_bytes=HEADER_BYTES + 2_000 + size)
            before = len(rig.batches())
            rig.epoch().submit(Result([record] * 5, None, atomic=False))
            assert [batch.count for batch in rig.batches()[before:]] == counts


async def test_batches_before_refused_one_take_effect(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        limit(leader, max_message_bytes=1_000)
        pending = PendingResponse()
        rig.epoch().step(lambda shard, _at: shard.wait_for("0", 1, pending))
        records = [Count("0", 1), Count("n" * 1_000, 1), Count("2", 1)]
        result = Result(records, None, atomic=False)
        assert code_of(lambda: rig.epoch().submit(result)) is E.UNKNOWN_SERVER_ERROR
        assert shard.counts == {"0": 1}
        assert pending.ready()
