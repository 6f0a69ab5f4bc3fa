"""TxnOffsetCommit: offsets are effective once their transaction is committed, and unstable before (G4)."""

from __future__ import annotations

import pytest

from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.world import open_world
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer, offset_of
from tests.cluster.data_side import topic_id
from trimaran.wire.errors import ErrorCode, KafkaError

E = ErrorCode


async def begun(one, *, adds=True):
    await one.create("t", "u")
    producer = WireProducer(one)
    await producer.begin()
    assert await producer.add_offsets("warm-up") == E.NONE
    code = E.COORDINATOR_LOAD_IN_PROGRESS
    while code in (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR):
        code = await producer.commit_offset(1, group="warm-up")
    if adds:
        assert await producer.add_offsets() == E.NONE
    return producer


async def stable(one, **of):
    found = (-1, E.UNSTABLE_OFFSET_COMMIT)
    while found[1] == E.UNSTABLE_OFFSET_COMMIT:
        found = await offset_of(one, **of)
    return found


@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_count_with_their_transaction(tmp_path, commit):
    async with broker_client(tmp_path, **SETTINGS) as one:
        producer = await begun(one)
        assert await producer.commit_offset(5) == E.NONE
        assert await offset_of(one) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        assert await offset_of(one, stable=False) == (-1, E.NONE)
        assert await producer.end(commit=commit) == E.NONE
        assert await stable(one) == (5 if commit else -1, E.NONE)


async def test_version_5_adds_the_group_itself(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        producer = await begun(one, adds=False)
        group = next(
            f"g{i}"
            for i in range(100)
            if one.broker.parts.families.groups.partition_of(f"g{i}")
            != one.broker.parts.families.groups.partition_of("warm-up")
        )
        assert await producer.commit_offset(5, group=group, version=3) == E.INVALID_TXN_STATE
        assert await producer.commit_offset(5, group=group, version=4) == E.TRANSACTION_ABORTABLE
        code = E.COORDINATOR_LOAD_IN_PROGRESS
        while code == E.COORDINATOR_LOAD_IN_PROGRESS:
            code = await producer.commit_offset(5, group=group, version=5)
        assert code == E.NONE
        assert await producer.end(version=5) == E.NONE
        assert await stable(one, group=group) == (5, E.NONE)


async def test_commit_after_abort_is_refused(tmp_path):
    """KAFKA-14402: the commit would begin a transaction that never ends (T3)."""
    async with broker_client(tmp_path, **SETTINGS) as one:
        producer = await begun(one)
        assert await producer.commit_offset(5) == E.NONE
        assert await producer.end(commit=False) == E.NONE
        assert await stable(one) == (-1, E.NONE)
        code = E.COORDINATOR_LOAD_IN_PROGRESS  # while it is still ending
        while code == E.COORDINATOR_LOAD_IN_PROGRESS:
            code = await producer.commit_offset(6)
        assert code == E.INVALID_TXN_STATE
        assert await offset_of(one) == (-1, E.NONE)


async def test_members_are_fenced(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        producer = await begun(one)
        code = await producer.commit_offset(5, member_id="m", generation_id_or_member_epoch=1)
        assert code == E.ILLEGAL_GENERATION
        assert await producer.commit_offset(5, topic="nowhere") == E.UNKNOWN_TOPIC_OR_PARTITION
        assert await producer.commit_offset(5, group="", version=5) == E.INVALID_GROUP_ID


async def test_topic_deletion_drops_pending_offsets(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        producer = await begun(one)
        assert await producer.commit_offset(5) == E.NONE
        await one.delete("t")
        await one.create("t")
        await one.seen(lambda image: "t" in image.topics.by_name)
        assert await offset_of(one) == (-1, E.NONE)
        assert await producer.end() == E.NONE
        assert await stable(one, topic="u") == (-1, E.NONE)
        assert await offset_of(one) == (-1, E.NONE)


@pytest.mark.parametrize("version", range(7))
async def test_loading_group_error_depends_on_version(tmp_path, monkeypatch, version):
    """Clients before version 2 treat COORDINATOR_LOAD_IN_PROGRESS as fatal."""

    def refuse(*_arguments):
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    values = {
        "transactional_id": "x",
        "producer_id": 1,
        "group_id": "h",
    }
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    async with open_world(tmp_path) as world:
        named = {"topic_id": topic_id("t")} if version >= 6 else {"name": "t"}
        values["topics"] = [{**named, "partitions": partitions}]
        monkeypatch.setattr(type(world.harness.families.groups), "unverified_from", refuse)
        answer = await world.ask("TxnOffsetCommit", version, values)
    [one] = answer.topics[0].partitions
    assert ErrorCode.of(one.error_code).name == (
        "COORDINATOR_NOT_AVAILABLE" if version < 2 else "COORDINATOR_LOAD_IN_PROGRESS"
    )
