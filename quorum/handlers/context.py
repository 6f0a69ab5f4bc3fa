"""The context of the quorum's handlers: the part of a controller's context with its node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import Peer
from trimaran.quorum.replica.node import QuorumNode
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Handling, Wait

A = TypeVar("A", bound=core.Response)
R = TypeVar("R", bound=Message)


class QuorumContext(Protocol):
    """The part of a handler context that the handlers of this package use."""

    @property
    def node(self) -> QuorumNode: ...


def core_response(
    ctx: QuorumContext,
    call: Call,
    request: core.Request,
    response_class: type[A],
    write: Callable[[A, int], R],
) -> Handling[R]:
    """Passes the request to the core in the first step; returns the response that `write` creates from the core's
    response.
    """
    pending = ctx.node.handle(request)
    found = yield Wait(pending.wait, pending.ready)
    assert isinstance(found, response_class)
    leader = _reachable(found.leader, ctx.node, call.connection.listener)
    if leader is not found.leader:
        found = replace(found, leader=leader)
    return write(found, call.header.api_version)


def _reachable(leader: Peer | None, node: QuorumNode, listener: str) -> Peer | None:
    """Returns the leader's address on the listener of the request; None if it has no such listener, or no leader is
    known.

    Source: `LeaderAndEpoch` and `Endpoints.address` in Kafka's KafkaRaftClient.
    """
    identity = node.settings.identity
    listener = listener.upper()
    if leader is None or listener == identity.listener or not identity.listener:
        return leader
    if leader.id == identity.node_id:
        endpoints = identity.endpoints
    else:
        voter = node.voters.get(leader.id)
        endpoints = voter.endpoints if voter is not None else ()
    named = (endpoint for endpoint in endpoints if endpoint.name.upper() == listener)
    return next((Peer(leader.id, endpoint.host, endpoint.port) for endpoint in named), None)
