"""The session itself: responses of any length, brief losses of the connection, missing data."""

import struct
import threading
from contextlib import suppress

import pytest
import trio
from kazoo.protocol.states import KazooState
from trio.lowlevel import current_trio_token

from tests.chaos.mirror.lying_proxy import LyingProxy
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
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.zkcompat.legacy.consumer_offsets import open_consumer_offsets
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.zookeeper import kazoo_client
from trimaran.zkcompat.zookeeper.errors import (
    PathRefusedError,
    UncertainOutcomeError,
    ZooKeeperTooOldError,
)
from trimaran.zkcompat.zookeeper.kazoo_client import ANSWER_BYTES_MAX
from trimaran.zkcompat.zookeeper.keeper import Keeper, open_keeper
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


@pytest.mark.parametrize("length", [ANSWER_BYTES_MAX + 1, (1 << 31) - 1, -5])
async def test_impossible_response_length_ends_the_connection(length):
    """No byte of the response is awaited or kept."""
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


HEADER = struct.Struct("!iqi")  # xid, zxid, error
FALSE_ANSWERS = {
    "to another request": lambda frame: HEADER.pack(77, *HEADER.unpack_from(frame)[1:]),
    "to a login": lambda frame: HEADER.pack(-4, 0, 0),
    "too short": lambda frame: frame[:3],
    "an error that nobody knows": lambda frame: frame[:12] + struct.pack("!i", 77),
}


def lie_once(proxy, lie):
    def harm(frame):
        proxy.harm = None
        return [lie(frame)]

    proxy.harm = harm


def lie_and_hang_up(proxy, lie):
    """Sends a false response, which the client accepts; no other response follows on its connection."""

    def cut(frame):
        proxy.harm = None

    def harm(frame):
        proxy.harm = cut
        return [lie(frame)]

    proxy.harm = harm


class DroppedMeanwhile:
    """A kazoo client whose connection drops, in kazoo's thread, after the first check of its session."""

    def __init__(self):
        self._ids = [(7, b"password"), None]

    @property
    def client_id(self):
        return self._ids.pop(0)


async def test_session_dropped_during_its_event_keeps_run_alive():
    told = []
    keeper = Keeper(KeeperConfig("127.0.0.1:1", SESSION_MS), told.append, current_trio_token())
    keeper._client = client = DroppedMeanwhile()
    keeper._on_state(client, KazooState.CONNECTED)
    assert [session.session_id for session in told] == [7]


async def test_failing_callback_ends_connection_but_not_run(caplog):
    keeper = Keeper(KeeperConfig("127.0.0.1:1", SESSION_MS), lambda _: None, current_trio_token())
    keeper._connected = True

    def fail():
        raise ValueError("of a callback")

    keeper._call_soon(fail)(None)
    with trio.fail_after(PATIENCE):
        await keeper.wait_lost(0)
    assert not keeper.is_connected
    assert "of a callback" in caplog.text


@pytest.fixture
def proxy(zookeeper):
    with LyingProxy((zookeeper.host, zookeeper.port)) as found:
        yield found


@pytest.mark.parametrize("lie", FALSE_ANSWERS.values(), ids=FALSE_ANSWERS)
async def test_malformed_reply_drops_connection_keeps_session(proxy, lie):
    async with open_keeper(KeeperConfig(proxy.connect, SESSION_MS)) as keeper:
        assert await keeper.wait_connected(PATIENCE)
        session_id, losses = keeper.session_id, keeper.losses
        lie_once(proxy, lie)
        with pytest.raises(UncertainOutcomeError):
            await keeper.read("/zookeeper")
        with trio.fail_after(PATIENCE):
            await keeper.wait_lost(losses)
        assert await keeper.wait_connected(PATIENCE)
        assert keeper.session_id == session_id
        assert await keeper.read("/zookeeper") is not None


async def test_other_cluster_id_at_runtime_stops_writes(proxy, connect):
    """A false response or an outsider must not end the mirror, and the tree of another cluster must not be changed."""
    source = Source(build.broker(1), *topics(1))
    through = f"{proxy.connect}/{connect.rpartition('/')[2]}"
    async with running(through, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        ours = (await person.read("/cluster/id")).data
        await person.transact(
            [TransactionStep("set", "/cluster/id", ClusterId("another").encode())]
        )
        proxy.cut()
        await reached(mirror, lambda s: "is of cluster another" in s.last_problem)
        claims, writes = mirror.status.claims, mirror.status.writes
        source.say(build.config(2, "topic-1", "retention.ms", "1"))
        await reached(mirror, lambda s: s.state == "connecting")  # again
        assert (mirror.status.claims, mirror.status.writes) == (claims, writes)
        await person.transact([TransactionStep("set", "/cluster/id", ours)])
        await in_step(mirror, source)
        assert await differences(person, source) == ()


def too_old(frame):
    """Returns ZooKeeper 3.5's response to a request of 3.6."""
    return [frame[:12] + struct.pack("!i", -6)]


async def test_server_older_than_3_6_is_named(proxy):
    async with open_keeper(KeeperConfig(proxy.connect, SESSION_MS)) as keeper:
        assert await keeper.wait_connected(PATIENCE)
        await keeper.require_modern_server()
        proxy.harm = too_old
        with pytest.raises(ZooKeeperTooOldError, match=r"older than 3\.6"):
            await keeper.require_modern_server()


async def test_mirror_ends_unwritten_at_server_before_3_6(proxy, connect):
    through = f"{proxy.connect}/{connect.rpartition('/')[2]}"
    is_login = bytes(4)  # the protocol version, in place of a request's number
    proxy.harm = lambda frame: [frame] if frame[:4] == is_login else too_old(frame)
    with trio.fail_after(PATIENCE), pytest.raises(ExceptionGroup) as raised:
        async with running(through, Source(build.broker(1))):
            await trio.sleep_forever()
    (error,) = raised.value.exceptions
    assert isinstance(error, ZooKeeperTooOldError)
    async with connected(connect) as person:
        assert await person.read("/") is None


async def test_consumer_offsets_are_refused_before_server_3_6(proxy):
    async with open_consumer_offsets(KeeperConfig(proxy.connect, SESSION_MS)) as offsets:
        assert await offsets.keeper.wait_connected(PATIENCE)
        proxy.harm = too_old
        with pytest.raises(KafkaError, match=r"older than 3\.6"):
            await offsets.fetch("group", [TopicPartition("orders", 0)])


async def test_error_of_another_request_is_ordinary_refusal(proxy):
    node_exists = struct.pack("!i", -110)
    async with open_keeper(KeeperConfig(proxy.connect, SESSION_MS)) as keeper:
        assert await keeper.wait_connected(PATIENCE)
        lie_once(proxy, lambda frame: frame[:12] + node_exists)
        with pytest.raises(PathRefusedError, match="NodeExists"):
            await keeper.read("/zookeeper")
        assert await keeper.read("/zookeeper") is not None


async def test_response_from_future_costs_no_session(proxy, connect):
    """No server accepts a client that has seen a later zxid than the server."""
    source = Source(build.broker(1), *topics(1))
    through = f"{proxy.connect}/{connect.rpartition('/')[2]}"
    async with running(through, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        session_id = mirror.keeper.session_id
        claims = mirror.status.claims
        lie_and_hang_up(proxy, lambda frame: frame[:4] + struct.pack("!q", 1 << 60) + frame[12:])
        with suppress(UncertainOutcomeError):  # another response may have caused it
            await mirror.keeper.children("/zookeeper")
            await mirror.keeper.children("/zookeeper")
        await reached(mirror, lambda s: s.claims > claims and s.state == "in step")
        assert mirror.keeper.session_id == session_id
        assert await differences(person, source) == ()


def say_nothing_once(proxy):
    """Loses requests as a starting ZooKeeper does if clients connect too early."""

    def harm(frame):
        proxy.harm = None
        return []

    proxy.harm = harm


async def test_unanswered_login_is_retried_within_the_session(proxy):
    # The test would fail if a session timeout were awaited.
    config = KeeperConfig(proxy.connect, 2 * 1000 * int(PATIENCE))
    async with open_keeper(config) as keeper:
        assert await keeper.wait_connected(PATIENCE)
        session_id, losses = keeper.session_id, keeper.losses
        say_nothing_once(proxy)
        proxy.cut()
        with trio.fail_after(PATIENCE):
            await keeper.wait_lost(losses)
        assert await keeper.wait_connected(PATIENCE)
        assert keeper.session_id == session_id


async def test_client_without_accepting_server_ends_at_once(proxy, monkeypatch):
    # As after several failed attempts; the test would fail if this timeout were awaited.
    monkeypatch.setattr(kazoo_client, "OPENING_SECONDS", 2 * PATIENCE)
    asked = threading.Event()

    def say_nothing(_):
        asked.set()
        return []

    proxy.harm = say_nothing
    async with open_keeper(KeeperConfig(proxy.connect, 2 * 1000 * int(PATIENCE))) as keeper:
        assert await trio.to_thread.run_sync(asked.wait, PATIENCE)
        began = trio.current_time()
        await keeper.close()
        assert trio.current_time() - began < PATIENCE


async def test_short_connection_loss_is_noticed(connect):
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        keeper = mirror.keeper
        # kazoo's thread reports both within one turn of the loop when a session was replaced.
        keeper._on_state(keeper._client, "LOST")
        keeper._on_state(keeper._client, "CONNECTED")
        await reached(mirror, lambda s: s.claims == 2 and s.state == "in step")
        assert await differences(person, source) == ()


async def test_wiped_data_is_noticed_before_session_timeout(own_zookeeper, tmp_path):
    source = Source(build.broker(1), *topics(3))
    session_ms = 2 * 1000 * int(PATIENCE)  # the test would fail if this timeout were awaited
    async with running(own_zookeeper.connect, source, session_timeout_ms=session_ms) as mirror:
        await in_step(mirror, source)
        for _ in range(50):  # a zxid far beyond those of a new server
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


async def test_change_does_not_wait_for_verification(connect, monkeypatch):
    began = trio.Event()

    async def never_ends(*_):
        began.set()
        await trio.sleep_forever()

    monkeypatch.setattr("trimaran.zkcompat.mirroring.verifier.visit_tree", never_ends)
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source, verify_interval_seconds=0.05) as mirror:
        await in_step(mirror, source)
        with trio.fail_after(PATIENCE):
            await began.wait()
        source.say(build.broker(2))
        await in_step(mirror, source)
        assert mirror.status.verifications == 0


async def test_chroot_of_several_levels_is_created(connect):
    source = Source(build.broker(1), *topics(1))
    deep = f"{connect}/of/several/levels"
    async with running(deep, source) as mirror, connected(deep) as person:
        await in_step(mirror, source)
        assert await differences(person, source) == ()


@pytest.mark.parametrize(
    ("request_of", "first"),
    [
        (lambda keeper: keeper.put_own("/own", b"x"), "set_async"),
        (lambda keeper: keeper.read("/own", lambda: None), "get_async"),
    ],
    ids=["write", "read"],
)
async def test_connection_lost_after_first_request_prevents_second(
    connect, monkeypatch, request_of, first
):
    async with connected(connect) as keeper:
        await keeper.ensure("/", None)
        client, token = keeper._client, current_trio_token()
        ask = getattr(client, first)

        def lost_with_the_response(*arguments, **options):
            result = ask(*arguments, **options)
            state = (client, KazooState.SUSPENDED)
            result.rawlink(lambda _: token.run_sync_soon(keeper._on_state, *state))
            return result

        monkeypatch.setattr(client, first, lost_with_the_response)
        with pytest.raises(UncertainOutcomeError, match="not connected"):
            await request_of(keeper)
