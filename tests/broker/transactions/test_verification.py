"""Verification of a produced partition by this broker as coordinator: without a wait if possible."""

from __future__ import annotations

from functools import partial

import trio

from tests.broker.calls import Paused, started
from tests.broker.handlers.broker_client import broker_client
from tests.broker.transactions.wire_producer import (
    SETTINGS,
    WireProducer,
    allowed_at_once,
    read_committed,
)
from trimaran.broker.transactions.transaction import TransactionState
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition

E = ErrorCode
ADDING, VERIFYING = 12, 9  # versions of Produce: we add partitions, or the client has added them


def state_of(one, producer):
    shard = one.broker.parts.families.transactions.coordinator.epoch_of(producer.name).active()
    return shard.transactions[producer.name]


async def test_immediately_committed_addition_needs_no_wait(tmp_path):
    async with broker_client(tmp_path, **SETTINGS, trimaran_log_fsync="none") as one:
        await one.create("t", partitions=2)
        producer = WireProducer(one)
        await producer.begin()
        check = partial(allowed_at_once, one.broker.parts.families.transactions.verifier)
        who = producer.name, producer.producer
        assert not check(*who, {TopicPartition("t", 0)}, VERIFYING), "nobody has added it"
        assert check(*who, {TopicPartition("t", 0)}, ADDING)
        assert state_of(one, producer).partitions == {TopicPartition("t", 0)}
        assert check(*who, {TopicPartition("t", 0)}, VERIFYING)
        assert not check(*who, {TopicPartition("t", 0), TopicPartition("t", 2)}, ADDING), (
            "there is no such partition"
        )
        assert state_of(one, producer).partitions == {TopicPartition("t", 0)}
        other = producer.producer._replace(epoch=producer.producer.epoch + 1)
        assert not check(producer.name, other, {TopicPartition("t", 1)}, ADDING)
        assert not check("somebody else", producer.producer, {TopicPartition("t", 1)}, ADDING)
        assert state_of(one, producer).partitions == {TopicPartition("t", 0)}


async def test_addition_waiting_for_flush_is_written_once(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        producer = WireProducer(one)
        await producer.begin()
        verifier = one.broker.parts.families.transactions.verifier
        epoch = one.broker.parts.families.transactions.coordinator.epoch_of(producer.name)
        who = producer.name, producer.producer
        end = epoch.log_end_offset
        adding = started(verifier.checking_produce(*who, {TopicPartition("t", 0)}, ADDING))
        assert isinstance(adding, Paused)
        assert epoch.log_end_offset == end + 1
        assert await adding.finish() == {TopicPartition("t", 0): E.NONE}
        assert allowed_at_once(verifier, *who, {TopicPartition("t", 0)}, ADDING)
        assert epoch.log_end_offset == end + 1
        assert await producer.produce(b"a", version=ADDING) == E.NONE
        assert await producer.end(version=5) == E.NONE
        assert await read_committed(one, wait_ms=5000) == ([b"a"], 2)


async def test_transactions_end_shares_flush_with_next_begin(tmp_path, monkeypatch):
    """Otherwise the next one waits for both."""
    monkeypatch.setattr("trimaran.log.durability.group_commit.LEFT_SECONDS_MAX", 3600.0)
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        producer = WireProducer(one)
        await producer.begin()
        state = one.broker.parts.families.data.partitions.leader_of(
            TopicPartition("__transaction_state", 0)
        ).log
        for _ in range(3):
            assert await producer.produce(b"a", version=ADDING) == E.NONE
            assert await producer.end(version=5) == E.NONE
            await read_committed(one, wait_ms=5000)
            while state_of(one, producer).state is not TransactionState.COMPLETE_COMMIT:
                await trio.lowlevel.checkpoint()
            assert state.flushed_offset == state.log_end_offset - 1
