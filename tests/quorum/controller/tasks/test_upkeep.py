"""Periodic tasks of an active controller, and their times."""

import pytest
import trio

from tests.quorum.controller.solo import solo
from tests.quorum.metadata.build import (
    broker,
    change,
    changed_broker,
    config,
    features,
    partition,
    topic,
)
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller import active_controller
from trimaran.quorum.controller.tasks import fencing, upkeep
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.records.security import DelegationTokenRecord, RemoveDelegationTokenRecord

LOST = change(1, 0, leader=-1)
UNCLEAN = config("unclean.leader.election.enable", "true")


def sole(*more, isr=(2,), leader=-1):
    """Returns a state with broker 1 up, and its partition waiting for broker 2, which is down."""
    return (
        features(),
        broker(1),
        broker(2, fenced=True),
        topic("t", 1),
        partition(1, 0, [1, 2], isr=list(isr), leader=leader),
        *more,
    )


@pytest.fixture(autouse=True)
def nobody_is_fenced(monkeypatch):
    """Disables fencing, since the brokers of these tests send no heartbeats."""
    for task in ("fence_expired", "suspect_disconnected"):
        monkeypatch.setattr(fencing, task, _never)


async def _never(*_):
    await trio.sleep_forever()


async def test_no_op_record_is_written_to_quiet_log(autojump_clock):
    """KIP-835: otherwise a quiet log could not be distinguished from a lost one."""
    async with solo(features(), idle=0.5) as one:
        await trio.sleep(0.51)
        assert one.log.batches == [[NoOpRecord()]]
        await trio.sleep(0.2)
        at_once(one.active.write(Result([topic("t", 1)], None)))
        await trio.sleep(0.4)
        assert len(one.log.batches) == 2, "something was written meanwhile"
        await trio.sleep(0.5)
        assert one.log.batches[2:] == [[NoOpRecord()]]


async def test_intervals_of_0_mean_never(autojump_clock):
    moved = partition(1, 1, [1, 2], isr=[1, 2], leader=2)
    async with solo(
        *sole(moved), token(1, 1), config={"unclean_leader_election_enable": "true"}
    ) as one:
        at_once(one.active.write(Result([LOST], None)))
        await trio.sleep(1000)
        assert one.log.batches[1:] == [[LOST]], "the first was elected by who began to lead"


def token(number, ends):
    return DelegationTokenRecord(
        owner="User:a",
        requester="User:a",
        renewers=[],
        issue_timestamp=0,
        max_timestamp=ends,
        expiration_timestamp=ends,
        token_id=f"t{number}",
    )


async def test_expired_tokens_are_removed_periodically(autojump_clock, monkeypatch):
    now = [1000]
    monkeypatch.setattr(upkeep, "now_ms", lambda: now[0])
    async with solo(features(), token(1, 500), token(2, 1500), token_sweep=60.0) as one:
        assert one.log.batches == [[RemoveDelegationTokenRecord(token_id="t1")]]
        await trio.sleep(59)
        now[0] = 2000
        assert len(one.log.batches) == 1
        await trio.sleep(2)
        assert one.log.batches[1:] == [[RemoveDelegationTokenRecord(token_id="t2")]]
        await trio.sleep(120)
        assert len(one.log.batches) == 2, "of nothing there is no record"


async def test_expired_tokens_beyond_one_sweep_are_swept(autojump_clock):
    tokens = [token(number, 1) for number in range(1001)]
    async with solo(features(), *tokens, token_sweep=60.0) as one:
        assert [len(batch) for batch in one.log.batches] == [1000, 1]


async def test_leaders_periodically_return_to_preferred_replicas(autojump_clock):
    moved = partition(1, 0, [1, 2], isr=[1, 2], leader=2)
    records = (features(), broker(1), broker(2), topic("t", 1), moved)
    async with solo(*records, balance=300.0) as one:
        await trio.sleep(299)
        assert one.log.batches == []
        await trio.sleep(2)
        assert one.log.batches == [[change(1, 0, leader=1)]]


async def test_new_controller_elects_leaders_left_by_predecessor(
    autojump_clock,
):
    async with solo(*sole(isr=[1])) as one:
        assert one.log.batches == [[change(1, 0, leader=1)]]


async def test_newly_unclean_topic_soon_gets_leader(autojump_clock):
    async with solo(*sole()) as one:
        at_once(one.active.write(Result([config("retention.ms", "1")], None)))
        await one.settle()
        assert one.partitions()[0].leader == -1
        at_once(one.active.write(Result([UNCLEAN], None)))
        await one.settle()
        assert one.partitions()[0].leader == 1


async def test_unclean_elections_are_logged(autojump_clock, caplog):
    caplog.set_level("INFO")
    async with solo(*sole()) as one:
        caplog.clear()
        one.active.unclean_wanted.set()
        await one.settle()
        assert caplog.text == "", "nobody was elected"
        at_once(one.active.write(Result([UNCLEAN], None)))
        await one.settle()
        assert "unclean leader election for 1 partitions" in caplog.text


async def test_overlooked_leader_is_elected_next_round(autojump_clock):
    async with solo(*sole(UNCLEAN), unclean=300.0) as one:
        at_once(one.active.write(Result([LOST], None)))
        await trio.sleep(299)
        assert one.partitions()[0].leader == -1
        await trio.sleep(2)
        assert one.partitions()[0].leader == 1


async def test_failed_upkeep_write_is_retried_shortly(autojump_clock):
    moved = partition(1, 0, [1, 2], isr=[1, 2], leader=2)
    records = (features(), broker(1), broker(2), topic("t", 1), moved)
    async with solo(*records, balance=300.0) as one:
        one.log.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
        await trio.sleep(300.5)
        assert one.log.batches == []
        one.log.refuses = None
        await trio.sleep(1)
        assert one.log.batches == [[change(1, 0, leader=1)]]


async def test_operators_request_precedes_periodic_task(autojump_clock):
    """A task of the epoch waits for its turn like requests."""
    async with solo(*sole()) as one:

        def long():
            yield 1_000_000
            yield 1_000_000
            return (yield from one.active.write(Result([changed_broker(2, fenced=-1)], None)))

        asked = one.active.operations.submit(long())
        one.active.leaders_wanted.set()
        await asked.decided()
        await one.settle()
        assert one.log.batches == [[changed_broker(2, fenced=-1)], [change(1, 0, leader=2)]]


async def test_changes_of_upkeep_may_span_batches(autojump_clock, monkeypatch):
    """The log accepts ten thousand records at once; each partition is consistent by itself."""
    monkeypatch.setattr(active_controller, "RECORDS_PER_BATCH", 2)
    moved = [partition(1, index, [1, 2], leader=2) for index in range(3)]
    async with solo(features(), broker(1), broker(2), topic("t", 1), *moved, balance=300.0) as one:
        await trio.sleep(301)
        assert [len(batch) for batch in one.log.batches] == [2, 1]
