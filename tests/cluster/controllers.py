"""Real controllers over sockets in this process, and brokers made of requests."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import trio

from quorum.controller.server import RunningController
from quorum.metadata.features import REGISTERED_FEATURES
from quorum.metadata.image import MetadataImage
from tests.cluster.in_process import CLUSTER_ID, Cluster
from tests.quorum.metadata.build import uid
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from wire.transport.node_connection import NodeConnection, open_node_connection

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


class Controllers(Cluster):
    """Voters 1…n, and brokers that are made of requests."""

    def __init__(self, path: Path, nursery: trio.Nursery, settings: dict[str, str]) -> None:
        super().__init__(path, nursery, settings)
        self._brokers: list[Broker] = []

    @property
    def running(self) -> dict[int, RunningController]:
        return self.controllers

    def broker(self, connection: NodeConnection, broker_id: int, *, incarnation: int = 0) -> Broker:
        """One that has not registered yet; it stops listening with the block at the latest."""
        self._brokers.append(Broker(connection, broker_id, incarnation=incarnation))
        return self._brokers[-1]

    async def active(self) -> RunningController:
        """The active controller, once its bootstrap is committed."""
        with trio.fail_after(SECONDS):
            while True:
                for running in self.controllers.values():
                    controller = running.context.controller
                    if controller.is_active and running.loader.image.features.metadata_version:
                        return running
                await trio.sleep(0.005)

    def close(self) -> None:
        super().close()
        for broker in self._brokers:
            broker.socket.close()


def _listen(address: tuple[str, int]) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(address)
    found.listen()
    found.setblocking(False)
    return found


@asynccontextmanager
async def open_controllers(path: Path, size: int = 1, **keys: object) -> AsyncIterator[Controllers]:
    """Running controllers; `keys` are configuration, with underscores for dots."""
    settings = {key.replace("_", "."): str(value) for key, value in keys.items()}
    async with trio.open_nursery() as nursery:
        with closing(Controllers(path, nursery, settings)) as controllers:
            await controllers.start_controllers(*range(1, size + 1))
            yield controllers
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
