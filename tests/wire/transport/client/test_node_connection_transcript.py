"""A client connection to a node: its requests, responses and end, after each step of the transcript."""

import math
import os
import socket
import ssl
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.wire.transport import support
from tests.wire.transport.in_order import check_steps, run_in_order
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.client.errors import AuthenticationRefused, ConnectionLost, ConnectRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address
from trimaran.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from trimaran.wire.messages.header import decode_request_header, encode_response
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from trimaran.wire.messages.sasl_handshake import SaslHandshakeResponse
from trimaran.wire.schema import DECODE_BUDGET
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.security.sasl.plain import PlainCredentials
from trimaran.wire.transport.client import node_connection
from trimaran.wire.transport.client.node_connection import NodeConnection

FILES = sorted((Path(__file__).parent / "testdata" / "node_connection").glob("*.txt"))
KEYS = [(0, 3, 9), (12, 0, 4), (17, 0, 1), (18, 0, 4), (36, 0, 2)]


class Endpoint:
    """An endpoint that records sent requests; `room` is the number of bytes that the kernel accepts."""

    def __init__(self, say):
        self._say = say
        self.received_at, self.seconds, self.room = 0.0, 0.0, math.inf
        self.give, self.coming = trio.open_memory_channel(math.inf)
        self.more_room = trio.Event()
        self.failure = None
        self._frames = FrameBuffer(1 << 20)
        self.asked = []

    async def receive(self, frames):
        data = await self.coming.receive()
        if isinstance(data, Exception):
            raise data
        count = len(data)
        while data:
            room = frames.room()
            size = min(len(room), len(data))
            room[:size] = data[:size]
            del room
            frames.received(size)
            data = data[size:]
        return count

    def send_nowait(self, queue):
        self._say(f"sends {queue.size} at once")
        if self.failure is not None:
            raise self.failure
        self._send(queue)

    async def send(self, queue):
        while queue:
            self._send(queue)
            if queue:
                self._say(f"waits to send {queue.size}")
                self.more_room = trio.Event()
                await self.more_room.wait()
        await trio.lowlevel.checkpoint()

    def _send(self, queue):
        while queue and self.room > 0:
            piece = bytes(queue.pieces[0])
            count = int(min(len(piece), self.room))
            self.room -= count
            view = self._frames.room()
            view[:count] = piece[:count]
            del view
            self._frames.received(count)
            queue.sent_bytes(count)
        while (frame := self._frames.next_frame()) is not None:
            header, _ = decode_request_header(bytes(frame), DECODE_BUDGET)
            if header.api_key != ApiKey.PRODUCE:
                self.asked.append((header.api_key, header.api_version, header.correlation_id))
            self._say(
                f"sends {ApiKey(header.api_key).name} v{header.api_version}"
                f" as {header.correlation_id} of {header.client_id}, {len(frame)} bytes"
            )
            frame = None

    def give_up(self):
        self._say("gives up what is not sent")

    async def aclose(self):
        await trio.lowlevel.checkpoint()
        self._say("closes")


class Scene:
    def __init__(self, nursery, clock):
        self.nursery, self.clock, self.told = nursery, clock, []
        self.scope = None

    async def step(self, step):
        for line in (
            line for line in step.source.splitlines() if line and not line.startswith("#")
        ):
            word, *rest = line.split()
            await getattr(self, f"_{word}")(*rest)
        await wait_all_tasks_blocked()
        told, self.told = self.told, []
        one = self.connection
        traffic = one.traffic
        return "\n".join(
            [
                *told,
                f"unsent {one.unsent_bytes}, unanswered {one._conversation.unanswered_count}, "
                f"held {'none' if one._held is None else len(one._held)}, "
                f"places {one._places.value}" + ", closed" * one.closed.is_set(),
                f"requests {traffic.requests} of {traffic.bytes_out}, "
                f"responses {traffic.responses} of {traffic.bytes_in}",
            ]
        )

    async def _open(self, *words):
        if self.scope is not None:
            self.scope.cancel()
            await wait_all_tasks_blocked()
        self.told.clear()
        self.scope = trio.CancelScope()
        self.endpoint = Endpoint(self.told_line)
        self.connection = NodeConnection(self.endpoint, Address("node", 9092), "me")
        self.security = PLAINTEXT
        if "sasl" in words:
            self.security = ClientSecurity(None, PlainCredentials("u", "p"))

        async def run():
            with self.scope:
                await self.connection.run()
                self.told_line("has ended")

        self.nursery.start_soon(run)

    def told_line(self, text):
        self.told.append(text)

    async def _negotiates(self, seconds="5"):
        async def negotiate():
            try:
                await self.connection.negotiate(float(seconds), self.security)
                speaks = self.connection.negotiated.versions
                self.told_line(f"has come to terms: {[f'{k} {v}' for k, v in speaks.items()]}")
            except Exception as error:  # noqa: BLE001 - told
                self.told_line(f"has not: {type(error).__name__}: {error}")

        self.nursery.start_soon(negotiate)
        await wait_all_tasks_blocked()

    async def _meets(self, *words):
        """Opens the connection, and negotiates versions."""
        await self._open(*words)
        await self._negotiates()
        await self._answers()
        if "sasl" in words:
            await self._answers()
            await self._answers(words[-1])

    async def _calls(self, name, seconds="5", version=None):
        request = HeartbeatRequest(group_id=name, generation_id=1, member_id="m")

        async def call():
            try:
                found = await self.connection.call(
                    request, timeout=float(seconds), version=version and int(version)
                )
                self.told_line(f"{name} is answered {found.throttle_time_ms}")
            except Exception as error:  # noqa: BLE001 - told
                cause = f" because of {error.__cause__!r}" if error.__cause__ else ""
                self.told_line(f"{name} fails: {type(error).__name__}: {error}{cause}")

        self.nursery.start_soon(call)
        await wait_all_tasks_blocked()

    async def _asks(self, name):
        request = HeartbeatRequest(group_id=name, generation_id=1, member_id="m")
        try:
            self.connection.ask(request, lambda answer: self.told_line(f"{name}: {answer!r:.60}"))
        except Exception as error:  # noqa: BLE001 - told
            self.told_line(f"{name} is refused: {error}")

    async def _produces(self):
        try:
            self.connection._check_open()
            self.connection._request(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), 9, None)
        except Exception as error:  # noqa: BLE001 - told
            self.told_line(f"is refused: {error}")

    async def _answers(self, what="0", count="1"):
        """Answers the oldest unanswered requests."""
        data = b""
        for _ in range(min(int(count), len(self.endpoint.asked))):
            key, version, number = self.endpoint.asked.pop(0)
            data += support.sized(encode_response(response_to(key, what), version, number))
        self.endpoint.give.send_nowait(data)
        await wait_all_tasks_blocked()

    async def _skips(self):
        self.endpoint.asked.pop(0)

    async def _says(self, what):
        """Sends bytes that are not a response."""
        things = {"end": b"", "rubbish": support.sized(b"\0\0\0\x63"), "reset": OSError("reset")}
        self.endpoint.give.send_nowait(things[what])

    async def _room(self, size):
        self.endpoint.room = math.inf if size == "all" else int(size)
        self.endpoint.more_room.set()

    async def _breaks(self):
        self.endpoint.failure = OSError("broken pipe")

    async def _advances(self, seconds):
        await wait_all_tasks_blocked()
        self.clock.jump(float(seconds))
        await wait_all_tasks_blocked()

    async def _closes(self):
        self.connection.close()

    async def _cancels(self):
        """Cancels the surrounding task."""
        self.scope.cancel()

    async def _forgets(self):
        """Switches to a listener's security without SASL."""
        self.security.sasl = None


def response_to(key, what):
    match ApiKey(key):
        case ApiKey.API_VERSIONS if what == "old":
            code = ErrorCode.UNSUPPORTED_VERSION
            keys = [ApiVersion(api_key=18, min_version=0, max_version=2)]
            return ApiVersionsResponse(error_code=code, api_keys=keys)
        case ApiKey.API_VERSIONS:
            keys = [ApiVersion(api_key=k, min_version=a, max_version=b) for k, a, b in KEYS]
            return ApiVersionsResponse(api_keys=keys)
        case ApiKey.SASL_HANDSHAKE:
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        case ApiKey.SASL_AUTHENTICATE if what == "wrong":
            return SaslAuthenticateResponse(
                auth_bytes=b"", error_code=58, error_message="wrong password"
            )
        case ApiKey.SASL_AUTHENTICATE:
            return SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=int(what))
    return HeartbeatResponse(throttle_time_ms=int(what))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_requests_are_handled_as_each_transcript_says(path):
    clock = trio.testing.MockClock()

    async def main():
        async with trio.open_nursery() as nursery:
            scene = Scene(nursery, clock)
            await check_steps(path, scene.step)
            nursery.cancel_scope.cancel()

    run_in_order(main, clock)


async def test_answers_let_others_run_after_every_thirty_two(monkeypatch):
    turns = []

    async def yielded():
        turns.append(len(answered))

    monkeypatch.setattr(node_connection, "yield_to_loop", yielded)
    answered = []
    async with trio.open_nursery() as nursery:
        endpoint = Endpoint(lambda text: None)
        connection = NodeConnection(endpoint, Address("node", 1), None)
        nursery.start_soon(connection.run)
        nursery.start_soon(connection.negotiate)
        await wait_all_tasks_blocked()

        def give():
            data = b""
            while endpoint.asked:
                key, version, number = endpoint.asked.pop(0)
                data += support.sized(encode_response(response_to(key, "0"), version, number))
            endpoint.give.send_nowait(data)

        give()
        await wait_all_tasks_blocked()
        for _ in range(100):
            request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            connection.ask(request, answered.append)
        give()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(answered) == 100
    assert turns == [31, 63, 95]  # the first request was ApiVersions


async def failure_of(awaited):
    try:
        await awaited
    except Exception as error:  # noqa: BLE001 - looked at
        return type(error), str(error)
    return None


@pytest.mark.parametrize(
    ("errnos", "kind", "said"),
    [
        ([111], ConnectRefused, "Connection refused"),
        ([111, 111], ConnectRefused, "Connection refused"),
        ([111, 113], ConnectionLost, "No route to host"),
        ([113, 111], ConnectionLost, "Connection refused"),
    ],
)
async def test_all_addresses_are_tried_and_last_error_raised(monkeypatch, errnos, kind, said):
    async def getaddrinfo(host, port, type):  # noqa: A002 - as it is called
        assert (host, port, type) == ("node", 9092, socket.SOCK_STREAM)
        return [(2, 1, 6, "", (str(n), 9092)) for n, _ in enumerate(errnos)]

    class Socket:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        async def connect(self, address):
            number = errnos[int(address[0])]
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(trio.socket, "socket", Socket)
    found = await failure_of(node_connection.connect("node", 9092))
    assert found == (kind, f"cannot connect to node:9092: {said}")


async def test_connection_not_made_in_time_is_lost(autojump_clock, monkeypatch):
    async def getaddrinfo(*_, **__):
        await trio.sleep_forever()

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
    began = trio.current_time()
    found = await failure_of(node_connection.connect("node", 9092))
    assert found == (ConnectionLost, "cannot connect to node:9092 in 5.0 s")
    assert trio.current_time() - began == 5.0


class Handshaking:
    def __init__(self, failure):
        self.failure, self.closed = failure, 0

    async def handshake(self):
        if self.failure is None:
            await trio.sleep_forever()
        raise self.failure

    async def aclose(self):
        self.closed += 1


@pytest.mark.parametrize("kind", ["refused", "reset", "slow", "ours", "name"])
async def test_tls_that_fails_closes_and_says_why(autojump_clock, monkeypatch, kind):
    failures = {"refused": ssl.SSLError("untrusted"), "reset": OSError("reset"), "slow": None}
    endpoint = Handshaking(failures.get(kind, KeyError("ours")))
    closed = []

    class Sock:
        def close(self):
            closed.append(1)

    async def connect(host, port, timeout):  # noqa: ASYNC109 - as it is called
        assert (host, port, timeout) == ("node", 9092, 5.0)
        return Sock()

    def make(sock, tls, server_name):
        assert (tls, server_name) == ("tls", "node")
        if kind == "name":
            raise ValueError("no name")
        return endpoint

    monkeypatch.setattr(node_connection, "connect", connect)
    monkeypatch.setattr(node_connection, "TlsEndpoint", make)
    security = ClientSecurity("tls", None)
    found = await failure_of(node_connection.connect_endpoint("node", 9092, security))
    assert (
        found
        == {
            "refused": (AuthenticationRefused, "TLS with node:9092 failed: ('untrusted',)"),
            "reset": (ConnectionLost, "TLS with node:9092 failed: reset"),
            "slow": (ConnectionLost, "TLS with node:9092 failed: no handshake in 5.0 s"),
            "ours": (KeyError, "'ours'"),
            "name": (ConnectionLost, "TLS with node:9092 failed: no name"),
        }[kind]
    )
    assert endpoint.closed == (kind != "name")
    assert len(closed) == (kind == "name")


async def test_login_is_renewed_after_85_percent_of_life(autojump_clock, monkeypatch):
    connection = NodeConnection(Endpoint(lambda _: None), Address("node", 9092), "me")
    credentials, logins = PlainCredentials("alice", "secret"), []
    lives = [2_000_000, 0]

    async def log_in(given):
        assert given is credentials
        logins.append(trio.current_time())
        assert connection._held is not None
        return lives.pop(0)

    monkeypatch.setattr(connection, "_log_in", log_in)
    await connection._keep_logged_in(ClientSecurity(None, credentials), 1_000_000)
    assert logins == pytest.approx([850.0, 2550.0])
    assert connection._held is None
    await connection._keep_logged_in(ClientSecurity(None, None), 1_000_000)
    assert len(logins) == 2


async def test_request_after_slow_one_is_sent_at_once():
    endpoint = Endpoint(lambda _: None)
    connection = NodeConnection(endpoint, Address("node", 1), None)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        nursery.start_soon(connection.negotiate)
        await wait_all_tasks_blocked()
        [(key, version, number)] = endpoint.asked
        answer = support.sized(encode_response(response_to(key, "0"), version, number))
        endpoint.give.send_nowait(answer)
        await wait_all_tasks_blocked()
        endpoint.room = 0
        connection.ask(request, lambda _: None)
        await wait_all_tasks_blocked()
        assert connection.unsent_bytes > 0
        endpoint.room = math.inf
        endpoint.more_room.set()
        await wait_all_tasks_blocked()
        for _ in range(2):
            connection.ask(request, lambda _: None)
            assert connection.unsent_bytes == 0
        nursery.cancel_scope.cancel()


async def test_closed_connection_ends_at_once():
    connection = NodeConnection(Endpoint(lambda _: None), Address("node", 9092), "me")
    assert not connection.closed.is_set()
    connection.close()
    assert connection.closed.is_set()
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    with pytest.raises(ConnectionLost, match="the connection to node:9092 was closed"):
        connection.ask(request, None)


async def test_endpoint_without_tls_is_that_of_socket(monkeypatch):
    async def connect(host, port, timeout):  # noqa: ASYNC109 - as it is called
        assert (host, port, timeout) == ("node", 9092, 7)
        return "socket"

    monkeypatch.setattr(node_connection, "connect", connect)
    monkeypatch.setattr(node_connection, "SocketEndpoint", lambda sock: f"endpoint of {sock}")
    made = await node_connection.connect_endpoint("node", 9092, PLAINTEXT, timeout=7)
    assert made == "endpoint of socket"
