"""The calls of an endpoint to its socket, step by step, and the loop time that it reports."""

import os
import socket
import ssl
from types import SimpleNamespace

import pytest
import trio
from trio.testing import assert_checkpoints, assert_no_checkpoints

from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.security.principal import ANONYMOUS
from trimaran.wire.transport.endpoint import endpoint as module
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint, TlsEndpoint, _Next
from trimaran.wire.transport.endpoint.send_queue import SendQueue

MEBIBYTE, KIBIBYTE = 1 << 20, 1 << 10
TCP = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Slice:
    def __init__(self, size, position=0, fd=9):
        self.size, self.position, self.fd = size, position, fd

    def fileno(self):
        return self.fd


class Script:
    """A socket that follows a script, and records the calls."""

    family = socket.AF_INET

    def __init__(self, *answers):
        self.asked, self.answers, self.blocking, self.descriptor = [], list(answers), None, 77
        self.server_side = True

    def fileno(self):
        return self.descriptor

    def setblocking(self, blocking):
        self.blocking = blocking

    def getpeername(self):
        self.asked.append("getpeername")

    def setsockopt(self, *option):
        self.asked.append(option)

    def close(self):
        self.asked.append("close")
        self.descriptor = -1

    def unwrap(self):
        self.asked.append("unwrap")
        return self._next(None)

    def do_handshake(self):
        return self._next(None)

    def getpeercert(self):
        return {} if self.server_side else {"subject": ((("commonName", "node"),),)}

    def recv_into(self, room):
        answer = self._next(0)
        room[:answer] = b"x" * answer
        return answer

    def send(self, data, *flags):
        self.asked.append(("send", len(data), *flags))
        return self._next(len(data))

    def sendmsg(self, buffers, ancillary, flags):
        self.asked.append(("sendmsg", [len(buffer) for buffer in buffers], ancillary, flags))
        return self._next(sum(map(len, buffers)))

    def _next(self, otherwise):
        answer = self.answers.pop(0) if self.answers else otherwise
        if isinstance(answer, Exception):
            raise answer
        return answer


class Ticks:
    """A clock that advances by one each time it is read."""

    def __init__(self):
        self.now = 100

    def perf_counter(self):
        self.now += 1
        return self.now


@pytest.fixture
def world(monkeypatch):
    """Returns the clock, and the list of the endpoint's waits."""
    found = SimpleNamespace(ticks=Ticks(), waited=[], sent=[], cold=[])
    monkeypatch.setattr(module, "time", found.ticks)

    def waits(word):
        async def wait(sock):
            found.waited.append(word)
            found.ticks.now += 1000
            await trio.lowlevel.checkpoint()

        return wait

    def wait_for_disk(piece):
        found.waited.append("warm")
        found.cold.clear()
        piece.cached_until = piece.position + min(piece.size, MEBIBYTE)

    def is_cold(piece):
        if not found.cold:
            piece.cached_until = max(piece.cached_until, piece.position + min(piece.size, MEBIBYTE))
        return bool(found.cold)

    def sendfile(out, fd, position, count):
        found.sent.append((out, fd, position, count))
        return found.file_bytes.pop(0) if found.file_bytes else count

    found.file_bytes = []
    monkeypatch.setattr(trio.lowlevel, "wait_readable", waits("readable"))
    monkeypatch.setattr(trio.lowlevel, "wait_writable", waits("writable"))
    monkeypatch.setattr(
        trio.lowlevel, "notify_closing", lambda sock: found.waited.append("closing")
    )
    monkeypatch.setattr(module, "is_cold", is_cold)
    monkeypatch.setattr(module, "warm", wait_for_disk)
    monkeypatch.setattr(os, "sendfile", sendfile)
    return found


class NotingFrames(FrameBuffer):
    __slots__ = ("rests", "waited")

    def __init__(self, waited=()):
        super().__init__(MEBIBYTE)
        self.rests, self.waited = 0, waited

    def rest(self):
        self.rests += 1
        assert not self.waited, "it rests before the wait"
        super().rest()


def plain(*answers):
    script = Script()
    made = SocketEndpoint(script)
    script.answers = list(answers)
    return made, script


def secured(*answers, server_name=None, side=True):
    """Returns an endpoint on a socket that does its own TLS, and that socket."""
    script = Script()
    wrapped = {}

    def wrap_socket(sock, **options):
        wrapped.update(options)
        return sock

    made = TlsEndpoint(script, SimpleNamespace(wrap_socket=wrap_socket), server_name=server_name)
    script.answers, script.wrapped, script.server_side = list(answers), wrapped, side
    return made, script


def test_sockets_are_non_blocking_without_delay():
    made, script = plain()
    assert (script.blocking, script.asked, made.seconds) == (False, [TCP], 0.0)
    unix = Script()
    unix.family = socket.AF_UNIX
    SocketEndpoint(unix)
    assert unix.asked == []
    made, script = secured()
    assert (script.blocking, script.asked, made.seconds) == (False, ["getpeername", TCP], 0.0)
    assert script.wrapped == {
        "server_side": True,
        "server_hostname": None,
        "do_handshake_on_connect": False,
    }
    _, script = secured(server_name="node")
    assert script.wrapped["server_side"] is False
    assert script.wrapped["server_hostname"] == "node"


@pytest.mark.parametrize("make", [plain, secured])
async def test_ready_bytes_are_received_before_others_run(world, make):
    made, _ = make(7)
    frames = NotingFrames()
    before = world.ticks.now
    with assert_checkpoints():
        assert await made.receive(frames) == 7
    assert (frames.unread, frames.rests, world.waited) == (7, 0, [])
    assert made.seconds == 1
    assert made.received_at == world.ticks.now == before + 3
    made, _ = make(7, 5)
    await made.receive(frames)
    await made.receive(frames)
    assert made.seconds == 2


async def test_empty_socket_is_waited_for(world):
    made, _ = plain(BlockingIOError(), BlockingIOError(), 7)
    frames = NotingFrames(world.waited)
    assert await made.receive(frames) == 7
    assert (frames.unread, frames.rests) == (7, 1)
    assert world.waited == ["readable", "readable"]
    assert made.seconds == 0.0
    assert made.received_at == world.ticks.now > 2000


async def test_empty_tls_is_waited_for_either_way(world):
    made, _ = secured(ssl.SSLWantReadError(), ssl.SSLWantWriteError(), 7)
    frames = NotingFrames(world.waited)
    assert await made.receive(frames) == 7
    assert (frames.unread, frames.rests) == (7, 1)
    assert world.waited == ["readable", "writable"]
    assert made.seconds == 0.0
    assert made.received_at == world.ticks.now > 2000


@pytest.mark.parametrize(
    ("make", "nothing"),
    [
        (plain, BlockingIOError()),
        (secured, ssl.SSLWantReadError()),
        (secured, ssl.SSLWantWriteError()),
    ],
)
def test_ready_bytes_are_received_without_waiting(make, nothing):
    made, _ = make(7, nothing)
    frames = FrameBuffer(100)
    assert [made.receive_nowait(frames), made.receive_nowait(frames)] == [7, 0]
    assert frames.unread == 7
    assert made.seconds == 0.0


def queue_of(*sizes):
    """Returns a queue of frames with bodies of these sizes; the body of a negative size is a file."""
    queue = SendQueue()
    for size in sizes:
        out = Outgoing()
        if size < 0:
            out.splices.append((0, Slice(-size, 1000)))
        else:
            out += bytes(size)
        queue.add_frame(out)
    return queue


def test_buffers_leave_together_within_a_turn():
    made, script = plain()
    queue = queue_of(20_000, 10, 20_000)
    assert made._send_some(queue) is _Next.TURN
    assert script.asked[1:] == [("sendmsg", [4, 20_000, 14 + 4, 20_000], (), 0)]
    assert queue.sent == 40_022
    made, script = plain()
    queue = queue_of(100)
    assert made._send_some(queue) is _Next.TURN
    assert script.asked[1:] == [("send", 104, 0)]


def test_at_most_64_buffers_leave_together():
    made, script = plain(0x7FFF)
    queue = queue_of(*[16_385] * 40)
    script.answers = [BlockingIOError()]
    assert made._send_some(queue) is _Next.WRITABLE
    ((word, sizes, _, flags),) = script.asked[1:]
    assert (word, len(sizes), flags) == ("sendmsg", 64, socket.MSG_MORE)
    made, script = plain(BlockingIOError())
    made._send_some(queue_of(*[16_385] * 32))
    ((word, sizes, _, flags),) = script.asked[1:]
    assert (word, len(sizes), flags) == ("sendmsg", 64, 0)


@pytest.mark.parametrize(
    ("make", "turn"), [(plain, MEBIBYTE), (secured, 256 * KIBIBYTE)], ids=["plain", "tls"]
)
def test_turn_ends_after_bounded_sends(make, turn):
    half = turn // 2
    made, script = make(half, half, half, half - 1, 1)
    queue = queue_of(4 * turn)
    queue.sent_bytes(4)
    assert made._send_some(queue) is _Next.TURN
    assert queue.sent == 4 + turn
    assert len(script.answers) == 3
    assert made._send_some(queue) is _Next.TURN
    assert queue.sent == 4 + 2 * turn
    assert script.answers == []


def test_tls_is_given_no_more_than_a_turn():
    made, script = secured()
    queue = queue_of(MEBIBYTE)
    queue.sent_bytes(4)
    made._send_some(queue)
    assert script.asked[2:] == [("send", 256 * KIBIBYTE)]


@pytest.mark.parametrize(
    ("make", "refusal", "wanted"),
    [
        (plain, BlockingIOError(), _Next.WRITABLE),
        (secured, ssl.SSLWantWriteError(), _Next.WRITABLE),
        (secured, ssl.SSLWantReadError(), _Next.READABLE),
    ],
)
def test_unsent_bytes_stay_queued(make, refusal, wanted):
    made, _ = make(50, refusal)
    queue = queue_of(100)
    assert made._send_some(queue) is wanted
    assert (queue.sent, queue.size) == (50, 54)
    made, _ = make(50, refusal)
    queue = queue_of(100)
    made.send_nowait(queue)
    assert (queue.sent, queue.size) == (50, 54)
    assert made.seconds == 0.0


def test_files_in_memory_are_sent_by_sendfile(world):
    made, script = plain()
    queue = queue_of(-3 * MEBIBYTE)
    assert made._send_some(queue) is _Next.TURN
    assert script.asked[1:] == [("send", 4, socket.MSG_MORE)]
    assert world.sent == [(77, 9, 1000, MEBIBYTE)]
    piece = queue.pieces[0]
    piece.cached_until = piece.position + 10
    assert made._send_some(queue) is _Next.TURN
    assert world.sent[1][2:] == (1000 + MEBIBYTE, MEBIBYTE)
    world.cold.append(1)
    assert made._send_some(queue) is _Next.WARM
    assert len(world.sent) == 2
    piece.cached_until = 1 << 40
    world.cold.clear()
    world.file_bytes = [MEBIBYTE - 4, 4]
    assert made._send_some(queue) is _Next.TURN
    assert [sent[3] for sent in world.sent[2:]] == [MEBIBYTE, MEBIBYTE]
    assert not queue


def test_file_is_sent_only_as_far_as_cached(world):
    made, _ = plain()
    queue = queue_of(-40_000)
    queue.sent_bytes(4)
    piece = queue.pieces[0]
    piece.advance(300)
    piece.cached_until = piece.position + 10
    made._send_file(queue, piece)
    assert world.sent == [(77, 9, 1300, 10)]
    assert queue.sent == 14


def test_file_ending_early_is_an_error(world):
    made, _ = plain()
    world.file_bytes = [0]
    with pytest.raises(OSError, match="a file ends before the end of a slice of it"):
        made._send_some(queue_of(-40_000))


def test_tls_reads_files_in_pieces_of_64_kibibytes(world, monkeypatch):
    read = []

    def pread(fd, size, position):
        read.append((fd, size, position))
        return bytes(size)

    monkeypatch.setattr(os, "pread", pread)
    made, script = secured()
    queue = queue_of(-150_000)
    assert made._send_some(queue) is _Next.TURN
    assert read == [(9, 65_536, 1000), (9, 65_536, 66_536), (9, 18_928, 132_072)]
    assert [call[1] for call in script.asked[2:]] == [4, 65_536, 65_536, 18_928]
    world.cold.append(1)
    assert made._send_some(queue_of(-150_000)) is _Next.WARM


@pytest.mark.parametrize("make", [plain, secured])
async def test_sending_counts_its_own_time_without_waits(world, make):
    full = BlockingIOError() if make is plain else ssl.SSLWantWriteError()
    made, _ = make(50, full, 50, full)
    queue = queue_of(100)
    await made.send(queue)
    assert not queue
    assert world.waited == ["writable", "writable"]
    assert made.seconds == 3
    made, _ = make()
    with assert_no_checkpoints():
        await made.send(queue_of(100))
    assert made.seconds == 1
    made, _ = make(*[MEBIBYTE] * (make is plain))
    with assert_checkpoints():
        await made.send(queue_of(2 * MEBIBYTE))
    assert made.seconds == (2 if make is plain else 8)


async def test_sending_waits_for_the_disk(world):
    world.cold.append(1)
    made, _ = plain()
    queue = queue_of(-40_000)
    queue.sent_bytes(4)
    await made.send(queue)
    assert world.waited == ["warm"]
    assert not queue


async def test_tls_reads_first_if_sending_requires_it(world):
    made, _ = secured(ssl.SSLWantReadError())
    await made.send(queue_of(100))
    assert world.waited == ["readable"]


async def test_handshake_waits_to_read_and_write(world):
    made, script = secured(ssl.SSLWantReadError(), ssl.SSLWantWriteError(), None, side=False)
    assert await made.handshake() is ANONYMOUS
    assert world.waited == ["readable", "writable"]
    assert script.answers == []
    assert await plain()[0].handshake() is ANONYMOUS


async def lets_others_run(act):
    """Asserts that other tasks run meanwhile. Unlike `assert_checkpoints`, this also works for calls that cannot be
    cancelled.
    """
    task = trio.lowlevel.current_task()
    before = task._schedule_points
    await act()
    return task._schedule_points > before


async def test_endpoint_closes_once_and_says_goodbye_by_tls(world):
    for make, asked in ((plain, ["close"]), (secured, ["unwrap", "close"])):
        made, script = make(*[OSError("gone")] * (make is secured))
        script.asked.clear()
        world.waited.clear()
        assert await lets_others_run(made.aclose)
        assert await lets_others_run(made.aclose)
        assert (script.asked, world.waited) == (asked, ["closing"])
        made.give_up()
        assert script.asked == asked
    for make in (plain, secured):
        made, script = make()
        script.asked.clear()
        script.descriptor = 0
        made.give_up()
        linger = (1).to_bytes(4, "little") + bytes(4)
        assert script.asked == [(socket.SOL_SOCKET, socket.SO_LINGER, linger)]
        await made.aclose()
        assert script.asked[-1] == "close"


def test_closed_peer_is_detected_only_by_tcp():
    state = [1]

    def getsockopt(*asked):
        assert asked == (socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return bytes(state)

    for make in (plain, secured):
        made, script = make()
        script.getsockopt = getsockopt
        for family in (socket.AF_INET, socket.AF_INET6):
            script.family = family
            for state[0] in (1, 2, 8):
                assert made.peer_is_gone() is (state[0] != 1)
        script.family = socket.AF_UNIX
        assert made.peer_is_gone() is False
