"""ListTransactions: by state, producer, age and a pattern that is matched in linear time."""

from __future__ import annotations

import time
from itertools import product

from tests.broker.handlers.broker_client import broker_client
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer
from tests.counted_work import Work
from trimaran.broker.transactions import listing
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.list_transactions import ListTransactionsRequest

E = ErrorCode


async def listed(one, version=2, **filters):
    filters = {"state_filters": [], "producer_id_filters": [], **filters}
    answer = await one.call(ListTransactionsRequest(**filters), version)
    names = sorted(found.transactional_id for found in answer.transaction_states)
    return names, E.of(answer.error_code), answer.unknown_state_filters


async def test_filters_select_transactions(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        orders, payments = WireProducer(one, "orders-1"), WireProducer(one, "payments-1")
        await orders.begin()
        await payments.begin()
        await payments.add(0)
        both = ["orders-1", "payments-1"]
        assert await listed(one, version=0) == (both, E.NONE, [])
        assert (await listed(one, state_filters=["Ongoing"]))[0] == ["payments-1"]
        assert await listed(one, state_filters=["Ongoing", "Odd"]) == (["payments-1"], 0, ["Odd"])
        assert await listed(one, state_filters=["Odd", "Odd"]) == ([], 0, ["Odd"])
        assert (await listed(one, producer_id_filters=[orders.producer.id]))[0] == ["orders-1"]
        # orders-1 has never begun a transaction: Kafka reports it as running since the clock's epoch.
        assert (await listed(one, duration_filter=60_000))[0] == ["orders-1"]
        assert (await listed(one, duration_filter=10**15))[0] == []
        assert (await listed(one, transactional_id_pattern="pay.*|nothing"))[0] == ["payments-1"]
        assert (await listed(one, transactional_id_pattern="pay"))[
            0
        ] == []  # the pattern must match the whole id, as in Kafka
        assert (await listed(one, transactional_id_pattern=""))[0] == both


async def test_invalid_pattern_is_refused(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        for pattern, states in product(("(", r"(a)\1", "a" * 1001), ([], ["Odd"])):
            answer = await listed(one, transactional_id_pattern=pattern, state_filters=states)
            assert answer == ([], E.INVALID_REGULAR_EXPRESSION, [])


async def test_pattern_is_matched_in_thread_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "MATCHED_NAMES_MAX", 4)
    async with broker_client(tmp_path, **SETTINGS) as one:
        for number in range(10):
            await WireProducer(one, f"id-{number}").begin()
        matched = Work(monkeypatch, listing, "_filter")
        found = (await listed(one, transactional_id_pattern="id-[1-8]"))[0]
    assert found == [f"id-{number}" for number in range(1, 9)]
    assert matched.calls == matched.elsewhere >= 3


async def test_catastrophic_pattern_ends_soon(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        producer = WireProducer(one, "a" * 5000)
        await producer.begin()
        began = time.process_time()
        assert (await listed(one, transactional_id_pattern="(a*)*(a*)*(a*)*b"))[0] == []
        assert time.process_time() - began < 5
