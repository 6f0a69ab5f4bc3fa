"""The session itself: answers without bound, losses that come and go within a moment, data that is gone."""

import struct

import pytest
import trio

from tests.zkcompat import build
from tests.zkcompat.rig import (
    PATIENCE,
    SESSION_MS,
    Source,
    connected,
    differences,
    in_step,
    reached,
    running,
    topics,
)
from zkcompat.zookeeper.kazoo_client import ANSWER_BYTES_MAX
from zkcompat.zookeeper.keeper import KeeperConfig, open_keeper
from zkcompat.zookeeper.server_process import start_zookeeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


@pytest.mark.parametrize("length", [ANSWER_BYTES_MAX + 1, (1 << 31) - 1, -5])
async def test_a_length_that_no_answer_has_ends_the_connection(length):
    """Nothing of it is waited for or kept."""
    refused = trio.Event()

    async def lie(stream):
        async with stream:
            await stream.receive_some(4096)
            await stream.send_all(struct.pack("!i", length))
            with trio.move_on_after(PATIENCE):
                if await stream.receive_some(4096) == b"":
                    refused.set()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, lie, 0)
        port = listeners[0].socket.getsockname()[1]
        async with open_keeper(KeeperConfig(f"127.0.0.1:{port}", SESSION_MS)) as keeper:
            with trio.fail_after(PATIENCE):
                await refused.wait()
            assert not keeper.is_connected
        nursery.cancel_scope.cancel()


async def test_a_loss_that_is_over_at_once_is_noticed(connect):
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        keeper = mirror.keeper
        # As kazoo's thread tells both within one turn of the loop, when a session was replaced.
        keeper._on_state(keeper._client, "LOST")
        keeper._on_state(keeper._client, "CONNECTED")
        await reached(mirror, lambda s: s.claims == 2 and s.state == "in step")
        assert await differences(person, source) == ()


async def test_wiped_data_are_noticed_without_waiting_for_a_session_to_end(own_zookeeper, tmp_path):
    source = Source(build.broker(1), *topics(3))
    session_ms = 2 * 1000 * int(PATIENCE)  # the test would fail if it were waited for
    async with running(own_zookeeper.connect, source, session_timeout_ms=session_ms) as mirror:
        await in_step(mirror, source)
        for _ in range(50):  # a zxid well beyond what a new server will reach by itself
            source.say()
            await in_step(mirror, source)
        own_zookeeper.kill()
        claims = mirror.status.claims
        again = await trio.to_thread.run_sync(
            lambda: start_zookeeper(tmp_path / "empty", own_zookeeper.port, tick_ms=100)
        )
        try:
            await reached(mirror, lambda s: s.claims > claims)
            await in_step(mirror, source)
            async with connected(again.connect) as person:
                assert await differences(person, source) == ()
        finally:
            again.kill()


async def test_a_change_does_not_wait_for_a_verification(connect, monkeypatch):
    began = trio.Event()

    async def never_ends(*_):
        began.set()
        await trio.sleep_forever()

    monkeypatch.setattr("zkcompat.mirroring.verifier.visit_tree", never_ends)
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source, verify_interval_seconds=0.05) as mirror:
        await in_step(mirror, source)
        with trio.fail_after(PATIENCE):
            await began.wait()
        source.say(build.broker(2))
        await in_step(mirror, source)
        assert mirror.status.verifications == 0


async def test_a_chroot_of_several_levels_is_made(connect):
    source = Source(build.broker(1), *topics(1))
    deep = f"{connect}/of/several/levels"
    async with running(deep, source) as mirror, connected(deep) as person:
        await in_step(mirror, source)
        assert await differences(person, source) == ()
