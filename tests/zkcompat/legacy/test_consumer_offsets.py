"""Offsets of old consumers in a real ZooKeeper."""

import signal
from contextlib import asynccontextmanager

import pytest
import trio

from tests.zkcompat.rig import PATIENCE, SESSION_MS, SHORT_SESSION_MS, connected
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.zkcompat.legacy import consumer_offsets
from trimaran.zkcompat.legacy.consumer_offsets import decode_offset, open_consumer_offsets
from trimaran.zkcompat.zookeeper.kazoo_client import Security
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

T0, T1, T2, T3 = (TopicPartition("t", index) for index in range(4))


@asynccontextmanager
async def opened(connect, session_ms=SESSION_MS, **settings):
    async with open_consumer_offsets(KeeperConfig(connect, session_ms, **settings)) as offsets:
        assert await offsets.keeper.wait_connected(PATIENCE)
        yield offsets


async def test_znodes_are_those_of_old_consumers(connect):
    """Missing znodes are created, even the chroot."""
    async with opened(connect) as offsets, connected(connect) as eyes:
        await offsets.commit("g", {T0: 5, T1: 0, TopicPartition("u", 0): 7})
        found = await eyes.read_tree(["/consumers"], [])
        assert {path: z.data for path, z in found.items()} == {
            "/consumers": None,
            "/consumers/g": None,
            "/consumers/g/offsets": None,
            "/consumers/g/offsets/t": None,
            "/consumers/g/offsets/t/0": b"5",
            "/consumers/g/offsets/t/1": b"0",
            "/consumers/g/offsets/u": None,
            "/consumers/g/offsets/u/0": b"7",
        }
        assert not any(z.owner for z in found.values())


async def test_offsets_of_old_consumers_are_fetched_and_overwritten(connect):
    async with opened(connect) as offsets, connected(connect) as hands:
        await offsets.commit("g", {T0: 1})
        await hands.ensure("/consumers/g/offsets/t/1", b"41")
        await hands.ensure("/consumers/g/offsets/t/2", b"4x")
        partitions = [T0, T1, T2, T3]
        assert await offsets.fetch("g", partitions) == {T0: 1, T1: 41, T2: None}
        await offsets.commit("g", dict.fromkeys(partitions, 9))
        assert await offsets.fetch("g", partitions) == dict.fromkeys(partitions, 9)
        assert await offsets.fetch("other", partitions) == {}


async def test_many_offsets_are_stored_at_once(connect, monkeypatch):
    monkeypatch.setattr(consumer_offsets, "OFFSETS_IN_TRANSACTION", 7)
    wanted = {TopicPartition("t", number): number * number for number in range(30)}
    async with opened(connect) as offsets:
        await offsets.commit("g", wanted)
        assert await offsets.fetch("g", list(wanted)) == wanted


@pytest.mark.parametrize("group", ["", ".", "..", "a/../../brokers", "a\x00b", "g" * 256])
async def test_group_name_cannot_escape_its_path(connect, group):
    async with opened(connect) as offsets, connected(connect) as eyes:
        for call in (offsets.commit(group, {T0: 1}), offsets.fetch(group, [T0])):
            with pytest.raises(KafkaError) as refused:
                await call
            assert refused.value.code is ErrorCode.INVALID_GROUP_ID
        assert await eyes.read_tree(["/consumers"], []) == {}


async def test_unwritable_offset_is_not_retried(connect):
    async with (
        opened(
            connect, security=Security(auth=(("digest", "owner:secret"),)), secured=True
        ) as owner,
        opened(connect) as offsets,
    ):
        await owner.commit("g", {T0: 5})
        with pytest.raises(KafkaError) as refused:
            await offsets.commit("g", {T0: 6})
        assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await owner.fetch("g", [T0]) == {T0: 5}


async def test_lost_zookeeper_is_reported_and_return_noticed(own_zookeeper, monkeypatch):
    monkeypatch.setattr(consumer_offsets, "SECONDS_MAX", 3600)
    connect = own_zookeeper.connect
    async with opened(connect, SHORT_SESSION_MS) as offsets:
        await offsets.commit("g", {T0: 5})
        own_zookeeper.kill()
        with trio.fail_after(PATIENCE):
            await offsets.keeper.wait_lost(0)
        for call in (offsets.commit("g", {T0: 6}), offsets.fetch("g", [T0])):
            with trio.fail_after(PATIENCE), pytest.raises(KafkaError) as refused:
                await call
            assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert refused.value.code.retriable
        again = await trio.to_thread.run_sync(
            lambda: start_zookeeper(own_zookeeper.data_dir, own_zookeeper.port, tick_ms=100)
        )
        try:
            assert await offsets.keeper.wait_connected(PATIENCE)
            assert await offsets.fetch("g", [T0]) == {T0: 5}
        finally:
            again.stop()


async def test_frozen_zookeeper_costs_bounded_time(own_zookeeper, monkeypatch):
    monkeypatch.setattr(consumer_offsets, "SECONDS_MAX", 0.2)
    async with opened(own_zookeeper.connect) as offsets:
        own_zookeeper.kill(signal.SIGSTOP)
        try:
            with trio.fail_after(PATIENCE), pytest.raises(KafkaError) as refused:
                await offsets.commit("g", {T0: 5})
        finally:
            own_zookeeper.kill(signal.SIGCONT)
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"0", 0),
        (b"-1", -1),
        (b"9223372036854775807", (1 << 63) - 1),
        (b"9223372036854775808", None),
        (b"", None),
        (None, None),
        (b"--1", None),
        (b"1.5", None),
        ("\u0661".encode(), None),
        (b"1" * 100_000, None),
    ],
)
def test_offsets_are_parsed_from_text(data, offset):
    assert decode_offset(data) == offset


async def test_unreadable_offset_is_refused_not_missing(connect):
    """A consumer without an offset starts again at the end or the beginning."""
    auth = {"security": Security(auth=(("digest", "owner:secret"),)), "secured": True}
    async with opened(connect) as offsets, connected(connect, **auth) as owner:
        await offsets.commit("g", {T0: 5, T1: 6})
        await owner.hide("/consumers/g/offsets/t/1")
        assert await offsets.fetch("g", [T0]) == {T0: 5}
        with pytest.raises(KafkaError) as refused:
            await offsets.fetch("g", [T0, T1])
        assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
