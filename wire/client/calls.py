"""A call to the responsible node, including finding that node and retrying: a generator that does no I/O.

The generator yields actions for its shell and receives their results; the trio client and the blocking client drive the
same generator. Deadlines belong to the shell, which closes the generator when one has passed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.destinations import AnyNode, CoordinatorNode, Destination, LeaderNode
from trimaran.wire.client.errors import ConnectionLost, ConnectRefused
from trimaran.wire.client.routing import Routing
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Address
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest
from trimaran.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.schema import Message


@dataclass(frozen=True, slots=True)
class Ask:
    """The action of sending `request` to `address`; the shell sends the response to the generator, or throws
    ConnectionLost.
    """

    address: Address
    request: Message
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """The action of waiting; `because` is the error that causes it."""

    seconds: float
    because: Exception


Step = Ask | Pause
Steps = Generator[Step, Any, Any]

# Errors of a request that went to the wrong node, or to the right one too early. The caller handles all other errors.
RETRIED: frozenset[int] = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

# Requests whose responses report faults as data: partitions without a leader, offline log directories.
_DESCRIBING = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_LOG_DIRS})

# The highest version of FindCoordinator with a single key; for several see `trimaran.wire.client.coordinators`.
_ONE_COORDINATOR_VERSION = 3


def routed_call(
    routing: Routing,
    request: Message,
    destination: Destination,
    backoff: ExponentialBackoff,
    *,
    version: int | None = None,
    retry_unknown: bool = True,
    retried: frozenset[int] = RETRIED,
) -> Steps:
    """Sends the request until there is a response without an error of `retried`, and returns it.

    With `retry_unknown` it also retries when a connection broke after the request was sent, although the request may
    have been executed; this is wrong for requests that are not idempotent.

    Raises:
        KafkaError: no node can name the responsible node.
    """
    while True:
        address = yield from _find(routing, destination, backoff)
        try:
            response = yield Ask(address, request, version)
        except ConnectionLost as error:
            _lost(routing, destination, address)
            if not retry_unknown and not isinstance(error, ConnectRefused):
                raise
            yield Pause(backoff.failed(), error)
            continue
        code = _retried_error(request, response, retried)
        if code is None:
            backoff.succeeded()
            return response
        routing.forget(destination)
        yield Pause(backoff.failed(), KafkaError(code))


def refresh(routing: Routing, topics: list[str] | None, backoff: ExponentialBackoff) -> Steps:
    """Requests nodes, controller and (on brokers) `topics` from one node; None requests all. Returns the response."""
    while True:
        address = routing.bootstrap.current
        try:
            return (yield from _refresh_once(routing, address, topics))
        except ConnectionLost as error:
            _lost(routing, AnyNode(), address)
            yield Pause(backoff.failed(), error)


def _find(routing: Routing, destination: Destination, backoff: ExponentialBackoff) -> Steps:
    """Returns the address of `destination`, requesting it if it is not known."""
    while (address := routing.locate(destination)) is None:
        failure: Exception = KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE, f"{destination} is not known"
        )
        source = routing.bootstrap.current
        try:
            if isinstance(destination, CoordinatorNode):
                yield from _ask_coordinator(routing, source, destination)
            else:
                topics = (
                    [destination.partition.topic] if isinstance(destination, LeaderNode) else []
                )
                yield from _refresh_once(routing, source, topics)
        except ConnectionLost as error:
            _lost(routing, AnyNode(), source)
            failure = error
        if routing.locate(destination) is None:
            yield Pause(backoff.failed(), failure)
    return address


def _refresh_once(routing: Routing, address: Address, topics: list[str] | None) -> Steps:
    if routing.of_controllers:
        response = yield Ask(
            address,
            DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2),
        )
        routing.update_cluster(response)
        return response
    named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    response = yield Ask(address, MetadataRequest(topics=named, allow_auto_topic_creation=False))
    routing.update_metadata(response)
    return response


def _ask_coordinator(routing: Routing, address: Address, wanted: CoordinatorNode) -> Steps:
    """Requests the coordinator. Raises KafkaError: retries cannot help, for example if an ACL is missing."""
    request = FindCoordinatorRequest(key=wanted.key, key_type=wanted.key_type)
    response = yield Ask(address, request, _ONE_COORDINATOR_VERSION)
    learn_coordinator(routing, wanted, response)


def learn_coordinator(
    routing: Routing, wanted: CoordinatorNode, found: FindCoordinatorResponse | Coordinator
) -> None:
    """Updates the route to a coordinator. Raises KafkaError: retries cannot help, for example if an ACL is missing."""
    routing.update_coordinator(wanted, found)
    if found.error_code and found.error_code not in RETRIED:
        error = KafkaError(ErrorCode.of(found.error_code), found.error_message or "")
        raise KafkaError(error.code, wanted.subject) if error.is_bare else error


def _lost(routing: Routing, destination: Destination, address: Address) -> None:
    routing.bootstrap.failed(address)
    if not isinstance(destination, AnyNode):
        routing.forget(destination)


def _retried_error(
    request: Message, response: Message, retried: frozenset[int]
) -> ErrorCode | None:
    if request.KEY in _DESCRIBING:
        return None
    return next((ErrorCode.of(code) for code in error_codes(response) if code in retried), None)


def error_codes(message: Struct) -> Iterator[int]:
    """Yields every `error_code` (or `partition_error_code`) other than zero in a message, at any depth."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name.endswith("error_code"):
            if value:
                yield value
        elif isinstance(value, Struct):
            yield from error_codes(value)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for item in value:
                yield from error_codes(item)
