"""The states of servers that the mirror finds while it waits for a session: real sockets with scripted responses."""

from functools import partial
from types import SimpleNamespace

import pytest
import trio

from trimaran.zkcompat.mirroring import connecting
from trimaran.zkcompat.mirroring.connecting import (
    WORD_BYTES_MAX,
    Connecting,
    _ask_all,
    _Seen,
    _servers,
)

SERVES = b"Zookeeper version: 3.9.2\nZxid: 0x1f\nMode: leader\n"
READS_ONLY = b"Zookeeper version: 3.9.2\nZxid: 0x2f\nMode: read-only\n"
AWAY = b"This ZooKeeper instance is not currently serving requests\n"


@pytest.mark.parametrize(
    ("connect", "servers"),
    [
        ("a:1", [("a", 1)]),
        ("a", [("a", 2181)]),
        ("a:1, b ,c:3", [("a", 1), ("b", 2181), ("c", 3)]),
        ("a:1,b:2/chroot/x:9", [("a", 1), ("b", 2)]),
        ("a/chroot", [("a", 2181)]),
        ("[::1]:5", [("::1", 5)]),
        ("a:x,b:2", [("b", 2)]),
    ],
)
def test_connection_string_has_its_servers(connect, servers):
    assert list(_servers(connect)) == servers


async def answering(answer, heard, stream):
    async with stream:
        word = await stream.receive_some(100)
        heard.append(bytes(word))
        if word:
            await stream.send_all(answer)


async def asked(*answers, tls_only=False):
    """Returns the state found at servers with these responses; None: no listener."""
    heard = []
    async with trio.open_nursery() as nursery:
        places = []
        for answer in answers:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            places.append(listener.socket.getsockname()[1])
            if answer is None:
                await listener.aclose()
            else:
                serve = partial(trio.serve_listeners, partial(answering, answer, heard))
                nursery.start_soon(serve, [listener])
        connect = ",".join(f"127.0.0.1:{port}" for port in places)
        seen = await _ask_all(f"{connect}/chroot", tls_only)
        nursery.cancel_scope.cancel()
    return seen, heard


@pytest.mark.parametrize(
    ("answers", "zxids", "reads_only"),
    [
        ([SERVES], [0x1F], False),
        ([None], [], False),
        ([AWAY], [], False),
        ([READS_ONLY], [], True),
        ([READS_ONLY, SERVES], [0x1F], False),
        ([AWAY, READS_ONLY, None], [], True),
        ([b""], [1 << 64], False),  # the server serves, and does not support the command
        ([b"srvr is not executed because it is not in the whitelist.\n"], [1 << 64], False),
        ([SERVES, SERVES.replace(b"1f", b"ff")], [0x1F, 0xFF], False),
        ([b"x" * (2 * WORD_BYTES_MAX)], [1 << 64], False),
    ],
)
async def test_each_server_is_asked_for_its_state(answers, zxids, reads_only):
    seen, heard = await asked(*answers)
    assert (seen.zxids, seen.reads_only) == (zxids, reads_only)
    assert heard == [b"srvr"] * sum(answer is not None for answer in answers)


async def test_tls_server_serves_if_it_accepts_connections():
    seen, _ = await asked(SERVES, None, tls_only=True)
    assert seen.zxids == [1 << 64]


class Keeper:
    """A session that is established after the given seconds; it records the calls with their times."""

    def __init__(self, last_zxid, connected_at):
        self.config = SimpleNamespace(
            connect="h", session_timeout_ms=6000, security=SimpleNamespace(tls=None)
        )
        self.saved, self.last_zxid, self.connected_at = "saved", last_zxid, connected_at
        self.tls_problem, self.is_refused = "", False
        self.began = trio.current_time()
        self.done = []

    def note(self, *what):
        self.done.append((round(trio.current_time() - self.began, 3), *what))

    async def wait_connected(self, seconds):
        left = self.connected_at - (trio.current_time() - self.began)
        await trio.sleep(max(0, min(seconds, left)))
        return left <= seconds

    async def close(self):
        self.note("close")

    def connect(self, resume):
        self.is_refused = False
        self.note("connect", resume)


async def waited(monkeypatch, zxids, *, last_zxid=7, connected_at=30.0, refused=False):
    keeper = Keeper(last_zxid, connected_at)
    keeper.is_refused = refused

    async def ask_all(connect, tls_only):
        assert (connect, tls_only) == ("h", False)
        keeper.note("ask")
        return _Seen(zxids, reads_only=False)

    monkeypatch.setattr(connecting, "_ask_all", ask_all)
    told = []
    await Connecting(keeper, SimpleNamespace(tell=told.append)).wait()
    assert told == ["connecting"]
    assert trio.current_time() - keeper.began == pytest.approx(connected_at)
    return keeper.done


async def test_immediate_connection_queries_no_server(monkeypatch, autojump_clock):
    for seconds in (0.0, 0.9, 1.0):
        assert await waited(monkeypatch, [9], connected_at=seconds) == []


async def test_servers_are_polled_after_first_second(monkeypatch, autojump_clock):
    done = await waited(monkeypatch, [], connected_at=3.2)
    assert done == [(at, "ask") for at in (1, 1.5, 2, 2.5, 3)]


@pytest.mark.parametrize(
    ("zxids", "closed"),
    [
        ([], []),
        ([6], [1.5 + 0.5 * number for number in range(57)]),
        ([6, 5], [1.5 + 0.5 * number for number in range(57)]),
        ([7], [13.5, 26]),  # longer than two sessions
        ([5, 9], [13.5, 26]),
        ([9, 5], [13.5, 26]),
    ],
)
async def test_client_with_future_zxid_or_long_wait_reconnects(
    monkeypatch, autojump_clock, zxids, closed
):
    done = await waited(monkeypatch, zxids)
    assert [at for at, what, *_ in done if what == "close"] == closed
    assert [call[1:] for call in done if call[1] == "connect"] == [("connect", "saved")] * len(
        closed
    )


async def test_refused_login_is_retried_after_five_seconds(monkeypatch, autojump_clock):
    done = await waited(monkeypatch, [9], connected_at=7.2, refused=True)
    assert done == [(1, "ask"), (6.5, "close"), (6.5, "connect", "saved"), (7, "ask")]
