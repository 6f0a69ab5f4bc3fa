"""The simulated network between brokers, controller and clients: delays, links cut in one direction or both, and broken
connections. Data in flight on a cut link waits until the link is restored, as TCP retransmits packets, or is lost with
its connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any

import trio

from tests.broker.calls import finished
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.messages.header import RequestHeader
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker
    from tests.simulation.partitions.world import World

CONTROLLER, CLIENT = 0, -1
CONNECT_SECONDS = 0.5
# The delay of a request on an abandoned connection: long enough for its sender to retry and to continue.
STUCK_SECONDS = (0.5, 3.0)
# Versions of requests, which include all changes of responses to followers and consumers.
VERSIONS = {"FetchRequest": 17, "ListOffsetsRequest": 10, "OffsetForLeaderEpochRequest": 4}


class Lost(Exception):
    """Raised if a message never arrives."""


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[tuple[int, int]] = set()
        self.isolated: set[int] = set()
        self.slow: dict[tuple[int, int], float] = {}
        self._mended = trio.Event()
        self.connections: list[Connection] = []

    def is_cut(self, source: int, target: int) -> bool:
        return (source, target) in self.cut or source in self.isolated or target in self.isolated

    def mend(self) -> None:
        """Wakes messages that wait for cut links."""
        self._mended.set()
        self._mended = trio.Event()

    def delay(self, source: int, target: int) -> float:
        late = self.world.prng.random()
        slow = self.slow.get((source, target), 0.0)
        return 0.0002 + (self.world.faults.delay_max + slow) * late * late * late

    async def travel(self, source: int, target: int, *, may_be_lost: bool = False) -> None:
        """Waits until a message of `source` has arrived; raises Lost."""
        await trio.sleep(self.delay(source, target))
        while self.is_cut(source, target):
            if may_be_lost and self.world.prng.random() < 0.5:
                raise Lost
            await self._mended.wait()
            await trio.sleep(self.delay(source, target))

    async def ask(
        self,
        source: int,
        broker: SimBroker,
        handle: Callable[[], Awaitable[Any]],
        seconds: float,
        *,
        may_be_late: bool = True,
        stuck: float = 0.0,
        may_be_stuck: Callable[[], bool] = lambda: True,
    ) -> Any:
        """Sends a request that `broker` serves by `handle` in the process that is running when it arrives; returns the
        result. Raises Lost after `seconds` without a response; the outcome is then unknown. With `may_be_late` the
        request may still arrive later. It is stuck for a long time with the probability `stuck`, and then arrives only
        if `may_be_stuck()` is true.
        """
        answers: list[Any] = []
        answered = trio.Event()

        async def serve() -> None:
            try:
                found = await handle()
                await self.travel(broker.id, source, may_be_lost=True)
            except Lost:
                return
            answers.append(found)
            answered.set()

        with trio.move_on_after(seconds):
            # late requests arrive even if the sender no longer waits
            until = inf if may_be_late else trio.current_time() + seconds
            held = self._held(stuck) if may_be_late else 0.0
            self.world.tasks.start(self._arrive, source, broker, serve, until, held, may_be_stuck)
            await answered.wait()
        if not answers:
            raise Lost
        return answers[0]

    def _held(self, stuck: float) -> float:
        world = self.world
        if not stuck or world.prng.random() >= stuck:
            return 0.0
        world.happened["stuck request"] += 1
        return world.prng.uniform(*STUCK_SECONDS)

    async def _arrive(
        self,
        source: int,
        broker: SimBroker,
        serve: Callable[[], Awaitable[None]],
        until: float,
        held: float,
        may_be_stuck: Callable[[], bool],
    ) -> None:
        if held:
            await trio.sleep(held)
            if not may_be_stuck():
                return
        try:
            await self.travel(source, broker.id, may_be_lost=True)
        except Lost:
            return
        if broker.is_serving and trio.current_time() < until:
            broker.start(serve)

    # --- followers' connections

    @asynccontextmanager
    async def connect(self, source: SimBroker, target_id: int) -> AsyncIterator[Connection]:
        """Opens a connection like `open_node_connection`; a broken connection does not cancel the body. Raises
        ConnectionLost.
        """
        target, serving = self.world.brokers[target_id], False
        with trio.move_on_after(CONNECT_SECONDS) as connecting:
            await self.travel(source.id, target_id)
            serving = target.is_serving
            await self.travel(target_id, source.id)
        if connecting.cancelled_caught or not serving or not target.is_serving:
            raise ConnectionLost("refused, or no answer")
        connection = Connection(self, source, target)
        self.connections.append(connection)
        try:
            target.start(connection.serve)
            target.start(connection.answer)
            yield connection
        finally:
            if connection in self.connections:
                self.connections.remove(connection)
            connection.close(told_after=self.delay(source.id, target_id))

    def process_ended(self, broker: SimBroker, *, power_cut: bool) -> None:
        """Closes an ended process's connections, as the kernel does; a machine without power sends nothing."""
        for connection in list(self.connections):
            if power_cut:
                continue
            if connection.target is broker:
                self.world.after(self.delay(broker.id, connection.source.id), connection.broke)
            elif connection.source is broker:
                connection.close(told_after=self.delay(broker.id, connection.target.id))


class Connection:
    """A follower's connection to a leader, in which requests and responses arrive in order. It implements the part of
    `NodeConnection` that fetchers use.
    """

    def __init__(self, network: Network, source: SimBroker, target: SimBroker) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.is_broken = False
        self.info = ConnectionInfo(
            network.world.next_number(), "PLAINTEXT", ("sim", source.id), ("sim", target.id)
        )
        self._requests, self._to_serve = trio.open_memory_channel[Any](100)
        self._served, self._to_answer = trio.open_memory_channel[Any](100)
        self._broken = trio.Event()

    async def call(self, request: Message, *, timeout: float) -> Any:  # noqa: ASYNC109
        """Sends a request like `NodeConnection.call`. Raises ConnectionLost, RequestTimedOut."""
        if self.is_broken:
            raise ConnectionLost("the connection broke")
        answers: list[Any] = []
        known = trio.Event()
        self.network.world.saw_request(self.source, self.target, request)
        self._requests.send_nowait((request, answers, known))
        with trio.move_on_after(timeout):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_after, self._broken, nursery.cancel_scope)
                await known.wait()
                nursery.cancel_scope.cancel()
        if answers:
            return answers[0]
        if self.is_broken:
            raise ConnectionLost("the connection broke")
        raise RequestTimedOut("no answer")

    async def serve(self) -> None:
        """Handles each request at the leader when it arrives."""
        async for request, answers, known in self._to_serve:
            await self.network.travel(self.source.id, self.target.id)
            version = VERSIONS[type(request).__name__]
            call = Call(RequestHeader(request.KEY, version, 1, "follower"), self.info)
            found = self.target.handle(request, call)
            self._served.send_nowait((request, found, answers, known))
        self._served.close()

    async def answer(self) -> None:
        async for request, found, answers, known in self._to_answer:
            try:
                response = self.target.read_records(await finished(found))
            except Lost:
                self.broke()
                return
            self.network.world.checker.answered(self.target, request, response)
            await self.network.travel(self.target.id, self.source.id)
            answers.append(response)
            known.set()

    def broke(self) -> None:
        """Marks the connection as broken for the follower."""
        self.is_broken = True
        self._broken.set()

    def close(self, *, told_after: float) -> None:
        """Closes the follower's side; the leader is notified after `told_after` seconds."""
        self.is_broken = True
        self._broken.set()
        world, target, life = self.network.world, self.target, self.target.life

        def told() -> None:
            if target.life == life and not self.info.closed:
                self.info.mark_closed()
                self._requests.close()

        world.after(told_after, told)


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
