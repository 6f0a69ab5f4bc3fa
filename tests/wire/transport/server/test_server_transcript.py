"""The connections that a server accepts, closes, and reclaims memory from, after each step of the transcript."""

import ast
import errno
import logging
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.wire.transport.in_order import check_steps, run_in_order
from trimaran.wire.security.listener import PLAINTEXT_LISTENER
from trimaran.wire.transport.connection.limits import ConnectionLimits
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.metrics.rate import Windows
from trimaran.wire.transport.server import server as module
from trimaran.wire.transport.server.connection_quotas import ConnectionBounds, ConnectionQuotas

FILES = sorted((Path(__file__).parent / "testdata" / "server").glob("*.txt"))


class ScriptedListener:
    """A scripted listening socket; `name` and the other attributes are those of `Listener`."""

    security = PLAINTEXT_LISTENER

    def __init__(self, say, name, *, for_nodes):
        self.say, self.name, self.for_nodes = say, name, for_nodes
        self.address = ("127.0.0.1", 9092 + for_nodes)
        self.coming = []
        self.readable = trio.Event()
        self.accepts = self.waits = 0
        self.socket = self

    def setblocking(self, blocking):
        assert blocking is False

    def come(self, answer):
        self.coming.append(answer)
        self.readable.set()

    def accept(self):
        self.accepts += 1
        if not self.coming:
            self.readable = trio.Event()
            raise BlockingIOError
        answer = self.coming.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.say(f"{self.name} no longer listens")


class ScriptedSocket:
    def __init__(self, say, peer, descriptor, local):
        self._say, self.peer, self._descriptor, self._local = say, peer, descriptor, local

    def fileno(self):
        return self._descriptor

    def getsockname(self):
        if self._local == "reset":
            raise OSError("reset")
        return (self._local, 9092)

    def close(self):
        self._say(f"{self.peer[0]} is closed")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class ScriptedConnection:
    """A connection whose `serve` ends when it is aborted or may not continue reading."""

    def __init__(self, scene, endpoint, info, *more):
        service, security, turns = more
        acceptor = scene.acceptor
        assert (service.registry, service.context) == ("registry", "context")
        assert service.limits == scene.limits
        for_nodes = info.listener == "NODES"
        assert info.memory is acceptor._memory[for_nodes]
        assert turns is acceptor._turns[for_nodes]
        assert (service.counters, security) == (acceptor.counters, PLAINTEXT_LISTENER)
        self._scene, self.info = scene, info
        self._scope = trio.CancelScope()
        self._read_no_more = trio.Event()
        self.said, self.moves, self.held, self.received_at = (0, 0, 0), 0, 0, 0.0
        self.shrunk, self.gone, self.lingers = 0, False, False
        scene.say(f"{info} at {info.local[0]}:{info.local[1]} opens over {endpoint.sock.peer}")

    async def serve(self):
        with self._scope:
            await self._read_no_more.wait()
            if self.lingers:
                await trio.sleep_forever()
        self._scene.say(f"{self.info.id} ends")

    def abort(self):
        self._scene.say(f"{self.info.id} is aborted")
        if not self.lingers:
            self._scope.cancel()
        self.is_aborted = True

    is_aborted = False

    @property
    def is_closing(self):
        return self.is_aborted

    def stop_reading(self):
        self._scene.say(f"{self.info.id} reads no more")
        self._read_no_more.set()

    def progress(self):
        return self.said

    def is_abandoned(self):
        return self.gone

    def activity(self):
        return self.moves

    @property
    def core(self):
        return self

    @property
    def share(self):
        return self

    def of(self, pool):
        return self.held if pool is self._scene.pool else 0

    def shrink(self):
        self.shrunk += 1


class Scene:
    def __init__(self, nursery, clock):
        self.nursery, self.clock, self.told = nursery, clock, []
        self.scope = None

    def say(self, text):
        self.told.append(text)

    async def step(self, step):
        for line in (
            line for line in step.source.splitlines() if line and not line.startswith("#")
        ):
            word, *rest = line.split()
            await getattr(self, f"_{word}")(*rest)
            await wait_all_tasks_blocked()
        told, self.told = self.told, []
        counters, quotas = self.acceptor.counters, self.quotas
        counted = " ".join(
            f"{name} {getattr(counters, name)}"
            for name in (
                *("accepted", "closed", "refused", "delayed", "excess_closed"),
                *("idle_closed", "stalled_closed"),
            )
            if getattr(counters, name)
        )
        ids = {
            connection.info.id: f" shrunk {connection.shrunk}" * bool(connection.shrunk)
            for connection in self.acceptor.connections.values()
        }
        open_now = ", ".join(f"{number}{shrunk}" for number, shrunk in ids.items())
        return "\n".join(
            [
                *told,
                f"at {trio.current_time() - self.began:g}: {counted or 'nothing'}; "
                f"open {open_now or 'none'}; clients {quotas.of_listener('CLIENTS')} of "
                f"{quotas.total}; "
                f"accepts {self.clients.accepts} in {self.clients.waits}",
            ]
        )

    async def _open(self, *words):
        """Opens the server; `KEY=NUMBER` sets a limit."""
        if self.scope is not None:
            self.scope.cancel()
            await wait_all_tasks_blocked()
        self.told.clear()
        given = {key: ast.literal_eval(value) for key, value in (word.split("=") for word in words)}
        early = given.pop("early", None)
        bounds = {key: given.pop(key) for key in [*given] if key in BOUNDS}
        if (of_clients := given.pop("of_clients", None)) is not None:
            bounds["of_listeners"] = {"CLIENTS": of_clients}
        defaults = {"idle_seconds": 800.0, "stalled_seconds": 1.0, "descriptors_end": 1000}
        self.limits = ConnectionLimits(**{**defaults, **given})
        self.quotas = ConnectionQuotas(
            ConnectionBounds(**bounds),
            Windows(2, 1),
            None if early is None else lambda ip: early if ip.endswith("9") else 0.0,
        )
        self.clients = ScriptedListener(self.say, "CLIENTS", for_nodes=False)
        self.nodes = ScriptedListener(self.say, "NODES", for_nodes=True)
        self.began = trio.current_time()
        self.scope = trio.CancelScope()
        made = trio.Event()

        def started(acceptor):
            self.acceptor = acceptor
            self.pool = acceptor._memory[False].requests
            made.set()

        async def run():
            with self.scope:
                await module.serve_listener(
                    [self.clients, self.nodes],
                    "registry",
                    "context",
                    limits=self.limits,
                    quotas=self.quotas,
                    task_status=SimpleNamespace(started=started),
                )
                self.say("has ended")

        self.nursery.start_soon(run)
        await made.wait()
        logger = logging.Logger("scripted")
        handler = logging.Handler()
        handler.emit = lambda record: self.say(f"logs {record.getMessage()}")
        logger.addHandler(handler)
        self.acceptor._log = LimitedLog(logger, 0.0)

    async def _comes(self, where, ip, descriptor="9", local="10.0.0.1"):
        listener = {"CLIENTS": self.clients, "NODES": self.nodes}[where]
        peer = (ip, 5000)
        listener.come((ScriptedSocket(self.say, peer, int(descriptor), local), peer))

    async def _crowd(self, count):
        """Opens this number of connections at once."""
        for number in range(int(count)):
            peer = (f"10.1.0.{number}", 5000)
            self.clients.coming.append((ScriptedSocket(self.say, peer, 9, "10.0.0.1"), peer))
        self.clients.readable.set()

    async def _fails(self, name):
        self.clients.come(OSError(getattr(errno, name), name))

    async def _advances(self, seconds):
        self.clock.jump(float(seconds))
        await wait_all_tasks_blocked()

    async def _sweeps(self, count, seconds="100"):
        for _ in range(int(count)):
            await self._advances(seconds)

    async def _sets(self, number, *words):
        one = self.acceptor.connections[int(number)]
        for name, value in (word.split("=") for word in words):
            setattr(one, name, ast.literal_eval(value))

    async def _ends(self, number):
        self.acceptor.connections[int(number)]._scope.cancel()

    async def _fill(self, size):
        self.pool.take(int(size))

    async def _free(self, size):
        self.pool.give_back(int(size))

    async def _wants(self):
        self.nursery.start_soon(self.pool.acquire, 10)

    async def _allows(self, *words):
        bounds = {
            key: ast.literal_eval(value) for key, value in (word.split("=") for word in words)
        }
        self.quotas.change(ConnectionBounds(**bounds))

    async def _drains(self, seconds):
        async def drain():
            await self.acceptor.drain(float(seconds))
            self.say("is drained")

        self.nursery.start_soon(drain)


BOUNDS = {"connections_max", "per_ip_max", "rate"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_connections_are_handled_as_each_transcript_says(path, monkeypatch):
    clock = MockClock()

    async def main():
        async with trio.open_nursery() as nursery:
            scene = Scene(nursery, clock)
            monkeypatch.setattr(
                module, "Connection", lambda *given: ScriptedConnection(scene, *given)
            )
            await check_steps(path, scene.step)
            nursery.cancel_scope.cancel()

    async def wait_readable(listener):
        listener.waits += 1
        await listener.readable.wait()

    monkeypatch.setattr(trio.lowlevel, "wait_readable", wait_readable)
    monkeypatch.setattr(module, "SocketEndpoint", lambda sock: SimpleNamespace(sock=sock))
    run_in_order(main, clock)


def test_mapped_address_is_reported_as_ipv4():
    assert module._ip(("::ffff:10.0.0.1", 5)) == "10.0.0.1"
    assert module._ip(("::1", 5, 0, 0)) == "::1"
    assert math.isfinite(module.BACKLOG)


@pytest.mark.parametrize(
    ("excess", "closing", "expected"),
    [
        (0, [], []),
        (1, [], [4]),
        (2, [], [4, 2]),
        (9, [], [4, 2, 5]),
        (2, [2], [4]),
        (1, [2], []),
        (1, [2, 4], []),
        (3, [2, 3], [4]),
    ],
)
def test_closing_connections_count_for_the_excess(excess, closing, expected):
    """Clients that have been silent the longest are closed; nodes (1 and 3) stay."""
    closed = []
    connections = {
        number: SimpleNamespace(
            is_closing=number in closing,
            info=SimpleNamespace(listener="NODES" if number in (1, 3) else "CLIENTS"),
            received_at=received_at,
            abort=lambda number=number: closed.append(number),
        )
        for number, received_at in ((1, 0), (2, 8), (3, 9), (4, 7), (5, 10))
    }
    acceptor = SimpleNamespace(
        connections=connections,
        counters=SimpleNamespace(excess_closed=0),
        _quotas=SimpleNamespace(excess=excess),
        _protected=frozenset({"NODES"}),
        _log=SimpleNamespace(log=lambda *_event, **_of: None),
    )
    module._Acceptor._close_excess(acceptor)
    assert (closed, acceptor.counters.excess_closed) == (expected, len(expected))
