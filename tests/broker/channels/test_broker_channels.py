"""Requests to other brokers over real sockets: peers that answer, disconnect, stay silent, or send garbage."""

from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
import trio.testing

from tests.wire.transport.support import HEARTBEAT_VERSION, Toy, heartbeat, open_server
from trimaran.broker.channels.broker_channel import ChannelLimits, NotSent, OutcomeUnknown
from trimaran.broker.channels.broker_channels import BrokerChannels
from trimaran.broker.channels.broker_connector import BrokerConnector
from trimaran.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from trimaran.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from trimaran.wire.messages.header import encode_response
from trimaran.wire.messages.heartbeat import HeartbeatRequest

SECONDS = 10


def beat(group):
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


@asynccontextmanager
async def open_channels(addresses, **limits):
    """Opens channels to `addresses`, by broker id; later changes of that mapping are changes of the metadata."""
    channels = BrokerChannels(
        BrokerConnector(addresses.get, "test"),
        ChannelLimits(**{"backoff_seconds_max": 0.05, **limits}),
    )
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            await nursery.start(channels.run)
            yield channels
            nursery.cancel_scope.cancel()


def address(server):
    return server.addresses["PLAINTEXT"]


async def until(condition):
    while not condition():
        await trio.lowlevel.checkpoint()


def begin(nursery, channels, group, outcomes, *, broker_id=1, timeout=SECONDS):
    """Sends the requests in a task of its own; their results are in `outcomes`, by group."""

    async def ask():
        try:
            await channels.call(broker_id, beat(group), timeout=timeout)
            outcomes[group] = "answered"
        except (NotSent, OutcomeUnknown) as error:
            outcomes[group] = type(error).__name__

    nursery.start_soon(ask)


async def test_requests_to_broker_share_one_ordered_connection():
    toy = Toy()
    held = toy.defer("a")
    async with (
        open_server(heartbeat, context=toy) as server,
        open_channels({1: address(server)}) as channels,
    ):
        outcomes = {}
        async with trio.open_nursery() as nursery:
            for group in ("a", "b", "c"):
                begin(nursery, channels, group, outcomes)
                await trio.testing.wait_all_tasks_blocked()
            await until(lambda: toy.begun)
            assert outcomes == {}
            held.set()
        assert outcomes == dict.fromkeys("abc", "answered")
        assert toy.begun == ["a", "b", "c"]
        assert len({connection.id for connection in toy.connections.values()}) == 1


async def test_sent_requests_are_bounded_rest_waits_or_fails():
    toy = Toy()
    held = toy.defer("0")
    async with (
        open_server(heartbeat, context=toy) as server,
        open_channels({1: address(server)}, in_flight=2, queued=3) as channels,
    ):
        outcomes = {}
        async with trio.open_nursery() as nursery:
            begin(nursery, channels, "0", outcomes)
            await until(lambda: toy.begun == ["0"])
            for group in "1234":
                begin(nursery, channels, group, outcomes)
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(NotSent, match="3 requests wait"):
                await channels.call(1, beat("too many"), timeout=SECONDS)
            assert outcomes == {}
            held.set()
        assert outcomes == dict.fromkeys("01234", "answered")


async def test_lost_broker_leaves_sent_unknown_queued_to_successor():
    toy, addresses = Toy(), {}
    toy.defer("sent")
    outcomes = {}
    async with open_channels(addresses, in_flight=1) as channels, trio.open_nursery() as nursery:
        async with open_server(heartbeat, context=toy) as server:
            addresses[1] = address(server)
            begin(nursery, channels, "sent", outcomes)
            await until(lambda: toy.begun)
            begin(nursery, channels, "queued", outcomes)
            await trio.testing.wait_all_tasks_blocked()
            assert outcomes == {}
            successor = await nursery.start(_serve_until_cancelled, Toy())
            addresses[1] = address(successor)
        await until(lambda: len(outcomes) == 2)
        assert outcomes == {"sent": "OutcomeUnknown", "queued": "answered"}
        nursery.cancel_scope.cancel()


async def _serve_until_cancelled(toy, task_status):
    async with open_server(heartbeat, context=toy) as server:
        task_status.started(server)
        await trio.sleep_forever()


async def test_moved_broker_is_reached_at_new_address():
    old, new, addresses = Toy(), Toy(), {}
    async with (
        open_server(heartbeat, context=old) as first,
        open_server(heartbeat, context=new) as second,
    ):
        addresses[1] = address(first)
        async with open_channels(addresses) as channels:
            await channels.call(1, beat("a"), timeout=SECONDS)
            addresses[1] = address(second)
            await channels.call(1, beat("b"), timeout=SECONDS)
    assert (old.begun, new.begun) == (["a"], ["b"])


async def test_missing_broker_means_nothing_was_sent():
    with trio.socket.socket() as free:
        await free.bind(("127.0.0.1", 0))
        async with open_channels({1: free.getsockname()}) as channels:
            with pytest.raises(NotSent, match="cannot connect"):
                await channels.call(1, beat("a"), timeout=SECONDS)
            with pytest.raises(NotSent, match="metadata knows no endpoint of broker 2"):
                await channels.call(2, beat("a"), timeout=SECONDS)


async def test_pauses_before_dead_broker_grow(autojump_clock):
    tries = []

    def address_of(_broker_id):
        tries.append(trio.current_time())

    channels = BrokerChannels(BrokerConnector(address_of, "test"), ChannelLimits())
    async with trio.open_nursery() as nursery:
        await nursery.start(channels.run)
        for _ in range(8):
            with pytest.raises(NotSent):
                await channels.call(1, beat("a"), timeout=SECONDS)
        nursery.cancel_scope.cancel()
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses[0] < 0.1 < pauses[2] < pauses[4]
    assert all(0.8 <= pause <= 1.2 for pause in pauses[-2:])


async def test_unsupported_request_is_not_sent_others_continue():
    async with (
        open_server(heartbeat, context=Toy()) as server,
        open_channels({1: address(server)}) as channels,
    ):
        with pytest.raises(NotSent, match="does not serve AllocateProducerIds"):
            await channels.call(
                1, AllocateProducerIdsRequest(broker_id=1, broker_epoch=1), timeout=SECONDS
            )
        assert await channels.call(1, beat("a"), timeout=SECONDS)


async def test_timeout_tells_whether_request_was_sent():
    toy = Toy()
    toy.defer("a")
    async with (
        open_server(heartbeat, context=toy) as server,
        open_channels({1: address(server)}, in_flight=1) as channels,
        trio.open_nursery() as nursery,
    ):
        outcomes = {}
        await channels.call(1, beat("first"), timeout=SECONDS)
        begin(nursery, channels, "a", outcomes, timeout=0.5)
        await until(lambda: len(toy.begun) == 2)
        with pytest.raises(NotSent, match="could not be sent"):
            await channels.call(1, beat("b"), timeout=0.01)
        await until(lambda: outcomes)
        assert outcomes == {"a": "OutcomeUnknown"}
        toy.defer("a").set()
        await channels.call(1, beat("c"), timeout=SECONDS)
        assert toy.begun == ["first", "a", "c"], "what nobody waits for any more is not sent"


async def test_silent_broker_is_disconnected():
    toy = Toy()
    toy.defer("a")
    async with (
        open_server(heartbeat, context=toy) as server,
        open_channels({1: address(server)}, response_seconds=0.5) as channels,
    ):
        with pytest.raises(OutcomeUnknown):
            await channels.call(1, beat("a"), timeout=SECONDS)
        await until(lambda: toy.connections["a"].closed)
        await channels.call(1, beat("b"), timeout=SECONDS)
        assert toy.connections["a"] is not toy.connections["b"]


async def test_idle_connection_closes_and_next_request_reopens():
    toy = Toy()
    async with (
        open_server(heartbeat, context=toy) as server,
        open_channels({1: address(server)}, idle_seconds=0.02) as channels,
    ):
        await channels.call(1, beat("a"), timeout=SECONDS)
        await until(lambda: toy.connections["a"].closed)
        await until(lambda: len(channels) == 0)
        await channels.call(1, beat("b"), timeout=SECONDS)
        assert toy.connections["a"] is not toy.connections["b"]


@asynccontextmanager
async def hostile_peer(answer):
    """Listens and replies to all received bytes with `answer(bytes)`; None closes the connection."""

    async def serve(stream):
        async with stream:
            try:
                async for data in stream:
                    said = answer(data)
                    if said is None:
                        return
                    await stream.send_all(said)
            except trio.BrokenResourceError:
                return

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        yield ("127.0.0.1", listeners[0].socket.getsockname()[1])
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "answer",
    [
        lambda _data: None,
        lambda _data: b"\xff" * 64,
        lambda _data: (8).to_bytes(4, "big") + bytes(8),
    ],
    ids=["closes", "absurd size", "another's answer"],
)
async def test_broker_with_invalid_handshake_gets_no_request(answer):
    async with hostile_peer(answer) as there, open_channels({1: there}) as channels:
        for _ in range(2):
            with pytest.raises(NotSent):
                await channels.call(1, beat("a"), timeout=SECONDS)


async def test_malformed_answer_leaves_outcome_unknown():
    hello = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=18, min_version=0, max_version=0),
            ApiVersion(api_key=HeartbeatRequest.KEY, min_version=0, max_version=HEARTBEAT_VERSION),
        ]
    )
    seen = []

    def answer(data):
        seen.append(bytes(data))
        if len(seen) % 2 == 0:
            return (6).to_bytes(4, "big") + data[8:12] + b"\xff\xff"
        body = encode_response(
            hello, int.from_bytes(data[6:8], "big"), int.from_bytes(data[8:12], "big")
        )
        return len(body).to_bytes(4, "big") + bytes(body)

    async with hostile_peer(answer) as there, open_channels({1: there}) as channels:
        with pytest.raises(OutcomeUnknown):
            await channels.call(1, beat("a"), timeout=SECONDS)


async def test_waiting_callers_learn_outcome_at_end():
    toy, outcomes = Toy(), {}
    toy.defer("sent")
    async with open_server(heartbeat, context=toy) as server, trio.open_nursery() as nursery:
        async with open_channels({1: address(server)}, in_flight=1) as channels:
            begin(nursery, channels, "sent", outcomes)
            await until(lambda: toy.begun)
            begin(nursery, channels, "queued", outcomes)
            await trio.testing.wait_all_tasks_blocked()
        await until(lambda: len(outcomes) == 2)
        assert outcomes == {"sent": "OutcomeUnknown", "queued": "NotSent"}
        with pytest.raises(NotSent, match="stops"):
            await channels.call(1, beat("late"), timeout=SECONDS)
    assert len(channels) == 0
