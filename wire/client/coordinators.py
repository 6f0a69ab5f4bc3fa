"""Calls about many groups or transactional ids: one request finds the coordinators of all of them (KIP-699), and each
coordinator gets one request with the keys that it is responsible for. Generators without I/O, as in
`trimaran.wire.client.calls`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.calls import RETRIED, Ask, Pause, Steps, learn_coordinator
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import ConnectionLost
from trimaran.wire.client.routing import Routing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Address
from trimaran.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest

# The maximum number of keys of one request: with ids of a hundred bytes it has 100 KB.
KEYS_MAX = 1000
# The first version of FindCoordinator with several keys.
_MANY_COORDINATORS_VERSION = 4
TRANSACTION = 1  # the type of a key that is a transactional id


def find_coordinators(
    routing: Routing, wanted: Sequence[CoordinatorNode], backoff: ExponentialBackoff
) -> Steps:
    """Finds the coordinators of keys of one type, unless they are known.

    Raises:
        KafkaError: this user may not look up one of them.
    """
    for some in _pieces(wanted):
        yield from _find_piece(routing, some, backoff)


def describe_transactions(
    routing: Routing,
    transactional_ids: Sequence[str],
    backoff: ExponentialBackoff,
    *,
    retried: frozenset[int] = RETRIED,
) -> Steps:
    """Requests each transaction from its coordinator, and repeats requests that fail with an error in `retried`.
    Returns a `TransactionState` by id.

    Raises:
        KafkaError: this user may not look up one of the coordinators.
    """
    answers: dict[str, TransactionState] = {}
    wanted = [CoordinatorNode(name, TRANSACTION) for name in dict.fromkeys(transactional_ids)]
    for some in _pieces(wanted):
        left: Sequence[CoordinatorNode] = some
        while left:
            yield from _find_piece(routing, left, backoff)
            failure: Exception = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            for address, nodes in _by_address(routing, left).items():
                request = DescribeTransactionsRequest(transactional_ids=[n.key for n in nodes])
                found: dict[str, TransactionState] = {}
                try:
                    response = yield Ask(address, request)
                    found = {state.transactional_id: state for state in response.transaction_states}
                except ConnectionLost as error:
                    routing.bootstrap.failed(address)
                    failure = error
                for node in nodes:
                    answer = found.get(node.key)
                    if answer is not None and answer.error_code not in retried:
                        answers[node.key] = answer
                        continue
                    routing.forget(node)
                    if answer is not None:
                        failure = KafkaError(ErrorCode.of(answer.error_code))
            left = [node for node in left if node.key not in answers]
            if left:
                yield Pause(backoff.failed(), failure)
    backoff.succeeded()
    return answers


def _find_piece(
    routing: Routing, wanted: Sequence[CoordinatorNode], backoff: ExponentialBackoff
) -> Steps:
    while left := {node.key: node for node in wanted if routing.locate(node) is None}:
        failure: Exception = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        address = routing.bootstrap.current
        request = FindCoordinatorRequest(key_type=wanted[0].key_type, coordinator_keys=list(left))
        try:
            response = yield Ask(address, request, _MANY_COORDINATORS_VERSION)
        except ConnectionLost as error:
            routing.bootstrap.failed(address)
            failure = error
        else:
            for found in response.coordinators:
                if (node := left.get(found.key)) is not None:
                    learn_coordinator(routing, node, found)
        if any(routing.locate(node) is None for node in wanted):
            yield Pause(backoff.failed(), failure)


def _by_address(
    routing: Routing, wanted: Iterable[CoordinatorNode]
) -> dict[Address, list[CoordinatorNode]]:
    nodes: dict[Address, list[CoordinatorNode]] = {}
    for node in wanted:
        if (address := routing.locate(node)) is not None:
            nodes.setdefault(address, []).append(node)
    return nodes


def _pieces(nodes: Sequence[CoordinatorNode]) -> Iterator[Sequence[CoordinatorNode]]:
    for start in range(0, len(nodes), KEYS_MAX):
        yield nodes[start : start + KEYS_MAX]
