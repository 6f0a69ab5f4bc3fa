"""The trio client against our server, and against peers that misbehave."""

import errno
import gc
import os
import random
import weakref

import pytest
import trio

from tests.wire.transport.support import Toy, heartbeat, open_server, settled, sized
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.client.errors import (
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from trimaran.wire.messages.header import encode_response
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.transport.client.node_connection import connect, open_node_connection
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles


def beat(group: str = "g") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


def open_to(server, **options):
    return open_node_connection(*server.addresses["PLAINTEXT"], client_id="me", **options)


async def test_calls_in_flight_each_get_their_own_answer():
    toy = Toy()
    events = {group: toy.defer(group) for group in ("a", "b")}
    got = []
    async with open_server(heartbeat, context=toy) as server, open_to(server) as connection:

        async def ask(group):
            got.append((group, (await connection.call(beat(group), timeout=5)).throttle_time_ms))

        async with trio.open_nursery() as nursery:
            for group in ("a", "b", "c"):
                nursery.start_soon(ask, group)
                await settled()
            assert toy.begun == ["a", "b", "c"]
            assert got == []
            for event in events.values():
                event.set()
        assert sorted(got) == [("a", 1), ("b", 2), ("c", 3)]
        (served,) = server.connections.values()
        assert served.info.client_software[0] == "trimaran"


async def test_calls_beyond_limit_wait_for_others():
    toy = Toy()
    async with open_server(heartbeat, context=toy) as server, open_to(server) as connection:
        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(lambda: connection.call(beat(), timeout=5))
        assert len(toy.begun) == 1000


async def test_versions_are_negotiated():
    async with open_server(heartbeat, context=Toy()) as server, open_to(server) as connection:
        assert connection.negotiated.best(HeartbeatRequest) == 4
        assert await connection.call(beat(), version=1, timeout=5)
        with pytest.raises(VersionMismatch):
            await connection.call(beat(), version=5, timeout=5)
        with pytest.raises(VersionMismatch):
            await connection.call(MetadataRequest(topics=[]), timeout=5)
        assert await connection.call(beat(), timeout=5)


async def test_timed_out_answer_is_dropped_on_arrival(autojump_clock):
    toy = Toy()
    event = toy.defer("slow")
    async with open_server(heartbeat, context=toy) as server, open_to(server) as connection:
        with pytest.raises(RequestTimedOut):
            await connection.call(beat("slow"), timeout=3)
        assert trio.current_time() == pytest.approx(3)
        event.set()
        answer = await connection.call(beat("next"), timeout=3)
        assert answer.throttle_time_ms == 2


async def test_silent_node_is_disconnected(autojump_clock):
    toy = Toy()
    toy.defer("never")
    async with (
        open_server(heartbeat, context=toy, in_flight_max=1000) as server,
        open_to(server) as connection,
    ):
        for _ in range(256):
            with pytest.raises(RequestTimedOut):
                await connection.call(beat("never"), timeout=1)
        with pytest.raises(ConnectionLost, match="without an answer"):
            await connection.call(beat(), timeout=1)


async def test_death_of_node_is_detected_at_once():
    toy = Toy()
    toy.defer("never")
    async with open_server(heartbeat, context=toy) as server, open_to(server) as connection:

        async def ask():
            with pytest.raises(ConnectionLost):
                await connection.call(beat("never"), timeout=100)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(connection.closed.wait)
            await settled()
            for served in server.connections.values():
                served.abort()
        with pytest.raises(ConnectionLost):
            await connection.call(beat(), timeout=1)


async def test_request_on_lost_connection_is_freed_at_once():
    """The error refers to the frames that hold the request; a waiter that kept the error would form a cycle."""

    class Held(HeartbeatRequest):
        __slots__ = ("__weakref__",)

    async def ask(connection):
        request = Held(group_id="g", generation_id=1, member_id="m")
        alive.append(weakref.ref(request))
        with pytest.raises(ConnectionLost):
            await connection.call(request, timeout=5)

    alive = []
    toy = Toy()
    toy.defer("g")
    gc.collect()
    gc.disable()
    try:
        async with open_server(heartbeat, context=toy) as server, open_to(server) as connection:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, connection)
                await settled()
                (served,) = server.connections.values()
                served.abort()
            await settled()
            assert [reference() for reference in alive] == [None]
    finally:
        gc.enable()


async def test_refused_differs_from_lost_connection():
    async with open_server() as server:
        await server.drain(0)
        with pytest.raises(ConnectRefused):
            async with open_to(server):
                pytest.fail("connected")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "two..dots", "x" * 64, "\udcff"])
async def test_unresolvable_host_is_lost_whatever_its_name(host):
    """Brokers connect to addresses that other brokers registered: an unexpected exception would end them."""
    with pytest.raises(ConnectionLost) as caught:
        await connect(host, 1)
    assert not isinstance(caught.value, ConnectRefused)
    with pytest.raises(ConnectionLost) as caught:
        await trio.to_thread.run_sync(BlockingConnection, (host, 1))
    assert not isinstance(caught.value, ConnectRefused)


@pytest.mark.parametrize("error", [errno.EAFNOSUPPORT, errno.EMFILE])
async def test_failed_socket_counts_as_lost_connection(monkeypatch, error):
    def refuse(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(trio.socket, "socket", refuse)
    with pytest.raises(ConnectionLost) as caught:
        await connect("127.0.0.1", 1)
    assert not isinstance(caught.value, ConnectRefused)


async def test_errors_of_the_body_come_out_unchanged():
    async with open_server(heartbeat, context=Toy()) as server:
        with pytest.raises(KeyError):
            async with open_to(server):
                raise KeyError("mine")


async def test_acks_0_waits_for_nothing():
    begun = []

    @handles(ProduceRequest, versions="3-13", access=open_to_all("a test"))
    def produce(request, ctx, call):
        begun.append(request.acks)

    async with open_server(produce, heartbeat, context=Toy()) as server:
        async with open_to(server) as connection:
            unanswered = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
            connection._request(unanswered, None, None)
            assert await connection.call(beat(), timeout=5)
    assert begun == [0]


# Peers that misbehave


async def scripted_peer(listener, answers):
    """A peer that answers each request with the next of `answers` (bytes), then closes the connection."""
    async with await listener.accept() as stream:
        frames = FrameBuffer(1 << 20)
        for answer in answers:
            while (frame := frames.next_frame()) is None:
                data = await stream.receive_some(4096)
                if not data:
                    return
                frames.room()[: len(data)] = data
                frames.received(len(data))
            del frame
            await stream.send_all(answer)


def hello(correlation_id=0, *keys):
    versions = [ApiVersion(api_key=k, min_version=0, max_version=4) for k in (12, 18, *keys)]
    return sized(encode_response(ApiVersionsResponse(api_keys=versions), 4, correlation_id))


def beat_answer(correlation_id):
    return sized(encode_response(HeartbeatResponse(), 4, correlation_id))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        beat_answer(1)[:-1],
        beat_answer(2),
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request\r\n",
        sized(beat_answer(1)[4:] + b"\0"),
        sized(b"\0\0\0\1\0\0\0\0\0\0\0\xff\xff\xff\x7f"),
    ],
)
async def test_garbage_response_drops_the_connection(answer):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(scripted_peer, listener, [hello(), answer])
        async with open_node_connection(*listener.socket.getsockname()) as connection:
            with pytest.raises(ConnectionLost):
                await connection.call(beat(), timeout=5)
            assert connection.closed.is_set()


@pytest.mark.parametrize("answer", [b"", hello(5), b"\0\0\0\2xx", hello()[:20], b"SSH-2.0-x\r\n"])
async def test_garbage_api_versions_loses_the_connection(answer):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(scripted_peer, listener, [answer])
        with pytest.raises(ConnectionLost):
            async with open_node_connection(*listener.socket.getsockname()):
                pytest.fail("negotiated")


async def test_silent_peer_times_out(autojump_clock):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        with pytest.raises(RequestTimedOut):
            async with open_node_connection(*listener.socket.getsockname(), timeout=4):
                pytest.fail("negotiated")


async def test_unsolicited_response_ends_the_connection():
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(scripted_peer, listener, [hello() + beat_answer(1)])
        async with open_node_connection(*listener.socket.getsockname()) as connection:
            with trio.fail_after(5):
                await connection.closed.wait()
            with pytest.raises(ConnectionLost):
                await connection.call(beat(), timeout=5)


@pytest.mark.parametrize("copy_records", [True, False])
async def test_records_of_answers_are_never_mixed(copy_records):
    """Views that are held during later responses keep their bytes (CVE-2026-35554)."""
    rng = random.Random(4)
    payloads = [rng.randbytes(rng.choice([10, 3000, 70_000, 200_000])) for _ in range(40)]
    left = list(payloads)

    @handles(FetchRequest, versions="4-18", access=open_to_all("a test"))
    def fetch(request, ctx, call):
        partition = PartitionData(
            partition_index=0, high_watermark=1, aborted_transactions=None, records=left.pop(0)
        )
        topics = [FetchableTopicResponse(topic="t", partitions=[partition])]
        return FetchResponse(responses=topics)

    async with open_server(fetch) as server, open_to(server, copy_records=copy_records) as node:
        held = []
        for _ in payloads:
            answer = await node.call(
                FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), version=12, timeout=5
            )
            held.append(answer.responses[0].partitions[0].records)
    assert [bytes(records) for records in held] == payloads


@pytest.mark.parametrize("answered", [True, False])
async def test_cancelled_request_is_never_sent_later(monkeypatch, answered):
    """The cancelled request does not arrive after a later request that is sent on another connection."""
    given_up = []
    real = SocketEndpoint.give_up
    monkeypatch.setattr(SocketEndpoint, "give_up", lambda self: given_up.append(self) or real(self))
    toy = Toy()
    async with open_server(heartbeat, context=toy) as server, open_to(server) as connection:
        event = toy.defer("a")
        if answered:
            event.set()
        async with trio.open_nursery() as nursery:

            async def ask():
                try:
                    await connection.call(beat("a"), timeout=5)
                except ConnectionLost:
                    assert not answered

            nursery.start_soon(ask)
            await settled()
            while answered and connection._conversation.unanswered_count:
                await settled()
            connection.close()
        assert len(given_up) == (not answered)
        event.set()
