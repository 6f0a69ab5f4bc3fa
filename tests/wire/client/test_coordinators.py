"""Calls about many transactional ids as transcripts: the requests of the generator, given earlier outcomes."""

import pytest

from tests.wire.client.test_small_parts import routing
from trimaran.wire.client import coordinators
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.calls import RETRIED, Pause
from trimaran.wire.client.coordinators import (
    TRANSACTION,
    describe_transactions,
    find_coordinators,
)
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import ConnectionLost
from trimaran.wire.client.routing import Routing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)
from trimaran.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse

BOOT = ("boot", 1)
N1, N2 = ("n1", 1), ("n2", 2)
NAMES = ["a", "b", "c"]


def play(steps, *outcomes):
    """Drives `steps`; each request gets the next of `outcomes`. Returns the address and the ids of each request, the
    result, and the errors of the pauses.
    """
    asked, left, pauses = [], list(outcomes), []
    step = next(steps)
    try:
        while True:
            if isinstance(step, Pause):
                pauses.append(step.because)
                step = steps.send(None)
                continue
            request = step.request
            keys = getattr(request, "coordinator_keys", None) or request.transactional_ids
            asked.append((step.address, "".join(keys)))
            outcome = left.pop(0)
            step = steps.throw(outcome) if isinstance(outcome, Exception) else steps.send(outcome)
    except StopIteration as stop:
        assert not left
        return asked, stop.value, pauses


def described(known, names=NAMES):
    return describe_transactions(known, names, ExponentialBackoff(uniform=lambda: 0.5))


def found(**nodes):
    """Returns a response with the coordinator of each key; a negative number is an error code."""
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=node, host=f"n{node}", port=node)
            if node > 0
            else Coordinator(key=key, node_id=-1, host="", port=-1, error_code=-node)
            for key, node in nodes.items()
        ]
    )


def states(**codes):
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(
                error_code=code,
                transactional_id=name,
                transaction_state="Ongoing",
                transaction_timeout_ms=1,
                transaction_start_time_ms=1,
                producer_id=7,
                producer_epoch=0,
                topics=[],
            )
            for name, code in codes.items()
        ]
    )


def test_each_coordinator_gets_one_request():
    asked, answers, pauses = play(
        described(routing(), [*NAMES, "a"]), found(a=1, b=2, c=1), states(a=0, c=0), states(b=105)
    )
    assert asked == [(BOOT, "abc"), (N1, "ac"), (N2, "b")]
    assert {name: state.error_code for name, state in answers.items()} == {"a": 0, "c": 0, "b": 105}
    assert not pauses


def test_known_coordinators_are_not_looked_up():
    known = routing()
    play(described(known), found(a=1, b=1, c=1), states(a=0, b=0, c=0))
    assert play(described(known), states(a=0, b=0, c=0))[0] == [(N1, "abc")]


def test_only_moved_id_is_looked_up_again():
    asked, answers, [error] = play(
        described(routing()),
        found(a=1, b=1, c=1),
        states(a=0, b=ErrorCode.NOT_COORDINATOR, c=0),
        found(b=2),
        states(b=0),
    )
    assert asked == [(BOOT, "abc"), (N1, "abc"), (BOOT, "b"), (N2, "b")]
    assert sorted(answers) == NAMES
    assert error.code == ErrorCode.NOT_COORDINATOR


def test_ids_of_lost_coordinator_are_looked_up_again():
    lost = ConnectionLost("gone")
    asked, answers, pauses = play(
        described(routing()), found(a=1, b=2, c=1), lost, states(b=0), found(a=2, c=2), states(a=0, c=0)
    )  # fmt: skip
    assert [address for address, _ in asked][1:3] == [N1, N2]
    assert asked[3][1] == "ac"
    assert asked[4] == (N2, "ac")
    assert sorted(answers) == NAMES
    assert pauses == [lost]


def test_unavailable_coordinator_is_looked_up_again():
    unavailable = -ErrorCode.COORDINATOR_NOT_AVAILABLE
    asked, answers, [error] = play(
        described(routing(), ["a", "b"]), found(a=1, b=unavailable), found(b=1), states(a=0, b=0)
    )
    assert asked == [(BOOT, "ab"), (BOOT, "b"), (N1, "ab")]
    assert sorted(answers) == ["a", "b"]
    assert error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_lost_node_causes_another_lookup():
    lost = ConnectionLost("gone")
    steps = described(routing(), ["a"])
    asked, _, pauses = play(steps, lost, found(a=1), states(a=0))
    assert [keys for _, keys in asked] == ["a", "a", "a"]
    assert pauses == [lost]


def test_answers_about_other_ids_are_ignored():
    asked, answers, pauses = play(
        described(routing(), ["a"]), found(z=1), found(a=1), states(z=0), found(a=1), states(a=0)
    )
    assert [keys for _, keys in asked] == ["a"] * 5
    assert list(answers) == ["a"]
    assert [error.code for error in pauses] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


def test_refused_look_up_is_an_error():
    refused = -ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="transactional id b") as raised:
        play(described(routing()), found(a=1, b=refused, c=1))
    assert raised.value.code == -refused


def test_many_ids_are_looked_up_in_pieces(monkeypatch):
    monkeypatch.setattr(coordinators, "KEYS_MAX", 2)
    asked, answers, _ = play(
        described(routing()), found(a=1, b=1), states(a=0, b=0), found(c=1), states(c=0)
    )
    assert [keys for _, keys in asked] == ["ab", "ab", "c", "c"]
    assert sorted(answers) == NAMES


def test_errors_that_callers_retry_are_retried():
    concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
    steps = describe_transactions(
        routing(), ["a"], ExponentialBackoff(uniform=lambda: 0.5), retried=RETRIED | {concurrent}
    )
    answers = play(steps, found(a=1), states(a=concurrent), found(a=1), states(a=0))[1]
    assert answers["a"].error_code == 0


def test_found_coordinators_serve_another_client():
    known, other = routing(), Routing(routing().bootstrap)
    wanted = [CoordinatorNode(name, TRANSACTION) for name in NAMES]
    steps = find_coordinators(known, wanted, ExponentialBackoff(uniform=lambda: 0.5))
    assert play(steps, found(a=1, b=2, c=1))[0] == [(BOOT, "abc")]
    other.take_coordinators(known)
    assert [other.locate(node) for node in wanted] == [N1, N2, N1]
