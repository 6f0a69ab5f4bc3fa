"""Real controllers and brokers in this process, over sockets and disks."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import trio

from tests.cluster.nodes import CLUSTER_ID, SECONDS, dotted, server_config
from tests.cluster.scripted_broker import ScriptedBroker
from trimaran.broker.process.server import RunningBroker, run_broker
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.quorum.controller.server import RunningController, run_controller
from trimaran.quorum.formatting.storage import format_directories
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.records.security import UserScramCredentialRecord
from trimaran.wire.transport.client.node_connection import NodeConnection, open_node_connection

# A run that passes never waits this long, however busy the machine is.
START_SECONDS = STOP_SECONDS = SEEN_SECONDS = 60


class Cluster:
    """Nodes by id, which can be started and stopped in any order; a controller keeps its port.

    `settings` are configuration keys of all nodes, `users` are the initial SCRAM users.
    """

    def __init__(
        self,
        path: Path,
        nursery: trio.Nursery,
        settings: dict[str, str],
        users: Sequence[UserScramCredentialRecord] = (),
    ) -> None:
        self.users = users
        self.path = path
        self.nursery = nursery
        self.settings = settings
        self._ports: dict[int, socket.socket] = {}
        self.voters: dict[int, int] = {}
        self.scopes: dict[int, trio.CancelScope] = {}
        self.ended: dict[int, trio.Event] = {}
        self.brokers: dict[int, RunningBroker] = {}
        self.controllers: dict[int, RunningController] = {}
        self.failures: dict[int, Exception] = {}
        self._scripted: list[ScriptedBroker] = []

    def config(self, node_id: int, **settings: str) -> ServerConfig:
        base = {
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": ",".join(
                f"{voter}@127.0.0.1:{port}" for voter, port in self.voters.items()
            ),
            "log.dirs": str(self.path / str(node_id)),
            **self.settings,
            **settings,
        }
        return server_config(base)

    async def start_controllers(self, *node_ids: int) -> None:
        self._ports = {node_id: reserve() for node_id in node_ids}
        self.voters = {node_id: port_of(sock) for node_id, sock in self._ports.items()}
        await self.restart_controllers()

    async def restart_controllers(self) -> None:
        """Restarts all controllers at their addresses."""
        async with trio.open_nursery() as nursery:
            for node_id in self.voters:
                nursery.start_soon(self.start_controller, node_id)

    def controller_config(self, node_id: int) -> ServerConfig:
        return self.config(
            node_id,
            **{
                "process.roles": "controller",
                "listeners": f"CONTROLLER://127.0.0.1:{self.voters[node_id]}",
            },
        )

    async def start_controller(self, node_id: int) -> RunningController:
        """Starts the controller, at its former address if it ran before."""
        config = self.controller_config(node_id)
        running: RunningController = await self._start(run_controller, config)
        self.controllers[node_id] = running
        return running

    async def active(self) -> RunningController:
        """Returns the active controller, once its bootstrap is committed."""
        with trio.fail_after(SECONDS):
            while True:
                for running in self.controllers.values():
                    controller = running.context.controller
                    if controller.is_active and running.loader.image.features.metadata_version:
                        return running
                await trio.sleep(0.005)

    def scripted_broker(
        self, connection: NodeConnection, broker_id: int, *, incarnation: int = 0
    ) -> ScriptedBroker:
        """Returns a broker that has not registered yet; it stops listening when the block ends."""
        self._scripted.append(ScriptedBroker(connection, broker_id, incarnation=incarnation))
        return self._scripted[-1]

    def close(self) -> None:
        """Releases the ports."""
        for port in self._ports.values():
            port.close()
        for broker in self._scripted:
            broker.socket.close()

    async def start_broker(
        self, node_id: int, *, expect_failure: bool = False, **settings: str
    ) -> RunningBroker:
        """Starts a broker; with `expect_failure` an error that ends it is kept in `failures`."""
        config = self.config(
            node_id,
            **{
                "process.roles": "broker",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                **dotted(settings),
            },
        )
        running: RunningBroker = await self._start(run_broker, config, expect_failure)
        self.brokers[node_id] = running
        return running

    async def _start(self, role: Any, config: ServerConfig, expect_failure: bool = False) -> Any:
        format_directories(config, CLUSTER_ID, ignore_formatted=True, users=self.users)
        node_id = config.node_id
        scope = self.scopes[node_id] = trio.CancelScope()
        ended = self.ended[node_id] = trio.Event()

        async def run(*, task_status: Any) -> None:
            try:
                with scope:
                    await role(config, task_status=task_status)
            except Exception as error:
                if not expect_failure:
                    raise
                self.failures[node_id] = error
            finally:
                ended.set()

        return await self.nursery.start(run)

    async def stop(self, node_id: int) -> None:
        """Stops the node as SIGTERM does, and returns when it has ended."""
        self.scopes[node_id].cancel()
        with trio.fail_after(STOP_SECONDS):
            await self.ended[node_id].wait()
        self.controllers.pop(node_id, None)

    async def seen(
        self, predicate: Callable[[MetadataImage], object], broker_id: int = 11
    ) -> MetadataImage:
        """Waits until a broker's image satisfies the predicate; every change of its inputs must come with an image."""
        with trio.fail_after(SEEN_SECONDS):
            return await self.brokers[broker_id].parts.metadata.wait_for(predicate)

    @property
    def bootstrap(self) -> str:
        return ",".join(
            f"127.0.0.1:{broker.addresses['PLAINTEXT'][1]}" for broker in self.brokers.values()
        )


@asynccontextmanager
async def cluster(
    path: Path,
    *,
    controllers: int = 1,
    brokers: int = 1,
    users: Sequence[UserScramCredentialRecord] = (),
    **settings: object,
) -> AsyncIterator[Cluster]:
    """Runs controllers 1…n and brokers 11…m; `settings` are configuration keys of all nodes, with underscores for
    dots.
    """
    async with trio.open_nursery() as nursery:
        with closing(Cluster(path, nursery, dotted(settings), users)) as started:
            with trio.fail_after(START_SECONDS):
                await started.start_controllers(*range(1, controllers + 1))
                async with trio.open_nursery() as starting:
                    for node_id in range(11, 11 + brokers):
                        starting.start_soon(started.start_broker, node_id)
            yield started
            for broker_id in sorted(started.brokers):
                if not started.ended[broker_id].is_set():
                    await started.stop(broker_id)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected_to(running: RunningBroker | RunningController) -> AsyncIterator[NodeConnection]:
    """Opens a connection to a node, at its only listener unless the test configured others."""
    listener = "CONTROLLER" if "CONTROLLER" in running.addresses else "PLAINTEXT"
    async with open_node_connection(*running.addresses[listener]) as connection:
        yield connection


class Images:
    """Waits for states of a controller's committed image; there is one object for each loader."""

    def __init__(self, running: RunningController) -> None:
        self._loader = running.loader
        self._changed = trio.Event()
        running.loader.add_publisher(self)

    def publish(self, _delta: object, _image: object, _manifest: object) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def wait_for(self, predicate: Callable[[MetadataImage], object]) -> MetadataImage:
        with trio.fail_after(SECONDS):
            while not predicate(self._loader.image):
                await self._changed.wait()
        return self._loader.image
