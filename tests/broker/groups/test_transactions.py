"""Transactional offsets, which are ended by a transaction coordinator's markers (KIP-98)."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.broker.calls import answered, call, finished
from tests.broker.groups.driver import Driver
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import serde_of
from trimaran.broker.handlers.offset_fetch import offset_fetch
from trimaran.broker.handlers.write_txn_markers import write_txn_markers
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import build_batch
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from trimaran.wire.records.groups import OffsetCommitKey, OffsetCommitValue

PRODUCER = 7


def offset_record(offset, index=0):
    key = OffsetCommitKey(group="g", topic="t", partition=index)
    return GroupRecord(key, OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0))


def committed_in_transaction(offset):
    """Returns a batch of `__consumer_offsets` as TxnOffsetCommit writes it."""
    return bytearray(
        build_batch(
            [serde_of().encode(offset_record(offset), 0)],
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


class Broker:
    """A broker that leads the only partition of `__consumer_offsets`."""

    def __init__(self, harness) -> None:
        self.harness = harness
        self.groups = harness.contexts.groups.groups

    async def mark(self, *, is_commit):
        marker = WritableTxnMarker(
            producer_id=PRODUCER,
            producer_epoch=0,
            transaction_result=is_commit,
            topics=[WritableTxnMarkerTopic(name=CONSUMER_OFFSETS, partition_indexes=[0])],
            coordinator_epoch=0,
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        answers = []

        async def ask():
            answers.append(
                await finished(
                    write_txn_markers(request, self.harness.contexts.transactions, call(request, 1))
                )
            )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            self.harness.flush()
        return answers[0].markers[0].topics[0].partitions[0].error_code

    async def offsets(self):
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        answer = await answered(
            offset_fetch, request, self.harness.contexts.groups, call(request, 9)
        )
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.groups[0].topics
            for partition in topic.partitions
        }

    async def serve(self, nursery):
        await nursery.start(self.groups.runtime.run)
        await self.groups.runtime.epoch_of(0)._state.wait_not(ShardState.LOADING)


@asynccontextmanager
async def open_broker(tmp_path):
    """Opens a broker whose shard loads when the test calls `serve`."""
    harness = open_harness(tmp_path, offsets_topic_num_partitions="1")
    harness.partitions.listen(CONSUMER_OFFSETS, harness.contexts.groups.groups.runtime)
    harness.set_image(topic("t", partition()), topic(CONSUMER_OFFSETS, partition()))
    data = committed_in_transaction(5)
    harness.leader(CONSUMER_OFFSETS).append(memoryview(data), list(iter_batches(data)))
    harness.flush()
    async with trio.open_nursery() as nursery:
        yield Broker(harness), nursery
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
async def test_offsets_count_after_commit_marker(tmp_path, is_commit):
    async with open_broker(tmp_path) as (broker, nursery):
        await broker.serve(nursery)
        assert await broker.offsets() == {}
        assert await broker.mark(is_commit=is_commit) == ErrorCode.NONE
        assert await broker.offsets() == ({("t", 0): 5} if is_commit else {})


async def test_marker_is_refused_before_groups_are_loaded(tmp_path):
    """A marker that is appended behind the part being loaded would never be replayed."""
    async with open_broker(tmp_path) as (broker, nursery):
        end_offset = broker.harness.leader(CONSUMER_OFFSETS).log.log_end_offset
        assert await broker.mark(is_commit=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert broker.harness.leader(CONSUMER_OFFSETS).log.log_end_offset == end_offset
        await broker.serve(nursery)
        assert await broker.mark(is_commit=True) == ErrorCode.NONE
        assert await broker.offsets() == {("t", 0): 5}


def test_plain_commit_overrides_older_transactional_one():
    shard, producer = Driver().shard, Producer(PRODUCER, 0)
    shard.replay(0, offset_record(5, index=0), producer)
    shard.replay(1, offset_record(6, index=1), producer)
    shard.replay(2, offset_record(1, index=0))
    shard.complete_transaction(producer, True)
    offsets = {key.partition: value.offset for key, value in shard.store.offsets_of("g")}
    assert offsets == {0: 1, 1: 6}
