"""Follows a KRaft quorum over the wire and keeps nothing on disk: the mirror's only source of truth.

It fetches as an invisible observer (node id -1), so it takes no part in elections and needs no registration. It works
with our own controllers and those of Apache Kafka 3.9 and 4.x. It requests the cluster id first, since an observer must
name it. It supports all security settings of Kafka's clients.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.types import Identity, Peer
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.replica.node import NodeSettings, QuorumNode
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.identity import NO_NODE, NO_OFFSET, Address, NodeId, Offset
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.transport.client.node_connection import open_node_connection
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.tree.claim import QuorumLeader

log = logging.getLogger(__name__)

CLIENT_ID = "zk-mirror"
REQUEST_SECONDS = 5.0
RETRY_SECONDS, RETRY_SECONDS_MAX = 0.2, 5.0
CONTROLLERS = 2  # DescribeCluster's endpoint type


class QuorumUnreachableError(Exception):
    """No controller of the bootstrap list returned its cluster id within the time limit."""


def parse_controllers(text: str) -> list[Address]:
    """Parses `HOST:PORT,HOST:PORT`. The text of a ValueError names the invalid part."""
    try:
        return parse_bootstrap(text)
    except ValueError as error:
        raise ValueError(f"{error}: HOST:PORT of a controller is expected") from None


async def find_cluster_id(
    bootstrap: Sequence[Address],
    time_limit_seconds: float,
    security: ClientSecurity = PLAINTEXT,
) -> str:
    """Queries the controllers until one responds, with a growing back-off.

    Raises:
        QuorumUnreachableError: no controller responded within the limit. AuthenticationRefused: a controller refuses
        our credentials.
    """
    problem = "no answer"
    backoff = ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
    with trio.move_on_after(time_limit_seconds):
        while True:
            for host, port in bootstrap:
                try:
                    return await _ask_cluster_id(host, port, security)
                except AuthenticationRefused as error:
                    raise AuthenticationRefused(f"{Address(host, port)}: {error}") from error
                except (
                    ConnectionLost,
                    RequestTimedOut,
                    VersionMismatch,
                    RemoteProtocolError,
                ) as error:
                    problem = f"{Address(host, port)}: {error}"
            await trio.sleep(backoff.failed())
    raise QuorumUnreachableError(f"no controller answers ({problem})")


async def _ask_cluster_id(host: str, port: int, security: ClientSecurity) -> str:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
    )
    async with open_node_connection(
        host, port, client_id=CLIENT_ID, timeout=REQUEST_SECONDS, security=security
    ) as line:
        response = await line.call(request, timeout=REQUEST_SECONDS)
    if response.error_code != ErrorCode.NONE:
        raise RemoteProtocolError(
            f"DescribeCluster: {response.error_message or response.error_code}"
        )
    return str(response.cluster_id)


@asynccontextmanager
async def open_observer(
    cluster_id: str,
    bootstrap: Sequence[Address],
    security: ClientSecurity = PLAINTEXT,
    *,
    keep_until: Offset = NO_OFFSET,
) -> AsyncIterator[ImageFeed]:
    """Yields a feed that follows the quorum; it keeps the image at the offset `keep_until`."""
    feed = ImageFeed(kept_until=keep_until)
    # Ids below -1 denote addresses whose node id is not known yet.
    peers = tuple(
        Peer(NodeId(-2 - number), host, port) for number, (host, port) in enumerate(bootstrap)
    )
    identity = Identity(node_id=NO_NODE, cluster_id=cluster_id, bootstrap=peers)
    settings = NodeSettings(identity, client_id=CLIENT_ID, security=security)
    node = QuorumNode(settings, MemoryLog(), MetadataLoader([feed]))
    feed.leader_address = lambda: leader_address(node)
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        nursery.start_soon(tell_leaders, node, feed)
        nursery.start_soon(tell_caught_up, node, feed)
        yield feed
        nursery.cancel_scope.cancel()


def leader_address(node: QuorumNode) -> Address | None:
    """Returns the address of the quorum's leader as the node knows it."""
    peer = node.leader_address
    return None if peer is None else Address(peer.host, peer.port)


async def tell_leaders(node: QuorumNode, feed: ImageFeed) -> None:
    """Keeps `feed` informed of the leader until cancelled."""
    seen = node.leader.value
    while True:
        if seen.leader_id is not None:
            feed.lead_by(QuorumLeader(seen.leader_id, seen.epoch))
        seen = await node.leader.wait_not(seen)


async def tell_caught_up(node: QuorumNode, feed: ImageFeed) -> None:
    """Marks `feed` as ready once it has all records that were committed when a leader first responded."""
    await node.wait_caught_up()
    feed.caught_up()
