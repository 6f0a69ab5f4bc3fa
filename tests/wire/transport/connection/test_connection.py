"""Order, deferral, back-pressure and errors of one connection, over real sockets."""

import logging
import socket
import time
from contextlib import AsyncExitStack

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.transport.support import (
    Toy,
    api_versions_frame,
    ask_api_versions,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
    request_frame,
    settled,
    sized,
)
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.metadata import MetadataRequest, MetadataResponse
from trimaran.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Wait

LIGHT = 12_000
SLICE = 0.00025


async def test_pipelined_requests_are_answered_in_order():
    async with open_server(heartbeat, context=Toy()) as server, open_raw(server) as client:
        await client.send(b"".join(heartbeat_frame("g", i) for i in range(500)))
        for i in range(500):
            correlation_id, response = await client.heartbeat()
            assert (correlation_id, response.throttle_time_ms) == (i, i + 1)


async def test_frame_may_arrive_byte_by_byte():
    async with open_server(heartbeat, context=Toy()) as server, open_raw(server) as client:
        for byte in heartbeat_frame("g", 9) * 2:
            await client.send(bytes([byte]))
        assert (await client.heartbeat())[0] == 9
        assert (await client.heartbeat())[0] == 9


async def test_requests_behind_a_parked_one_begin_and_wait():
    toy = Toy()
    first, third = toy.defer("first"), toy.defer("third")
    async with open_server(heartbeat, context=toy) as server, open_raw(server) as client:
        groups = ["zeroth", "first", "second", "third", "fourth"]
        await client.send(b"".join(heartbeat_frame(g, i) for i, g in enumerate(groups)))
        assert (await client.heartbeat())[0] == 0
        await settled()
        assert toy.begun == groups
        assert not client.buffer
        third.set()
        await settled()
        assert server.connections
        first.set()
        for i in range(1, 5):
            correlation_id, response = await client.heartbeat()
            assert (correlation_id, response.throttle_time_ms) == (i, i + 1)


class Late:
    """A result that becomes ready later; it keeps the first registered callback."""

    def __init__(self):
        self.known = trio.Event()
        self.call = None
        self.waits = 0

    def when_ready(self, call):
        assert self.call is None, "registered twice"
        self.call = call
        return self

    def stop(self):
        self.call = None

    def complete(self):
        self.known.set()
        self.ring()

    def ring(self):
        call, self.call = self.call, None
        call()

    async def wait(self):
        if not self.known.is_set():
            self.waits += 1
            await self.known.wait()
        return 7


def of_late(late, outcome=lambda value: HeartbeatResponse(throttle_time_ms=value)):
    """Declares a handler that responds to the group `late` later, and to all other groups immediately."""

    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
    def handler(request, ctx, call):
        value = 1
        if request.group_id == "late":
            value = yield Wait(late.wait, late.known.is_set, when_ready=late.when_ready)
        return outcome(value)

    return handler


async def answered(client):
    number, response = await client.heartbeat()
    return number, response.throttle_time_ms


async def test_response_that_calls_back_needs_no_task():
    late = Late()
    async with open_server(of_late(late)) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("late", 1))
        await settled()
        await client.send(heartbeat_frame("g", 2) + heartbeat_frame("g", 3))
        await settled()
        late.complete()
        (connection,) = server.connections.values()
        assert connection.core.unsent.sent > 0  # no task has run yet
        assert [await answered(client) for _ in range(3)] == [(1, 7), (2, 1), (3, 1)]
        assert (late.waits, late.call) == (0, None)


async def test_response_that_is_called_too_early_is_awaited():
    late = Late()
    async with open_server(of_late(late)) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("late", 1))
        await settled()
        late.ring()
        await settled()
        assert late.waits == 1
        late.known.set()
        assert await answered(client) == (1, 7)


async def test_closed_connection_is_not_called_back():
    late = Late()
    async with open_server(of_late(late)) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("late"))
            await settled()
            assert late.call is not None
            (connection,) = server.connections.values()
            connection.abort()
        await settled()
        assert late.call is None


async def test_request_that_pauses_again_is_answered():
    late, then = Late(), Late()

    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
    def handler(request, ctx, call):
        yield Wait(late.wait, late.known.is_set, when_ready=late.when_ready)
        value = yield Wait(then.wait, then.known.is_set, when_ready=then.when_ready)
        return HeartbeatResponse(throttle_time_ms=value)

    async with open_server(handler) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("late", 1))
        await settled()
        late.complete()
        await settled()
        then.complete()
        assert await answered(client) == (1, 7)


async def test_unwritable_late_response_ends_the_connection(caplog):
    def broken(_value):
        return HeartbeatResponse(throttle_time_ms="soon")

    late = Late()
    async with open_server(of_late(late, broken)) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("late"))
        await settled()
        late.complete()
        await settled()
        assert not server.connections
    assert "cannot be written" in caplog.text


async def test_late_response_that_closes_ends_the_connection():
    def refuse(_value):
        raise CloseConnection("late")

    late = Late()
    async with open_server(of_late(late, refuse)) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("late"))
        await settled()
        late.complete()
        await settled()
        assert not server.connections


async def test_half_closed_peer_gets_response_that_calls_back():
    late = Late()
    async with open_server(of_late(late)) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("late", 1))
        await settled()
        await client.stream.send_eof()
        await settled()
        late.complete()
        assert await answered(client) == (1, 7)
        await settled()
        assert not server.connections


async def test_parked_response_blocks_only_its_own_connection():
    toy = Toy()
    event = toy.defer("slow")
    async with open_server(heartbeat, context=toy) as server, open_raw(server) as slow:
        await slow.send(heartbeat_frame("slow", 1))
        async with open_raw(server) as quick:
            await quick.send(heartbeat_frame("quick", 2))
            assert (await quick.heartbeat())[0] == 2
        event.set()
        assert (await slow.heartbeat())[0] == 1


async def test_number_of_requests_in_flight_is_limited():
    toy = Toy()
    event = toy.defer("slow")
    async with (
        open_server(heartbeat, context=toy, in_flight_max=5) as server,
        open_raw(server) as client,
    ):
        await client.send(heartbeat_frame("slow") + heartbeat_frame("g") * 50)
        await settled()
        assert len(toy.begun) == 5
        event.set()
        for _ in range(51):
            assert await client.heartbeat()
        assert len(toy.begun) == 51


@pytest.mark.slow
async def test_peer_that_reads_nothing_is_not_read():
    async with (
        open_server(heartbeat, context=Toy(), unsent_bytes_max=4096) as server,
        open_raw(server, receive_buffer=4096) as client,
        trio.open_nursery() as nursery,
    ):
        await settled()
        (connection,) = server.connections.values()
        connection._endpoint._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        count = 20_000
        requests = b"".join(api_versions_frame(0, i) for i in range(100)) * (count // 100)
        nursery.start_soon(client.send, requests)
        await settled()
        begun = server.counters.requests
        assert begun < count
        assert connection.core.unsent.size < 4096 + 1000
        assert len(connection.core.frames._buffer) <= 65536
        await settled()
        assert server.counters.requests == begun
        for i in range(count):
            assert (await client.answer(18, 0))[0] == i % 100
        assert server.counters.requests == count


async def test_ten_thousand_unread_responses_are_harmless():
    async with (
        open_server(heartbeat, context=Toy()) as server,
        open_raw(server) as greedy,
        open_raw(server) as other,
    ):
        await greedy.send(api_versions_frame(4, 1) * 10_000)
        assert (await ask_api_versions(other)).error_code == 0
        (connection, _) = server.connections.values()
        assert connection.core.unsent.size <= (1 << 20) + 1000
        for _ in range(10_000):
            assert (await greedy.answer(18, 4))[0] == 1


async def test_half_closed_peers_get_their_answers():
    async with open_server(heartbeat, context=Toy()) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("a", 1) + heartbeat_frame("b", 2))
        await client.stream.send_eof()
        assert (await client.heartbeat())[0] == 1
        assert (await client.heartbeat())[0] == 2
        assert await client.is_closed()
        await settled()
        assert not server.connections


async def test_half_closed_peer_times_out(autojump_clock):
    toy = Toy()
    toy.defer("never")
    async with open_server(heartbeat, context=toy) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("never"))
        await client.stream.send_eof()
        before = trio.current_time()
        assert await client.frame() is None
        assert trio.current_time() - before <= 1.5
        await settled()
        assert not server.connections


@pytest.mark.parametrize("end", ["reset", "close"])
async def test_connection_ending_at_any_byte_leaves_nothing(end):
    frame = heartbeat_frame("g", 1)
    async with open_server(heartbeat, context=Toy()) as server:
        for cut in range(len(frame) + 1):
            async with open_raw(server) as client:
                await client.send(frame[:cut])
                if end == "reset":
                    client.reset()
        async with open_raw(server) as client:
            await client.send(frame)
            assert (await client.heartbeat())[0] == 1
        await settled()
        assert not server.connections
        assert server.counters.accepted == server.counters.closed == len(frame) + 2


async def test_reset_ends_the_deferred_request():
    toy = Toy()
    toy.defer("never")
    async with open_server(heartbeat, context=toy) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("never"))
            await settled()
            gone = []
            toy.connections["never"].on_close(lambda: gone.append(1))
            client.reset()
        await settled()
        assert gone == [1]


async def test_on_close_runs_once_when_peer_is_gone(autojump_clock):
    toy = Toy()
    toy.defer("never")
    gone = []

    def note():
        gone.append(trio.current_time())

    async with open_server(heartbeat, context=toy) as server:
        async with open_raw(server) as client:
            await client.send(heartbeat_frame("never"))
            await settled()
            info = toy.connections["never"]
            info.on_close(note)
            info.on_close(note)
            info.on_close(lambda: 1 / 0)
            other = gone.copy
            info.on_close(other)
            info.forget_on_close(other)
            closed_at = trio.current_time()
        await settled()
        assert gone == [closed_at]
        info.on_close(note)
        assert len(gone) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\x80\0\0\0",
        (100 * 2**20 + 1).to_bytes(4, "big"),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        sized(b"\0\x12\0"),  # shorter than any header
        sized(b"\0\x0c\0\x04\0\0\0\1\xff\xfe"),  # client id of size -2
        sized(b"\0\x0c\0\x04\0\0\0\1\x7f\xff"),  # client id longer than the frame
        sized(b"\0\x0c\0\x04\0\0\0\1\0\1\xff\0"),  # client id is not UTF-8
        sized(b"\0\x0c\0\x04\0\0\0\1\xff\xff\xff\xff\xff\xff\x0f"),  # millions of tags
        sized(b"\x7f\xff\0\0\0\0\0\1\xff\xff"),  # unknown api key
        sized(b"\xff\xff\0\0\0\0\0\1\xff\xff"),  # negative api key
        request_frame(MetadataRequest(topics=[]), 12),  # not served here
        heartbeat_frame("g")[:6] + b"\0\x05" + heartbeat_frame("g")[8:],  # version too new
        heartbeat_frame("g")[:6] + b"\xff\xff" + heartbeat_frame("g")[8:],  # version -1
        sized(heartbeat_frame("g")[4:-1]),  # truncated
    ],
)
async def test_bad_input_closes_after_earlier_answers(data, caplog):
    async with (
        open_server(heartbeat, context=Toy()) as server,
        open_raw(server) as client,
        open_raw(server) as other,
    ):
        await client.send(heartbeat_frame("g", 5))
        assert (await client.heartbeat())[0] == 5
        await client.send(heartbeat_frame("g", 6) + data)
        assert (await client.heartbeat())[0] == 6
        assert await client.is_closed()
        assert server.counters.bad_frames + server.counters.bad_requests == 1
        await other.send(heartbeat_frame("g", 7))
        assert (await other.heartbeat())[0] == 7
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1


async def test_trailing_bytes_are_ignored_as_by_kafka():
    """librdkafka 2.16.1 requests all topics with: null, false, false, no tags, and three bytes more."""
    asked = []

    @handles(MetadataRequest, versions="0-13", access=open_to_all("a test"))
    def metadata(request, ctx, call):
        asked.append(request)
        return MetadataResponse(brokers=[], topics=[])

    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    async with open_server(metadata) as server, open_raw(server) as client:
        await client.send(sized(frame) * 2)
        assert (await client.answer(3, 13))[0] == 3
        assert (await client.answer(3, 13))[0] == 3
    assert asked == [MetadataRequest(topics=None, allow_auto_topic_creation=False)] * 2


@given(st.data())
def test_mutated_requests_harm_no_other_connection(data):
    async def main():
        frames = [heartbeat_frame("g", 1), api_versions_frame(4, 2), produce_frame(1, 3)]
        sent = bytearray(b"".join(data.draw(st.lists(st.sampled_from(frames), min_size=1))))
        for _ in range(data.draw(st.integers(1, 5))):
            place = data.draw(st.integers(0, len(sent) - 1))
            match data.draw(st.sampled_from(["set", "cut", "insert"])):
                case "set":
                    sent[place] = data.draw(st.integers(0, 255))
                case "cut":
                    del sent[place : place + data.draw(st.integers(0, 3))]
                case "insert":
                    sent[place:place] = data.draw(st.binary(max_size=9))
            if not sent:
                return
        async with open_server(heartbeat, produce, context=Toy()) as server:
            async with open_raw(server) as hostile, open_raw(server) as other:
                await hostile.send(bytes(sent))
                await hostile.stream.send_eof()
                while await hostile.frame() is not None:
                    pass
                assert (await ask_api_versions(other)).error_code == 0

    trio.run(main)


async def test_unwritable_answer_closes_with_a_traceback(caplog):
    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
    def broken(request, ctx, call):
        return HeartbeatResponse(throttle_time_ms="soon")

    async with open_server(broken) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("g"))
        assert await client.is_closed()
    assert "cannot be written" in caplog.text


async def test_flood_of_bad_input_logs_one_line(caplog):
    async with open_server() as server:
        for _ in range(50):
            async with open_raw(server) as client:
                await client.send(b"GET / HTTP/1.1\r\n\r\n")
                assert await client.is_closed()
        assert server.counters.bad_frames == 50
    (line,) = [r.getMessage() for r in caplog.records]
    assert "an HTTP request" in line


async def test_client_ids_never_reach_the_log_unescaped(caplog):
    async with open_server(heartbeat, context=Toy()) as server:
        for client_id in ["", None, "x" * 32767, "a\nb\r\x1b[31m%s%n{}", "\u202e"]:
            async with open_raw(server) as client:
                frame = request_frame(
                    HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, -5, client_id
                )
                await client.send(frame)
                assert (await client.heartbeat())[0] == -5
    assert not caplog.records


# Exceptions raised by handlers


async def test_errors_are_answered_if_response_has_room(caplog):
    toy = Toy()
    toy.failures = {
        "known": KafkaError(ErrorCode.NOT_COORDINATOR, "elsewhere"),
        "ours": ZeroDivisionError("secret"),
        "deferred": KafkaError(ErrorCode.REBALANCE_IN_PROGRESS),
    }
    toy.defer("deferred").set()
    async with open_server(heartbeat, context=toy) as server, open_raw(server) as client:
        codes = []
        for group in ("known", "ours", "deferred", "fine"):
            await client.send(heartbeat_frame(group))
            codes.append((await client.heartbeat())[1].error_code)
        assert codes == [
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.NONE,
        ]
    (record,) = caplog.records
    assert "ZeroDivisionError" in caplog.text
    assert record.levelno == logging.ERROR


def produce_frame(acks: int, correlation_id: int, records: bytes = b"batch") -> bytes:
    data = [PartitionProduceData(index=0, records=records)]
    topic = TopicProduceData(name="t", partition_data=data)
    return request_frame(
        ProduceRequest(acks=acks, timeout_ms=1, topic_data=[topic]), 9, correlation_id
    )


@handles(ProduceRequest, versions="3-13", access=open_to_all("a test"))
def produce(request, toy, call):
    toy.begun.append(bytes(request.topic_data[0].partition_data[0].records).decode())
    if request.acks == 0:
        if toy.begun[-1] == "bad":
            raise CloseConnection("acks=0 with an error")
        return None
    return ProduceResponse(responses=[])


@pytest.mark.parametrize("ends", ["resets", "sends nonsense"])
async def test_connection_ending_in_its_turn_blocks_no_other(ends):
    """A busy connection passes on its turn, however it ends."""
    toy, crowd = Toy(), 8

    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
    def busy(request, toy, call):
        until = time.perf_counter() + SLICE
        while time.perf_counter() < until:
            pass
        return heartbeat(request, toy, call)

    async with open_server(busy, context=toy) as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(open_raw(server)) for _ in range(crowd)]
        for client in clients:
            await client.send(heartbeat_frame("g") * 20)
        while len(toy.begun) < crowd:
            await trio.lowlevel.checkpoint()
        for client in clients[1:]:
            if ends == "resets":
                client.reset()
            else:
                await client.send(b"\xff" * 8)
        with trio.fail_after(30):
            for _ in range(20):
                await clients[0].heartbeat()


async def test_acks_0_is_not_answered_and_errors_close():
    toy = Toy()
    async with open_server(produce, context=toy) as server, open_raw(server) as client:
        await client.send(
            produce_frame(0, 1)
            + produce_frame(1, 2)
            + produce_frame(0, 3, b"bad")
            + produce_frame(1, 4)
        )
        assert (await client.answer(0, 9))[0] == 2
        assert await client.is_closed()
        assert toy.begun == ["batch", "batch", "bad"]


async def test_error_without_response_field_closes_the_connection(caplog):
    @handles(MetadataRequest, versions="0-12", access=open_to_all("a test"))
    def fails(request, ctx, call):
        raise ValueError("a bug")

    async with open_server(fails) as server, open_raw(server) as client:
        await client.send(request_frame(MetadataRequest(topics=[]), 12))
        assert await client.is_closed()
    assert "a bug" in caplog.text


async def test_handler_may_build_its_error_response():
    def on_error(request, code, message):
        assert isinstance(request, MetadataRequest)
        return MetadataResponse(brokers=[], topics=[], cluster_id=f"{code.name} {message}")

    @handles(MetadataRequest, versions="0-12", access=open_to_all("a test"), on_error=on_error)
    def fails(request, ctx, call):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no such")

    async with open_server(fails) as server, open_raw(server) as client:
        await client.send(request_frame(MetadataRequest(topics=[]), 12))
        assert (await client.answer(3, 12))[1].cluster_id == "UNKNOWN_TOPIC_ID no such"


@pytest.mark.parametrize("error", [CloseConnection("so"), RemoteProtocolError("inner bytes")])
async def test_handler_may_close_the_connection(error):
    toy = Toy()
    toy.failures = {"bad": error}
    async with open_server(heartbeat, context=toy) as server, open_raw(server) as client:
        await client.send(
            heartbeat_frame("g", 1) + heartbeat_frame("bad", 2) + heartbeat_frame("g", 3)
        )
        assert (await client.heartbeat())[0] == 1
        assert await client.is_closed()
        assert toy.begun == ["g", "bad"]


async def test_handlers_that_block_run_in_turn():
    seen = []
    go = trio.Event()

    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
    def slow(request, ctx, call):
        seen.append(request.group_id)
        yield Blocking(go.wait)
        if request.group_id == "bad":
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return HeartbeatResponse()

    async with open_server(slow) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("a", 1) + heartbeat_frame("bad", 2))
        await settled()
        assert seen == ["a"]
        await client.send(heartbeat_frame("x" * 3000, 3))
        await settled()
        go.set()
        assert (await client.heartbeat())[0] == 1
        assert (await client.heartbeat())[1].error_code == ErrorCode.INVALID_GROUP_ID
        assert (await client.heartbeat())[0] == 3
        assert seen == ["a", "bad", "x" * 3000]


async def test_records_held_by_parked_answer_stay_unchanged():
    """A late reader of a request's bytes must never read another request's bytes (CVE-2026-35554)."""
    go = trio.Event()
    answers = []

    @handles(
        ProduceRequest,
        versions="3-13",
        access=open_to_all("a test"),
        elements_max=LIGHT,
    )
    def hold(request, ctx, call):
        records = request.topic_data[0].partition_data[0].records

        async def finish():
            await go.wait()
            answers.append(bytes(records))
            return ProduceResponse(responses=[])

        return (yield Wait(finish))

    payloads = [bytes([i]) * (10_000 * (i % 7 + 1)) for i in range(30)]
    async with open_server(hold) as server, open_raw(server) as client:
        for i, payload in enumerate(payloads):
            await client.send(produce_frame(1, i, payload))
            await settled()
        go.set()
        for i in range(len(payloads)):
            assert (await client.answer(0, 9))[0] == i
    assert answers == payloads
