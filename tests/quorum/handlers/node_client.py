"""Requests to a node of the quorum: to the handler alone, or over a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from tests.cluster.quorum_nodes import Member, QuorumNodes, quorum_nodes
from tests.quorum.test_dynamic_node import PATIENT, DynamicCluster
from trimaran.wire.errors import KafkaError
from trimaran.wire.schema import Message
from trimaran.wire.transport.client.node_connection import NodeConnection, open_node_connection
from trimaran.wire.transport.requests.error_responses import general_error

SECONDS = 60.0
LEADER = 1


def _unasked(_request: object) -> None:
    raise AssertionError("a malformed request must not reach the core")


def refusal(handler: Any, request: Message, version: int = 2) -> Any:
    """Returns the error response to a request that the handler refuses before it reaches the core."""
    context = SimpleNamespace(node=SimpleNamespace(handle=_unasked))
    call = SimpleNamespace(header=SimpleNamespace(api_version=version))
    with pytest.raises(KafkaError) as refused:
        handler(request, context, call)
    general = general_error(type(request))
    assert general is not None
    return general.build(refused.value.code, refused.value.message)


class NodeClient:
    """The only voter of a quorum, which leads it, and a connection to it."""

    def __init__(self, cluster: QuorumNodes, member: Member, connection: NodeConnection) -> None:
        self.cluster = cluster
        self.member = member
        self.connection = connection

    @property
    def epoch(self) -> int:
        return self.member.node.leader.value.epoch

    async def call(self, request: Message, version: int | None = None) -> Any:
        return await self.connection.call(request, version=version, timeout=SECONDS)


@asynccontextmanager
async def leader_client(path: Path) -> AsyncIterator[NodeClient]:
    """Starts a quorum of static voters; one topic is committed."""
    async with quorum_nodes(path, 1) as cluster:
        async with _led(cluster) as one:
            yield one


@asynccontextmanager
async def dynamic_leader_client(path: Path) -> AsyncIterator[NodeClient]:
    """Starts a quorum whose voters may change (KIP-853)."""
    async with trio.open_nursery() as nursery:
        cluster = DynamicCluster(path, nursery, 1, PATIENT)
        try:
            async with _led(cluster) as one:
                yield one
        finally:
            cluster.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _led(cluster: QuorumNodes) -> AsyncIterator[NodeClient]:
    with trio.fail_after(SECONDS):
        member = await cluster.start(LEADER)
        await cluster.propose("a")
    peer = cluster.voters[LEADER]
    async with open_node_connection(peer.host, peer.port) as connection:
        yield NodeClient(cluster, member, connection)
