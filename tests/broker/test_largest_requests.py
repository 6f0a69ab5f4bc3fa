"""Large requests to brokers and controllers do not block the loop: their handlers are generators, or the requests
cannot become that large.
"""

import contextlib
import gc
import inspect

import pytest
import trio
import trio.testing

from tests.badinput.peer import Peer, frame_of
from tests.broker.large_requests import array_paths, large_request, largest_request
from tests.cluster.in_process import cluster
from tests.slow_steps import no_slow_steps as assert_no_slow_steps
from trimaran.broker.handlers.registry import broker_registry
from trimaran.quorum.controller.handlers.registry import controller_registry
from trimaran.wire.schema import DECODE_BUDGET

pytestmark = pytest.mark.filterwarnings("ignore")

# Detects undivided work of 2 µs per element.
ELEMENTS = 8_000
CALLS_MAX = 70_000  # 20,000 that do not depend on the elements, and 6 per element; the longest slice makes 64,000
REGISTRIES = {"broker": broker_registry(), "controller": controller_registry()}
CASES = {
    node: [
        (handled, path)
        for handled in registry.handled().values()
        for path in array_paths(handled.request, handled.versions.high)
    ]
    for node, registry in REGISTRIES.items()
}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.mark.parametrize("node", REGISTRIES)
def test_handlers_of_arrays_are_generators_or_bounded(node):
    with_arrays = {handled.request for handled, _ in CASES[node]}
    unbounded = {
        route.request.__name__
        for route in REGISTRIES[node].routes()
        if route.request in with_arrays
        and not inspect.isgeneratorfunction(inspect.unwrap(route.handler))
        and route.elements_max >= DECODE_BUDGET.elements_max
    }
    assert not unbounded


@contextlib.contextmanager
def assert_freed_without_the_collector(request, freeze=gc.freeze):
    """A large request is frozen (`FROZEN_ELEMENTS_MIN`), and the collector never frees a cycle of frozen objects.

    Older objects are frozen by `freeze`, so that the collector does not list them. Small requests, in flight between
    the cluster's nodes, do not count.
    """
    gc.collect()
    freeze()
    gc.disable()
    try:
        yield
        left = [
            found
            for found in gc.get_objects()
            if type(found) is request and len(repr(found)) > ELEMENTS
        ]
    finally:
        gc.enable()
    assert not left


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("node", REGISTRIES)
async def test_every_array_of_a_large_request(tmp_path, node, monkeypatch):
    """The first request of each kind compiles its codecs, so a small one is sent before."""
    monkeypatch.setattr(gc, "freeze", lambda: None)  # objects that nodes freeze would not be listed
    async with cluster(tmp_path, **SETTINGS) as running:
        host, _, port = running.bootstrap.rpartition(":")
        address = (host, int(port)) if node == "broker" else ("127.0.0.1", running.voters[1])
        for handled, path in CASES[node]:
            version = handled.versions.high
            small = frame_of(large_request(handled.request, version, path, 3), version)
            large = frame_of(largest_request(handled, path, ELEMENTS), version)
            await trio.to_thread.run_sync(ask, address, small)
            with (
                assert_freed_without_the_collector(handled.request),
                assert_no_slow_steps(CALLS_MAX),
            ):
                await trio.to_thread.run_sync(ask, address, large)
                await trio.testing.wait_all_tasks_blocked(0.01)


def ask(address, frame):
    peer = Peer(address)
    with contextlib.closing(peer):
        peer.try_send(frame)
        assert peer.frame() is not None, "the connection was closed instead of an answer"
