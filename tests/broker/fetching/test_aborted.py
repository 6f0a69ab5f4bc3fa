"""Tens of thousands of aborted transactions inside one long transaction: each fetch examines few of them, some at a
time.
"""

import pytest

from tests.broker.calls import started
from tests.broker.fetching.fetch_requests import ask_one, fetch_of, wanted
from tests.cluster.data_side import open_harness, partition, topic
from tests.counted_work import Work
from trimaran.broker.fetching import aborted as listing
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.segments import transaction_index
from trimaran.wire.errors import ErrorCode, KafkaError

ABORTS = 20_000
LONG = 77
FIRST = build_batch([NewRecord(None, b"", 1000)])


@pytest.fixture
def harness(tmp_path):
    """Appends a batch of the long transaction, a large batch of aborted ones, and the end of the long one."""
    harness = open_broker(tmp_path)
    behind = build_batch([NewRecord(None, b"", 1000)] * (2 * ABORTS + 1))
    data = memoryview(bytearray(FIRST + behind))
    log = harness.leader().log
    log.append_as_leader(data, list(iter_batches(data)), leader_epoch=0, now_ms=0)
    name = log.active_segment.transaction_index.path
    harness.directory.close(broker_epoch=1)
    aborts = [(number, 2 * number + 1, 2 * number + 2, 0) for number in range(ABORTS)]
    aborts.append((LONG, 0, 2 * ABORTS + 1, 2 * ABORTS + 2))
    name.write_bytes(b"".join(transaction_index._ENTRY.pack(0, *abort) for abort in aborts))
    return open_broker(tmp_path)


def open_broker(path):
    harness = open_harness(path)
    harness.set_image(topic("t", partition()))
    return harness


async def aborted(harness, offset, **fields):
    data = await ask_one(harness, wanted(0, offset, **fields), isolation_level=1)
    assert data.error_code == 0
    return [
        (aborted_transaction.producer_id, aborted_transaction.first_offset)
        for aborted_transaction in data.aborted_transactions
    ]


async def test_fetch_examines_few_of_many_aborts(harness, monkeypatch):
    looked_at = Work(monkeypatch, transaction_index, "AbortedTransaction")
    assert await aborted(harness, 0, max_bytes=len(FIRST)) == [(LONG, 0)]
    assert looked_at.calls > ABORTS, "the first reads all of them"
    assert looked_at.in_longest_step <= 200 * 3 + 2 * 512
    looked_at.calls = looked_at.in_longest_step = 0
    assert await aborted(harness, 0, max_bytes=len(FIRST)) == [(LONG, 0)]
    assert looked_at.calls < 200


async def test_many_aborted_transactions_are_listed_in_steps(harness, monkeypatch):
    named = Work(monkeypatch, listing, "AbortedTransaction")
    found = await aborted(harness, 1)
    assert len(found) == ABORTS + 1
    assert found[-1] == (LONG, 0)
    assert named.calls == ABORTS + 1
    assert named.in_longest_step <= 2_000


async def test_log_truncated_during_abort_search_answers_nothing(harness):
    log = harness.leader().log
    steps = log.find_aborted(0, 1)
    next(steps)
    log.truncate_to(1)
    with pytest.raises(KafkaError, match="has changed") as refused:
        next(steps)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_records_expired_before_abort_listing_are_not_sent(harness):
    """The segment's file is still open, and without the list of aborts the records would look committed."""
    log = harness.leader().log
    fetch, _, slots = fetch_of(harness, wanted(), isolation_level=1)
    started(fetch.poll())
    log.roll(0)
    log.delete_records_before(log.log_end_offset)
    assert log.apply_retention(0, log.log_end_offset) == 1
    [answered] = started(fetch.responses(slots))
    [data] = answered.partitions
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not data.records
