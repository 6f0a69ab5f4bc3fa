"""Listings of transactions: every filter against a naive twin, patterns, and the number examined in a turn."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.broker.calls import finished
from tests.broker.transactions.rig import NAME, open_rig
from tests.checks import check_each
from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.transactions import listing
from trimaran.broker.transactions.listing import describe
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.list_transactions import ListTransactionsRequest

E, S = ErrorCode, TransactionState
NOW_MS = 1_000_000
# A clock may go backwards. An id that never began a transaction starts at -1, as in Kafka: its duration is the time
# since the epoch.
AGES = {
    S.PREPARE_ABORT: -5,
    S.COMPLETE_COMMIT: 0,
    S.EMPTY: NOW_MS + 1,
    S.ONGOING: 500,
    S.PREPARE_COMMIT: 501,
    S.COMPLETE_ABORT: 30_000,
}
OURS = {
    f"{kind}-{state.name.lower()}": Transaction(
        producer_id=10 * number + state,
        epoch=state,
        timeout_ms=1,
        state=state,
        started_ms=NOW_MS - age,
    )
    for number, kind in enumerate(["orders", "payments"])
    for state, age in AGES.items()
}


@pytest.fixture
async def rig(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.shard.transactions.update(OURS)
        yield rig


async def pieces_of(rig, **filters):
    filters = {"state_filters": [], "producer_id_filters": [], **filters}
    request = ListTransactionsRequest(**filters)
    matches = listing.pattern_of(request.transactional_id_pattern)
    return [
        [
            (name, some[name].producer_id, some[name].state.shown)
            for name in await finished(listing.matching(matches, list(some), 7))
        ]
        for some in listing.candidates(rig.coordinator, request, NOW_MS)
    ]


async def listed(rig, **filters):
    return [listed for piece in await pieces_of(rig, **filters) for listed in piece]


STATES = ([], ["Ongoing"], ["Empty", "PrepareCommit", "Dead"], ["Odd"])
IDS = ([], [1], [1, 12, 99])
DURATIONS = (-1, 0, 499, 500, 501, 29_999, 30_000, NOW_MS, NOW_MS + 1)
PATTERNS = (None, "", "orders-.*", "ord", ".*empty|.*ongoing", "nothing")


async def test_every_filter_matches_plain_twin(rig):
    for states, ids, duration, pattern in product(STATES, IDS, DURATIONS, PATTERNS):
        expected = [
            (name, our.producer_id, our.state.shown)
            for name, our in OURS.items()
            if (not states or our.state.shown in states)
            and (not ids or our.producer_id in ids)
            and (duration < 0 or AGES[our.state] > duration)
            and (not pattern or re.fullmatch(pattern, name))
        ]
        found = await listed(
            rig,
            state_filters=states,
            producer_id_filters=ids,
            duration_filter=duration,
            transactional_id_pattern=pattern,
        )
        assert found == expected, (states, ids, duration, pattern)


async def test_loading_shard_is_retriable_ended_one_empty(rig):
    epoch = rig.coordinator.epoch_of(NAME)
    epoch._state.set(ShardState.CLOSED)
    assert await listed(rig) == []
    epoch._state.set(ShardState.LOADING)
    with pytest.raises(KafkaError) as caught:
        await listed(rig)
    assert caught.value.code == E.COORDINATOR_LOAD_IN_PROGRESS
    epoch._state.set(ShardState.ACTIVE)


async def test_bounded_transactions_are_examined_per_step(rig):
    per_step = 250
    rig.shard.transactions.clear()
    for number in range(2 * per_step + 1):
        state = S.ONGOING if number == per_step else S.EMPTY
        rig.shard.transactions[f"id-{number}"] = Transaction(number, 0, 1, state)
    pieces = await pieces_of(rig, state_filters=["Ongoing"])
    assert [len(piece) for piece in pieces] == [0, 1, 0]


def goes_of(names):
    """Returns how many names are matched at a time."""
    sizes = []
    while names:
        some, names = listing._first(names)
        sizes.append(len(some))
    return sizes


def test_names_are_matched_in_bounded_pieces():
    assert goes_of(["a"] * 250) == [100, 100, 50]
    assert goes_of(["a" * 2_500] * 9) == [4, 4, 1]
    assert goes_of(["a" * 2_501] * 9) == [4, 4, 1]
    assert goes_of(["a" * 2_499] * 9) == [5, 4]
    assert goes_of(["a" * 50_000] * 2 + ["a"] * 3) == [1, 1, 3]
    assert goes_of(["a" * 100] * 150) == [100, 50]


def code_of(pattern):
    try:
        listing.pattern_of(pattern)
    except KafkaError as error:
        return error.code
    return E.NONE


def test_invalid_or_large_pattern_is_refused(capfd):
    check_each(
        {
            "a" * 1_000: E.NONE,
            "a" * 1_001: E.INVALID_REGULAR_EXPRESSION,
            "(": E.INVALID_REGULAR_EXPRESSION,
            r"(a)\1": E.INVALID_REGULAR_EXPRESSION,
            "(((a{1,90}){1,90}){1,90})": E.INVALID_REGULAR_EXPRESSION,
            "((a{1,20}){1,40})": E.NONE,
            # RE2 would accept it by default, with eight times the memory.
            r"((\pL{1,10}){1,20})": E.INVALID_REGULAR_EXPRESSION,
            r"(\pL{1,100})": E.INVALID_REGULAR_EXPRESSION,
            r"(\pL{1,50})": E.NONE,
        }.items(),
        lambda row: _equal(code_of(row[0]), row[1]),
    )
    assert capfd.readouterr().err == "", "patterns of clients are no business of the log"


def _equal(found, expected):
    assert found == expected


def fields_of(found):
    return (
        found.error_code,
        found.transactional_id,
        found.transaction_state,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms,
        found.producer_id,
        found.producer_epoch,
        [(topic.topic, topic.partitions) for topic in found.topics],
    )


async def test_every_field_of_a_transaction_is_described(rig):
    partitions = frozenset({TopicPartition("u", 3), TopicPartition("t", 2), TopicPartition("t", 1)})
    rig.shard.transactions[NAME] = Transaction(70, 7, 600, S.ONGOING, partitions, started_ms=123)
    assert fields_of(describe(rig.coordinator, NAME)) == (
        *(E.NONE, NAME, "Ongoing", 600, 123, 70, 7),
        [("t", [1, 2]), ("u", [3])],
    )


async def test_unknown_transaction_has_only_its_code(rig):
    nothing = ("", 0, 0, 0, 0, [])
    not_found = E.TRANSACTIONAL_ID_NOT_FOUND
    assert fields_of(describe(rig.coordinator, "y")) == (not_found, "y", *nothing)
    assert fields_of(describe(rig.coordinator, "")) == (E.INVALID_REQUEST, "", *nothing)
    rig.resign()
    assert fields_of(describe(rig.coordinator, NAME)) == (E.NOT_COORDINATOR, NAME, *nothing)
