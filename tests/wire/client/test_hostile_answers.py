"""Section 4.2, mE11: responses of nodes are distrusted like requests of peers."""

import random

import pytest
import trio

from tests.wire.client.test_conversation import answer, offered
from tests.wire.declared import versions_of
from tests.wire.random_messages import random_message
from tests.wire.test_fuzz import mutate
from tests.wire.transport.client.test_node_connection import hello, scripted_peer
from tests.wire.transport.cluster import open_cluster
from tests.wire.transport.cluster_client import open_client
from tests.wire.transport.support import sized
from trimaran.wire.client.conversation import Conversation
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.messages.header import encode_response
from trimaran.wire.messages.metadata import MetadataRequest, MetadataResponse
from trimaran.wire.messages.registry import REQUESTS, RESPONSES

MUTANTS = 6
COUNTS = (b"\x7f\xff\xff\xff" * 30, b"\xff" * 120, b"\x80" * 120, b"\x7f" * 120, b"")


def asked(key: int, version: int) -> Conversation:
    """Returns a conversation in which one request of that kind, with correlation id 1, awaits its response."""
    conversation = Conversation("me")
    conversation.hello("hello")
    frame = encode_response(offered((key, version, version), (18, 0, 5)), 4, 0)
    assert conversation.negotiate(conversation.receive(memoryview(frame))[1]) is None
    for seed in range(50):
        try:
            conversation.request(random_message(REQUESTS[key], version, seed), version, "asked")
        except LocalProtocolError:
            continue
        return conversation
    raise AssertionError(f"no request of {REQUESTS[key].__name__} v{version}")


@pytest.mark.parametrize("key", sorted(RESPONSES), ids=lambda key: RESPONSES[key].__name__)
def test_me11_mutated_responses_decode_or_end_connection(key):
    rng = random.Random(key)
    for version in versions_of(RESPONSES[key]):
        conversation = asked(key, version)
        response = random_message(RESPONSES[key], version, 2)
        right = bytes(encode_response(response, version, 1))
        # The first byte after the correlation id begins the tags of a flexible header.
        head = right[: 5 if version in RESPONSES[key].FLEXIBLE and key != 18 else 4]
        wrong = [head + body for body in COUNTS]
        wrong += [mutate(right, rng) for _ in range(MUTANTS)]
        for frame in wrong:
            try:
                conversation.receive(memoryview(frame))
            except RemoteProtocolError:
                assert conversation.unanswered() == [
                    "asked"
                ]  # the waiter has not been notified yet
            else:
                conversation = asked(key, version)


HOSTILE = {
    "count": b"\0\0\0\1\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff\x0f" + bytes(50),
    "tags": b"\0\0\0\1" + b"\x80\xda\xc4\x09" + bytes(100),
    "another's": b"\0\0\0\7\0" + bytes(50),
    "nothing": b"\0\0\0\1",
    "more": bytes(answer(MetadataResponse(brokers=[], topics=[]), 4, 1)) + b"more",
}


@pytest.mark.parametrize("frame", HOSTILE.values(), ids=HOSTILE)
async def test_me11_hostile_node_is_replaced_after_pause(frame, autojump_clock):
    """The connection is dropped, and the request goes to the next node."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    scripts = 0

    async def hostile():
        nonlocal scripts
        while True:
            scripts += 1
            await scripted_peer(listener, [hello(0, 3), sized(frame)])

    async with open_cluster([1]) as cluster, listener, trio.open_nursery() as nursery:
        nursery.start_soon(hostile)
        nodes = [listener.socket.getsockname(), cluster.addresses[1]]
        async with open_client(nodes, rng=random.Random(1)) as client:
            for _ in range(3):
                found = await client.call(MetadataRequest(topics=[]), timeout=60)
                assert found.cluster_id == "toy"
        nursery.cancel_scope.cancel()
    assert scripts <= 5  # the script is not called again immediately
