"""Conclusions from a refused connection to a peer: none if there was no connection before, or if one is still open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from tests.cluster.nodes import SECONDS, until
from tests.wire.transport.client.test_node_connection import hello
from trimaran.node.runtime.ports import HOST, port_of, reserve
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import Peer, ReplicaKey
from trimaran.quorum.replica.peers import REACHED_MAX, Peers
from trimaran.wire.messages.vote import VoteRequest
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.server.server import Listener, serve_listener

VOTE = core.VoteRequest("ours", 1, ReplicaKey(1), ReplicaKey(2), 0, 0, pre_vote=True)
FETCH = core.FetchRequest("ours", 1, ReplicaKey(1), 0, 0, -1, 0.0, 1)


class Sight:
    """Peer 2 as seen by node 1."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.down: list[int] = []
        self.peers = Peers(nursery, "test", self.down.append, 1.0)

    async def ask(self, port: int, request: core.Request = VOTE) -> None:
        """Sends a request and returns when it is answered or fails; these peers support no request of ours."""
        done = trio.Event()
        self.peers.send(Peer(2, HOST, port), request, SECONDS, lambda _: done.set())
        await done.wait()


@asynccontextmanager
async def sight() -> AsyncIterator[Sight]:
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            yield Sight(nursery)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def listening(port: int) -> AsyncIterator[None]:
    listener = Listener.bind("C", HOST, port)
    nothing: Registry[Any] = Registry(())
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_listener, [listener], nothing, None)
        yield
        nursery.cancel_scope.cancel()


async def test_unreached_peer_that_refuses_is_not_gone():
    reserved = reserve()
    async with sight() as one:
        for request in (VOTE, FETCH):
            await one.ask(port_of(reserved), request)
        assert one.down == []
    reserved.close()


async def test_reached_peer_that_refuses_is_gone():
    reserved = reserve()
    async with sight() as one:
        async with listening(port_of(reserved)):
            await one.ask(port_of(reserved))
        await until(lambda: one.down == [2])
    reserved.close()


async def test_peer_with_remaining_connection_is_not_gone():
    """The peer's port is no longer mapped, but existing connections stay open."""
    listener = trio.socket.socket()
    await listener.bind((HOST, 0))
    listener.listen()
    port = listener.getsockname()[1]
    async with sight() as one, trio.open_nursery() as nursery:
        nursery.start_soon(one.ask, port, VOTE)
        found, _ = await listener.accept()
        with found:
            assert await found.recv(4096)
            await found.send(hello(0, VoteRequest.KEY))
            assert await found.recv(4096), "the connection is open, and waits for an answer"
            listener.close()
            await one.ask(port, FETCH)
            assert one.down == []
        await until(lambda: one.down == [2])
        nursery.cancel_scope.cancel()


async def test_addresses_that_answered_are_bounded():
    async with sight() as one:
        for port in range(3 * REACHED_MAX):
            one.peers._connected(HOST, port)
        assert next(iter(one.peers._reached)) == (HOST, 2 * REACHED_MAX)


async def test_unknown_host_is_logged_once(caplog):
    """Otherwise controllers whose names cannot be resolved would hold elections without any log line."""
    async with sight() as one:
        for _ in range(3):
            done = trio.Event()
            one.peers.send(
                Peer(2, "controller.invalid", 9), VOTE, SECONDS, lambda _, done=done: done.set()
            )
            await done.wait()
    (line,) = [each.getMessage() for each in caplog.records if "is not known" in each.getMessage()]
    assert "node 2 is not reached" in line
    assert "controller.invalid:9" in line
