"""The last stable offset against a naive twin: everything below it is decided, and the decision is replicated."""

from __future__ import annotations

from random import Random

import pytest

from trimaran.log.producers import transactions
from trimaran.log.producers.transactions import ENDED_MAX, OpenTransactions


class Twin:
    """All transactions so far: producer, first offset, and the offset of the marker or None."""

    def __init__(self):
        self.all = []

    def begin(self, producer_id, offset):
        self.all.append([producer_id, offset, None])

    def end(self, producer_id, offset):
        (mine,) = (item for item in self.all if item[0] == producer_id and item[2] is None)
        mine[2] = offset

    def first_open_offset(self, without):
        firsts = [item[1] for item in self.all if item[2] is None and item[0] != without]
        return min(firsts, default=None)

    def last_stable_offset(self, watermark):
        undecided = [item[1] for item in self.all if item[2] is None or item[2] >= watermark]
        return min([*undecided, watermark])


@pytest.mark.parametrize("seed", range(5))
def test_offset_equals_its_naive_twin(seed):
    random, ours, twin = Random(seed), OpenTransactions(), Twin()
    watermark, is_open = 0, set()
    for offset in range(200):
        producer_id = random.randrange(4)
        if producer_id in is_open:
            is_open.discard(producer_id)
            ours.end(producer_id, offset)
            twin.end(producer_id, offset)
        elif random.random() < 0.7:
            is_open.add(producer_id)
            ours.begin(producer_id, offset)
            twin.begin(producer_id, offset)
        for without in range(-1, 5):
            found = ours.first_open_offset(without=without)
            assert found == twin.first_open_offset(without)
        assert ours.first_open_offset() == twin.first_open_offset(None)
        watermark = random.randint(watermark, offset + 1)
        assert ours.last_stable_offset(watermark) == twin.last_stable_offset(watermark)


@pytest.mark.parametrize(("watermark", "expected"), [(7, 3), (8, 8), (9, 9)])
def test_marker_is_replicated_below_the_watermark(watermark, expected):
    ours = OpenTransactions()
    ours.begin(1, 3)
    ours.end(1, 7)
    assert ours.last_stable_offset(watermark) == expected


def test_open_transaction_above_watermark_holds_nothing_back():
    ours = OpenTransactions()
    ours.begin(1, 9)
    assert [ours.last_stable_offset(watermark) for watermark in (8, 9, 10)] == [8, 9, 9]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_oldest_ended_transactions_are_merged(monkeypatch, count):
    """At the bound they are separate; above it the first two are merged, and hold back the offset together."""
    assert ENDED_MAX == 1024
    monkeypatch.setattr(transactions, "ENDED_MAX", 3)
    ours = OpenTransactions()
    for producer_id in range(count):
        ours.begin(producer_id, 10 * producer_id + 1)
        ours.end(producer_id, 10 * producer_id + 5)
    assert len(ours._ended) == min(count, 3)
    stable = [ours.last_stable_offset(watermark) for watermark in (5, 6, 15, 16)]
    assert stable == ([1, 1, 1, 16] if count == 4 else [1, 6, 11, 16])


def test_merged_transactions_hold_back_from_the_first(monkeypatch):
    """Transactions may overlap: the transaction that ended first need not have begun first."""
    monkeypatch.setattr(transactions, "ENDED_MAX", 1)
    ours = OpenTransactions()
    ours.begin(1, 2)
    ours.begin(2, 4)
    ours.end(2, 6)
    ours.end(1, 8)
    assert [ours.last_stable_offset(watermark) for watermark in (7, 8, 9)] == [2, 2, 9]
