"""A client of the active controller's socket: as a client, as a broker, and as a broker that forwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.cluster.in_process import Cluster, Images, cluster, connected_to
from tests.cluster.nodes import SECONDS
from tests.cluster.scripted_broker import ScriptedBroker
from trimaran.node.config.security_keys import STANDARD_AUTHORIZER
from trimaran.quorum.controller.server import RunningController
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from trimaran.wire.messages.default_principal_data import DefaultPrincipalData
from trimaran.wire.messages.envelope import EnvelopeRequest
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.schema import Message
from trimaran.wire.transport.client.node_connection import NodeConnection

SUPER_USER = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:ANONYMOUS",
}
NOBODY = SUPER_USER | {"super_users": "User:admin"}
LOCALHOST = b"\x7f\0\0\1"


def principal(name: str = "ANONYMOUS") -> bytes:
    """Returns the principal as a broker encodes it, with the version first."""
    told = DefaultPrincipalData(type="User", name=name, token_authenticated=False)
    return b"\0\0" + told.encode(0)


def envelope(request: Message | bytes, version: int, user: str = "ANONYMOUS") -> EnvelopeRequest:
    is_frame = isinstance(request, bytes)
    data = request if is_frame else bytes(encode_request(request, version, 77, "client"))
    return EnvelopeRequest(
        request_data=data, request_principal=principal(user), client_host_address=LOCALHOST
    )


class ControllerClient:
    """The active controller, with a connection to it."""

    def __init__(
        self, nodes: Cluster, running: RunningController, connection: NodeConnection
    ) -> None:
        self.nodes = nodes
        self.running = running
        self.connection = connection
        self.images = Images(running)

    @property
    def image(self) -> MetadataImage:
        """Returns the committed image; a response is sent after the commit of its content."""
        return self.running.loader.image

    async def call(self, request: Message, version: int | None = None) -> Any:
        return await self.connection.call(request, version=version, timeout=SECONDS)

    async def forwarded(self, request: Message, version: int, user: str) -> Any:
        """Returns the response in the envelope for a user's request to a broker."""
        answer = await self.call(envelope(request, version, user))
        assert answer.error_code == 0
        _, body = decode_response_header(answer.response_data, request.KEY, version)
        return RESPONSES[request.KEY].decode(answer.response_data[body:], version)

    async def join(self, *ids: int) -> list[ScriptedBroker]:
        brokers = [self.nodes.scripted_broker(self.connection, id_) for id_ in ids]
        for broker in brokers:
            await broker.join()
        return brokers

    async def create(self, name: str, *replicas: list[int]) -> Any:
        """Creates a topic with partitions of these replicas, the preferred leader first."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                for index, brokers in enumerate(replicas)
            ],
            configs=[],
        )
        (created,) = (await self.call(CreateTopicsRequest(topics=[topic]))).topics
        assert created.error_code == 0
        return self.image.topics.by_name[name]

    def partition(self, name: str = "t", index: int = 0) -> Any:
        return self.image.topics.by_name[name].partitions[index]


@asynccontextmanager
async def controller_client(
    path: Path, size: int = 1, **keys: object
) -> AsyncIterator[ControllerClient]:
    """Starts a controller and connects to it. `keys` are the controllers' configuration, with underscores for dots."""
    async with cluster(path, controllers=size, brokers=0, **keys) as nodes:
        running = await nodes.active()
        async with connected_to(running) as connection:
            yield ControllerClient(nodes, running, connection)


@asynccontextmanager
async def standby_client(path: Path) -> AsyncIterator[ControllerClient]:
    """Starts three controllers and connects to one that is not active."""
    async with cluster(path, controllers=3, brokers=0) as nodes:
        active = await nodes.active()
        running = next(
            controller for controller in nodes.controllers.values() if controller is not active
        )
        async with connected_to(running) as connection:
            yield ControllerClient(nodes, running, connection)
