"""Large requests do not hold the loop: those that are handled in slices, and those that may have few elements."""

import contextlib

import pytest
import trio

from broker.handlers.registry import broker_registry
from tests.badinput.peer import Peer, frame_of
from tests.broker.large_requests import array_paths, large_request
from tests.cluster.in_process import cluster
from tests.slow_steps import no_slow_steps as assert_no_slow_steps
from wire.messages.registry import REQUESTS
from wire.schema import DECODE_BUDGET

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ELEMENTS = 50_000
CASES = [
    (key, handled.versions.high, path)
    for key, handled in broker_registry().handled().items()
    if handled.slices is not None or handled.elements_max < DECODE_BUDGET.elements_max
    for path in array_paths(handled.request, handled.versions.high)
]


async def test_every_array_of_a_large_request(tmp_path):
    """The first of everything compiles its codecs, so a small one goes before."""
    settings = {"auto.create.topics.enable": "false"}
    async with cluster(tmp_path, **settings) as running:
        host, _, port = running.bootstrap.rpartition(":")
        for case in CASES:
            await trio.to_thread.run_sync(ask, (host, int(port)), *case, 3)
            with assert_no_slow_steps():
                await trio.to_thread.run_sync(ask, (host, int(port)), *case, ELEMENTS)


def ask(address, key, version, path, count):
    peer = Peer(address)
    with contextlib.closing(peer):
        peer.try_send(frame_of(large_request(REQUESTS[key], version, path, count), version))
        peer.frame()
