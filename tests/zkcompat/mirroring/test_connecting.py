"""What servers say of themselves while the mirror waits for a session: real sockets, and words of our own in them."""

from functools import partial

import pytest
import trio

from zkcompat.mirroring.connecting import WORD_BYTES_MAX, _ask_all, _servers

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
def test_servers_of_a_connection_string(connect, servers):
    assert list(_servers(connect)) == servers


async def answering(answer, heard, stream):
    async with stream:
        word = await stream.receive_some(100)
        heard.append(bytes(word))
        if word:
            await stream.send_all(answer)


async def asked(*answers, tls_only=False):
    """What is seen of servers that answer so; None: nobody listens there."""
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
        ([b""], [1 << 64], False),  # serves, and does not know the word
        ([b"srvr is not executed because it is not in the whitelist.\n"], [1 << 64], False),
        ([SERVES, SERVES.replace(b"1f", b"ff")], [0x1F, 0xFF], False),
        ([b"x" * (2 * WORD_BYTES_MAX)], [1 << 64], False),
    ],
)
async def test_each_server_is_asked_where_it_stands(answers, zxids, reads_only):
    seen, heard = await asked(*answers)
    assert (seen.zxids, seen.reads_only) == (zxids, reads_only)
    assert heard == [b"srvr"] * sum(answer is not None for answer in answers)


async def test_servers_of_tls_alone_are_asked_nothing_and_serve_if_they_let_anybody_connect():
    seen, _ = await asked(SERVES, None, tls_only=True)
    assert seen.zxids == [1 << 64]
