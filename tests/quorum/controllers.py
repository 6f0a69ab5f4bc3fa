"""Real controllers over real sockets in one process, and a broker made of requests."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from node.runtime.ports import HOST, port_of, reserve
from quorum.controller.server import RunningController, run_controller
from quorum.formatting.storage import format_directories
from quorum.metadata.features import REGISTERED_FEATURES
from quorum.metadata.image import MetadataImage
from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import uid
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from wire.transport.node_connection import NodeConnection, open_node_connection

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
SECONDS = 10.0


class Images:
    """Waits for what the committed image says; one for each loader."""

    def __init__(self, running: RunningController) -> None:
        self._loader = running.loader
        self._changed = trio.Event()
        running.loader.add_publisher(self)

    def publish(self, _delta, _image, _manifest) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def wait_for(self, predicate) -> MetadataImage:
        with trio.fail_after(SECONDS):
            while not predicate(self._loader.image):
                await self._changed.wait()
        return self._loader.image


class Controllers:
    """Voters 1…n; a node keeps its address over restarts."""

    def __init__(
        self, root: Path, nursery: trio.Nursery, size: int, keys: dict[str, object]
    ) -> None:
        self._root = root
        self._nursery = nursery
        self._keys = keys
        self._ports = {i: reserve() for i in range(1, size + 1)}
        self.addresses = {i: (HOST, port_of(one)) for i, one in self._ports.items()}
        self._sockets = {i: _listen(address) for i, address in self.addresses.items()}
        self.running: dict[int, RunningController] = {}
        self.scopes: dict[int, trio.CancelScope] = {}
        self._gone: dict[int, trio.Event] = {}
        self._brokers: list[Broker] = []

    def broker(self, connection: NodeConnection, broker_id: int, *, incarnation: int = 0) -> Broker:
        """One that has not registered yet; it stops listening with the block at the latest."""
        self._brokers.append(Broker(connection, broker_id, incarnation=incarnation))
        return self._brokers[-1]

    def config(self, node_id: int):
        voters = ",".join(f"{i}@{host}:{port}" for i, (host, port) in self.addresses.items())
        return config_of(
            node_id=node_id,
            log_dirs=self._root / f"controller-{node_id}",
            listeners=f"CONTROLLER://127.0.0.1:{self.addresses[node_id][1]}",
            controller_quorum_voters=voters,
            **self._keys,
        )

    async def start(self, node_id: int) -> RunningController:
        config = self.config(node_id)
        format_directories(config, CLUSTER_ID, ignore_formatted=True)
        self._gone[node_id] = trio.Event()
        running: RunningController = await self._nursery.start(self._run, node_id, config)
        self.running[node_id] = running
        return running

    async def _run(self, node_id, config, *, task_status) -> None:
        listening = self._sockets.pop(node_id, None) or _listen(self.addresses[node_id])
        try:
            with trio.CancelScope() as self.scopes[node_id]:
                await run_controller(
                    config, sockets={"CONTROLLER": listening}, task_status=task_status
                )
        finally:
            self._gone[node_id].set()

    async def stop(self, node_id: int) -> None:
        self.scopes[node_id].cancel()
        with trio.fail_after(SECONDS):
            await self._gone[node_id].wait()
        self.running.pop(node_id, None)

    async def active(self) -> RunningController:
        """The active controller, once its bootstrap is committed."""
        with trio.fail_after(SECONDS):
            while True:
                for running in self.running.values():
                    controller = running.context.controller
                    if controller.is_active and running.loader.image.features.metadata_version:
                        return running
                await trio.sleep(0.005)

    def close(self) -> None:
        brokers = (broker.socket for broker in self._brokers)
        for one in (*self._sockets.values(), *self._ports.values(), *brokers):
            one.close()


def _listen(address) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(address)
    found.listen()
    found.setblocking(False)
    return found


@asynccontextmanager
async def open_controllers(root: Path, size: int = 1, **keys: object) -> AsyncIterator[Controllers]:
    """Running controllers; `keys` are configuration, with underscores for dots."""
    async with trio.open_nursery() as nursery:
        controllers = Controllers(root, nursery, size, keys)
        try:
            for node_id in range(1, size + 1):
                await controllers.start(node_id)
            yield controllers
        finally:
            controllers.close()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected_to(running: RunningController) -> AsyncIterator[NodeConnection]:
    async with open_node_connection(*running.addresses["CONTROLLER"]) as connection:
        yield connection


class Broker:
    """One incarnation of a broker as the controller sees it; `socket` is where it says it listens."""

    def __init__(
        self,
        connection: NodeConnection,
        broker_id: int,
        *,
        incarnation: int = 0,
        at: int | None = None,
    ) -> None:
        self.connection = connection
        self.id = broker_id
        self.epoch = -1
        self.incarnation_id = uid(10_000 * (incarnation + 1) + broker_id)
        self.socket = _listen(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    async def register(self, **changes) -> int:
        """The error code."""
        values = {
            "broker_id": self.id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self.incarnation_id,
            "listeners": [
                Listener(name="PLAINTEXT", host="127.0.0.1", port=self.port, security_protocol=0)
            ],
            "features": [
                Feature(
                    name=one.name,
                    min_supported_version=one.min_level,
                    max_supported_version=one.max_level,
                )
                for one in REGISTERED_FEATURES
            ],
            "rack": None,
            "log_dirs": [uid(500 + self.id)],
        }
        response: BrokerRegistrationResponse = await self.connection.call(
            BrokerRegistrationRequest(**(values | changes)), timeout=SECONDS
        )
        self.epoch = response.broker_epoch if not response.error_code else self.epoch
        return response.error_code

    async def beat(self, **wishes) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=wishes.pop("offset", 1 << 40),
            want_fence=wishes.pop("want_fence", False),
            want_shut_down=wishes.pop("want_shut_down", False),
        )
        return await self.connection.call(request, timeout=SECONDS)

    async def join(self) -> None:
        assert await self.register() == 0
        answer = await self.beat()
        assert (answer.error_code, answer.is_fenced) == (0, False)
