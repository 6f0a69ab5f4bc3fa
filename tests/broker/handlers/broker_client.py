"""Clients of a broker: of a real one with controllers behind it, or of one whose controller refuses to decide."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from tests.broker.calls import connection
from tests.cluster.data_side import open_harness, replaced
from tests.cluster.in_process import Cluster, cluster, connected_to
from trimaran.broker.channels.forwarding import Forwarder
from trimaran.broker.handlers.registry import broker_registry
from trimaran.broker.process.server import RunningBroker
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.messages.envelope import EnvelopeResponse
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.schema import Message
from trimaran.wire.transport.client.node_connection import NodeConnection

SECONDS = 60.0
AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


class BrokerClient:
    """One broker of a cluster, and a connection to it."""

    def __init__(self, cluster: Cluster, broker: RunningBroker, connection: NodeConnection) -> None:
        self.cluster = cluster
        self.broker = broker
        self.connection = connection

    @property
    def image(self) -> MetadataImage:
        return self.broker.parts.metadata.image

    async def call(self, request: Message, version: int | None = None) -> Any:
        return await self.connection.call(request, version=version, timeout=SECONDS)

    async def seen(self, predicate: Any) -> None:
        """Waits until the broker has replicated what the controller has committed."""
        await self.cluster.seen(predicate, self.broker.node_id)

    async def create(self, *names: str, partitions: int = 1, replicas: int = 1) -> None:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replicas,
                assignments=[],
                configs=[],
            )
            for name in names
        ]
        answer = await self.call(CreateTopicsRequest(topics=topics))
        assert [topic.error_code for topic in answer.topics] == [0] * len(names)

    async def delete(self, name: str) -> None:
        """Returns when this broker has applied the deletion."""
        await self.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), 5)
        await self.seen(lambda image: name not in image.topics.by_name)

    async def create_at(self, name: str, *replicas: list[int]) -> None:
        """Creates a topic whose partitions have these replicas, the preferred leader first."""
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
        answer = await self.call(CreateTopicsRequest(topics=[topic]))
        assert [topic.error_code for topic in answer.topics] == [0]


@asynccontextmanager
async def broker_client(
    path: Path, *, brokers: int = 1, **settings: str
) -> AsyncIterator[BrokerClient]:
    """Opens a cluster; `settings` apply to all nodes, with underscores for dots."""
    async with cluster(path, brokers=brokers, **settings) as running:
        broker = running.brokers[min(running.brokers)]
        async with connected_to(broker) as connection:
            yield BrokerClient(running, broker, connection)


class Refusing:
    """A channel to a controller that refuses our envelopes."""

    async def call(self, _request: Message, *, timeout: float) -> EnvelopeResponse:  # noqa: ASYNC109
        del timeout
        await trio.lowlevel.checkpoint()
        return EnvelopeResponse(
            response_data=None, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )


async def refusal_by_controller(path: Path, request: Message, version: int) -> Any:
    """Returns the response on the wire when the controller refuses the envelope with CLUSTER_AUTHORIZATION_FAILED."""
    harness = open_harness(path)
    channel: Any = Refusing()
    context = replaced(harness.contexts, forwarder=Forwarder(channel, SECONDS))
    frame = memoryview(bytearray(encode_request(request, version, 7, "test")))
    answer: Any = broker_registry().dispatch(frame, context, connection())
    data = bytes(await answer.finish() if hasattr(answer, "finish") else answer)
    harness.directory.close(broker_epoch=None)
    _, body = decode_response_header(data, request.KEY, version)
    return RESPONSES[request.KEY].decode(data[body:], version)
