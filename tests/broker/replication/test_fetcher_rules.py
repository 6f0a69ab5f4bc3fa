"""The rules of a fetcher, one test each: processing of responses, next positions, log lines."""

from __future__ import annotations

import itertools
import logging

import pytest
import trio
import trio.testing

from tests.broker.batches import batch
from tests.broker.partitions.replicas import until
from tests.broker.replication.stub_leader import (
    NEWEST,
    OLDEST,
    answered,
    data,
    follow,
    followed,
    record,
)
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.channels.broker_connector import BrokerConnector
from trimaran.broker.events import REPLICA_TRUNCATED
from trimaran.broker.partitions.follower import PartitionFollower
from trimaran.broker.partitions.replica import Replica
from trimaran.broker.replication.fetch_client import FetchClient, FetchSettings
from trimaran.broker.replication.fetcher import Fetcher
from trimaran.broker.replication.fetchers import Fetchers
from trimaran.log.batches.batch import BatchView
from trimaran.log.durability import group_commit, syncing
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import EpochEndOffset
from trimaran.wire.text.events import event_of

OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def once(*answers):
    """Returns each response once, then empty ones."""
    left = list(answers)
    return lambda _: left.pop(0) if left else answered()


@pytest.fixture
def held_back(monkeypatch):
    """Returns the pauses of partitions that were delayed."""
    pauses = []
    real = FetchClient.delay

    def delay(self, followed, now):
        pauses.append(self.backoff_of(followed))
        real(self, followed, now)

    monkeypatch.setattr(FetchClient, "delay", delay)
    return pauses


async def test_appended_records_advance_fetch_after_flush(tmp_path):
    async with followed(tmp_path) as (harness, leader):
        leader.answer = once(answered(data(records=record(1) + record(2), high_watermark=2)))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        held = harness.partitions.find(TopicPartition("t", 0))
        assert leader.positions()[:2] == [[(0, 1)], [(0, 3)]]
        assert leader.sessions()[:2] == [(0, 0), (7, 1)]
        assert (held.log.flushed_offset, held.high_watermark) == (3, 2)


async def test_watermark_without_records_is_applied(tmp_path):
    async with followed(tmp_path) as (harness, leader):
        leader.answer = once(answered(data(high_watermark=1)))
        follow(harness)
        held = harness.partitions.find(TopicPartition("t", 0))
        assert held.high_watermark == 0
        await until(lambda: held.high_watermark == 1)


async def test_answer_from_ended_epoch_is_ignored(tmp_path):
    """Records of that epoch may have been truncated since, under a leader between the two."""
    async with followed(tmp_path) as (harness, leader):

        def end_and_answer(_request):
            leader.answer = once()
            follow(harness, 2)
            return answered(data(records=record(1), high_watermark=2))

        leader.answer = end_and_answer
        follow(harness)
        await until(lambda: len(leader.fetches) >= 4)
        held = harness.partitions.find(TopicPartition("t", 0))
        assert (held.log.log_end_offset, held.high_watermark) == (1, 0)
        [named] = leader.fetches[1].topics[0].partitions
        assert (named.current_leader_epoch, named.fetch_offset) == (2, 1)


@pytest.mark.parametrize("ends", ["before", "while records are appended"])
async def test_watermark_for_ended_epoch_is_requested_again(tmp_path, monkeypatch, ends):
    """The replica moved to another directory: the leader does not repeat the watermark in the session."""
    async with followed(tmp_path) as (harness, leader):
        held = harness.partitions.find(TopicPartition("t", 0))

        def move():
            harness.follows.unfollow(held)
            held.release_log()
            harness.follows.follow(held)

        real = PartitionFollower.append

        def append(self, records):
            monkeypatch.undo()
            taken = real(self, records)
            move()
            return taken

        def answer(request):
            if request.session_epoch == 0:
                return answered(data(high_watermark=1)) if len(leader.fetches) > 2 else answered()
            if len(leader.fetches) != 2:
                return answered()
            if ends == "before":
                move()
                return answered(data(high_watermark=1))
            monkeypatch.setattr(PartitionFollower, "append", append)
            return answered(data(records=record(1), high_watermark=1))

        leader.answer = answer
        follow(harness)
        await until(lambda: held.high_watermark == 1)


async def test_divergence_truncates_and_asks_again(tmp_path):
    async with followed(tmp_path, records=3) as (harness, leader):
        diverging = EpochEndOffset(epoch=0, end_offset=2)
        leader.answer = once(answered(data(diverging_epoch=diverging)))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        assert leader.positions()[:2] == [[(0, 3)], [(0, 2)]]


async def test_divergence_at_log_start_truncates_everything(tmp_path):
    async with followed(tmp_path, records=3) as (harness, leader):
        diverging = EpochEndOffset(epoch=0, end_offset=0)
        leader.answer = once(answered(data(diverging_epoch=diverging)))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        assert leader.positions()[:2] == [[(0, 3)], [(0, 0)]]


@pytest.mark.parametrize(
    "second",
    [{"diverging_epoch": EpochEndOffset(epoch=0, end_offset=2)}, {"error_code": OUT_OF_RANGE}],
)
async def test_second_answer_to_truncated_position_is_ignored(tmp_path, held_back, second):
    """The second answer belongs to a request that was in flight when the first answer arrived."""
    async with followed(tmp_path, records=3) as (harness, leader):
        diverging = EpochEndOffset(epoch=0, end_offset=2)
        leader.answer = once(answered(data(diverging_epoch=diverging)))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        await harness.follows._fetchers[11]._process(None, answered(data(**second)), 1)
        assert harness.partitions.find(TopicPartition("t", 0)).log.log_end_offset == 2
    assert held_back == []


async def test_divergence_without_truncation_backs_off(tmp_path, held_back, caplog):
    async with followed(tmp_path, records=3) as (harness, leader):
        nowhere = EpochEndOffset(epoch=0, end_offset=3)
        leader.answer = lambda _: answered(data(diverging_epoch=nowhere))
        follow(harness)
        await until(lambda: len(held_back) == 3)
    assert held_back == [0.02, 0.04, 0.08]
    assert ["does not change the position" in warning for warning in warnings(caplog)] == [True]


async def test_follower_above_leaders_end_truncates_and_reports(tmp_path, caplog):
    async with followed(tmp_path, records=3) as (harness, leader):
        leader.offsets = {NEWEST: (2, 0), OLDEST: (0, 0)}
        leader.answer = once(answered(data(error_code=OUT_OF_RANGE)))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        assert leader.positions()[:2] == [[(0, 3)], [(0, 2)]]
        assert leader.listed == [(12, 1)], "as a replica, in its epoch"
    assert [event_of(record) for record in caplog.records].count(REPLICA_TRUNCATED) == 1


async def test_partition_removed_during_offset_query_is_ignored(tmp_path):
    async with followed(tmp_path, records=3, partitions=2) as (harness, leader):

        def second_goes():
            mine = partition((12, 11), 11, leader_epoch=1, partition_epoch=1)
            harness.set_image(topic("t", mine, partition((13, 11), 11, partition_epoch=1)))

        leader.on_listed = second_goes
        leader.offsets = {NEWEST: (2, 0), OLDEST: (0, 0)}
        both = [data(0, error_code=OUT_OF_RANGE), data(1, error_code=OUT_OF_RANGE)]
        leader.answer = once(answered(*both))
        follow(harness, partitions=2)
        await until(lambda: len(leader.fetches) >= 2)
        assert (0, 2) in leader.positions()[1], "the first goes on"
        assert leader.listed == [(12, 1)], "nothing is asked for the second"
        assert harness.partitions.find(TopicPartition("t", 1)) is None


async def test_out_of_range_at_leaders_end_cuts_nothing(tmp_path, held_back, caplog):
    async with followed(tmp_path, records=3) as (harness, leader):
        leader.offsets = {NEWEST: (3, 0), OLDEST: (0, 0)}
        leader.answer = lambda _: answered(data(error_code=OUT_OF_RANGE))
        follow(harness)
        await until(lambda: held_back)
        assert harness.partitions.find(TopicPartition("t", 0)).log.log_end_offset == 3
    assert REPLICA_TRUNCATED not in [event_of(record) for record in caplog.records]


@pytest.mark.parametrize(("high_watermark", "lags"), [(1, False), (2, False), (3, True)])
async def test_follower_without_all_committed_records_lags(tmp_path, high_watermark, lags):
    """Throttles delay only lagging followers (KIP-73)."""
    async with followed(tmp_path) as (harness, leader):
        leader.answer = once(answered(data(records=record(1), high_watermark=high_watermark)))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        client = harness.follows._fetchers[11]._client
        assert client.find((topic_id("t"), 0)).lags is lags


async def test_follower_below_leaders_start_begins_there(tmp_path):
    async with followed(tmp_path, records=3) as (harness, leader):
        leader.offsets = {NEWEST: (9, 0), OLDEST: (5, 0)}
        leader.answer = once(answered(data(error_code=OUT_OF_RANGE)))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        log = harness.partitions.find(TopicPartition("t", 0)).log
        assert leader.positions()[:2] == [[(0, 3)], [(0, 5)]]
        assert (log.log_start_offset, log.log_end_offset) == (5, 5)


@pytest.mark.parametrize("start", [0, 2, 3])
async def test_out_of_range_within_leaders_log_keeps_records(tmp_path, held_back, caplog, start):
    async with followed(tmp_path, records=3) as (harness, leader):
        leader.offsets = {NEWEST: (9, 0), OLDEST: (start, 0)}
        leader.answer = lambda _: answered(data(error_code=OUT_OF_RANGE))
        follow(harness)
        await until(lambda: len(held_back) == 2)
        log = harness.partitions.find(TopicPartition("t", 0)).log
        assert (log.log_start_offset, log.log_end_offset) == (0, 3)
        assert any("does not change the position" in warning for warning in warnings(caplog))


async def test_unavailable_offsets_delay_follower_silently(tmp_path, held_back, caplog):
    async with followed(tmp_path) as (harness, leader):
        leader.offsets = {NEWEST: (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)}
        leader.answer = lambda _: answered(data(error_code=OUT_OF_RANGE))
        follow(harness)
        await until(lambda: len(held_back) == 3)
        assert harness.partitions.find(TopicPartition("t", 0)).log.log_end_offset == 1
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("code", "silent"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.FENCED_LEADER_EPOCH, True),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, True),
        (ErrorCode.STALE_BROKER_EPOCH, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, False),
    ],
)
async def test_transient_errors_are_not_logged(tmp_path, held_back, caplog, code, silent):
    async with followed(tmp_path) as (harness, leader):
        leader.answer = lambda _: answered(data(error_code=code))
        follow(harness)
        await until(lambda: len(held_back) == 3)
    assert held_back == [0.02, 0.04, 0.08]
    assert len(warnings(caplog)) == (0 if silent else 1)


async def test_duplicate_records_are_tolerated_once(tmp_path, held_back):
    """The lower offset was requested before we had the records."""
    old = answered(data(records=record(0)))
    async with followed(tmp_path) as (harness, leader):
        leader.answer = once(old)
        follow(harness)
        await until(lambda: len(leader.fetches) >= 3)
        assert held_back == []
        leader.answer = once(old)
        await until(lambda: held_back)


async def test_fetcher_ends_with_its_last_partition(tmp_path):
    async with followed(tmp_path, partitions=2) as (harness, leader):
        follow(harness, partitions=2)
        await until(lambda: leader.fetches)
        gone = partition((12, 11), -1, leader_epoch=2, partition_epoch=2)
        harness.set_image(
            topic("t", partition((12, 11), 11, leader_epoch=1, partition_epoch=1), gone)
        )
        asked = len(leader.fetches)
        await until(lambda: len(leader.fetches) > asked + 1)
        assert len(harness.follows._fetchers) == 1
        harness.set_image(topic("t", gone, gone))
        await until(lambda: not harness.follows._fetchers)


async def test_appended_records_reset_the_pauses(tmp_path, held_back):
    async with followed(tmp_path) as (harness, leader):
        refused = answered(data(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        leader.answer = once(refused, refused, answered(data(records=record(1))), refused)
        follow(harness)
        await until(lambda: len(held_back) == 3)
    assert held_back == [0.02, 0.04, 0.02]


async def test_session_ended_by_leader_restarts(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    async with followed(tmp_path) as (harness, leader):
        ended = answered(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0)
        leader.answer = once(answered(), ended, ended, ended, answered(data(records=record(1))))
        follow(harness)
        await until(lambda: harness.partitions.find(TopicPartition("t", 0)).log.log_end_offset == 2)
        assert leader.sessions()[:4] == [(0, 0), (7, 1), (0, 0), (0, 0)]
        assert leader.positions()[:4] == [[(0, 1)], [], [(0, 1)], [(0, 1)]]
    told = [
        record.getMessage()
        for record in caplog.records
        if "the leader ends the session" in record.msg % record.args
    ]
    assert len(told) == 1, "once of what goes on happening"


async def test_leader_without_sessions_gets_full_requests(tmp_path):
    async with followed(tmp_path, partitions=2) as (harness, leader):
        leader.answer = lambda _: answered(session_id=0)
        follow(harness, partitions=2)
        await until(lambda: len(leader.fetches) >= 3)
        assert leader.sessions()[:3] == [(0, 0)] * 3
        assert [sorted(position) for position in leader.positions()[:3]] == [[(0, 1), (1, 1)]] * 3


async def test_error_of_one_partition_affects_no_other(tmp_path, held_back):
    async with followed(tmp_path, partitions=2) as (harness, leader):
        refused = data(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        leader.answer = once(answered(refused, data(1, records=record(1))))
        follow(harness, partitions=2)
        await until(lambda: harness.partitions.find(TopicPartition("t", 1)).log.flushed_offset == 2)
        assert held_back == [0.02]


@pytest.mark.parametrize("deleted", [0, 3], ids=["not yet here", "here too"])
async def test_deleted_foreign_history_does_not_block_follower(tmp_path, deleted):
    """The leader's log starts inside a batch, beyond our log's end: no epoch distinguishes the two histories
    (KIP-107).
    """
    async with followed(tmp_path, records=3) as (harness, leader):
        log = harness.partitions.find(TopicPartition("t", 0)).log
        log.delete_records_before(deleted)
        spanning = bytearray(batch(b"a", b"b", b"c"))
        BatchView(spanning).stamp(2, 1)
        fetched = data(records=bytes(spanning), high_watermark=5, log_start_offset=3)
        leader.answer = once(answered(fetched))
        follow(harness)
        await until(lambda: len(leader.fetches) >= 2)
        assert (log.log_start_offset, log.log_end_offset) == (3, 5)
        assert log.segment_base_offsets[0] == 2, "nothing of the other history is left"


async def test_producers_of_foreign_history_are_forgotten(tmp_path):
    """P5: if the leader's log starts beyond our end, its watermark does not cover our records."""
    async with followed(tmp_path, records=3) as (harness, leader):
        partition = harness.partitions.find(TopicPartition("t", 0))
        view = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
        partition.log.producers.update(BatchView(view))
        leader.answer = once(answered(data(high_watermark=3, log_start_offset=3)))
        follow(harness)
        await until(lambda: partition.high_watermark == 3)
        assert len(partition.log.producers) == 0


async def test_leaders_log_start_is_followed(tmp_path):
    async with followed(tmp_path, records=3) as (harness, leader):
        leader.answer = once(answered(data(high_watermark=3, log_start_offset=2)))
        follow(harness)
        log = harness.partitions.find(TopicPartition("t", 0)).log
        await until(lambda: log.log_start_offset == 2)


async def test_partition_of_another_leader_is_forgotten(tmp_path):
    async with followed(tmp_path, partitions=2) as (harness, leader):
        follow(harness, partitions=2)
        await until(lambda: len(leader.fetches) >= 2)
        states = [partition((12, 11), 11, leader_epoch=1, partition_epoch=1)]
        states.append(partition((12, 11), -1, leader_epoch=2, partition_epoch=2))
        harness.set_image(topic("t", *states))
        await until(lambda: any(fetch.forgotten_topics_data for fetch in leader.fetches))
        told = [
            fetch.forgotten_topics_data for fetch in leader.fetches if fetch.forgotten_topics_data
        ]
        assert [gone.partitions for gone in told[0]] == [[1]]


async def test_unfollowed_partitions_flush_is_not_awaited(tmp_path):
    async with followed(tmp_path, partitions=2) as (harness, leader):
        real, slow = (
            harness.group_commit.mark_dirty,
            harness.partitions.find(TopicPartition("t", 1)),
        )

        def mark_dirty(log, on_flushed, written=0, **how):
            if log is not slow.open_log:
                real(log, on_flushed, written, **how)

        harness.group_commit.mark_dirty = mark_dirty
        leader.answer = once(answered(data(1, records=record(1))))
        follow(harness, partitions=2)
        await until(lambda: slow.log.log_end_offset == 2)
        asked = len(leader.fetches)
        await trio.testing.wait_all_tasks_blocked()
        assert len(leader.fetches) == asked, "it waits for the flush"
        states = [partition((12, 11), 11, leader_epoch=1, partition_epoch=1)]
        states.append(partition((12, 11), -1, leader_epoch=2, partition_epoch=2))
        harness.set_image(topic("t", *states))
        await until(lambda: len(leader.fetches) > asked)


async def test_leader_lookup_backs_off_for_unknown_address(autojump_clock):
    asked_at = []

    def address_of(leader_id):
        assert leader_id == 11
        asked_at.append(trio.current_time())

    settings = FetchSettings(12, lambda: 112, 500, 1, 1 << 20, 10 << 20, backoff_seconds_max=0.1)
    with trio.move_on_after(0.5):
        await Fetcher(11, BrokerConnector(address_of, "follower"), settings).run()
    pauses = [round(after - before, 2) for before, after in itertools.pairwise(asked_at)]
    assert pauses == [0.02, 0.04, 0.08, 0.1, 0.1, 0.1]


async def test_leader_without_followed_partitions_is_not_asked(tmp_path, autojump_clock):
    asked = []
    settings = FetchSettings(12, lambda: 112, 500, 1, 1 << 20, 10 << 20)
    fetchers = Fetchers(BrokerConnector(asked.append, "follower"), settings)
    harness = open_harness(tmp_path, 12)
    harness.set_image(topic("t", partition((12, 11), 11)))
    held = harness.partitions.find(TopicPartition("t", 0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetchers.run)
        fetchers.follow(held)
        await trio.sleep(3)
        assert set(asked) == {11}
        fetchers.unfollow(held)
        await trio.sleep(1)
        count = len(asked)
        await trio.sleep(30)
        assert len(asked) == count
        nursery.cancel_scope.cancel()


@pytest.fixture
def checking(monkeypatch):
    """Makes logs be checked before they are followed; a check ends when the test permits it."""
    done = trio.Event()
    monkeypatch.setattr(Replica, "must_check", property(lambda _: not done.is_set()))
    begun = []

    async def check(self):
        begun.append(self.name)
        await done.wait()

    monkeypatch.setattr(Replica, "check", check)
    return begun, done


async def test_fetcher_survives_check_of_only_log(tmp_path, checking):
    """Fetchers of other leaders start and end meanwhile."""
    begun, done = checking
    async with followed(tmp_path, partitions=2) as (harness, leader):
        one = partition((12, 11), 11, leader_epoch=1, partition_epoch=1)
        harness.set_image(topic("t", one, partition((12, 13), 12)))
        await until(lambda: begun)
        harness.set_image(
            topic("t", one, partition((12, 13), 13, leader_epoch=1, partition_epoch=1))
        )
        await trio.testing.wait_all_tasks_blocked()
        assert 11 in harness.follows._fetchers
        done.set()
        await until(lambda: leader.fetches)
        assert leader.positions()[0] == [(0, 1)]


async def test_other_removal_does_not_affect_checked_log(tmp_path, checking):
    begun, done = checking
    async with followed(tmp_path, partitions=2) as (harness, leader):
        follow(harness, partitions=2)
        await until(lambda: begun)
        [checked] = [index for index in (0, 1) if begun == [f"t-{index}"]]
        here = partition((12, 11), 11, leader_epoch=1, partition_epoch=1)
        gone = partition((12, 11), -1, leader_epoch=2, partition_epoch=2)
        harness.set_image(topic("t", *[here if index == checked else gone for index in (0, 1)]))
        await trio.testing.wait_all_tasks_blocked()
        done.set()
        await until(lambda: leader.fetches)
        assert leader.positions()[0] == [(checked, 1)]


@pytest.mark.parametrize("away", [(12, 11), (11, 13)], ids=["led here", "not here"])
async def test_replica_returning_during_check_is_followed(tmp_path, checking, away):
    begun, done = checking
    async with followed(tmp_path) as (harness, leader):
        follow(harness)
        await until(lambda: begun)
        gone = partition(away, away[0], leader_epoch=2, partition_epoch=2)
        harness.set_image(topic("t", gone))
        await trio.testing.wait_all_tasks_blocked()
        follow(harness, 3)
        await trio.testing.wait_all_tasks_blocked()
        done.set()
        await until(lambda: leader.fetches)
        [named] = leader.fetches[0].topics[0].partitions
        assert (named.current_leader_epoch, named.fetch_offset) == (3, int(12 in away))


async def test_due_partition_waits_for_anothers_flush(tmp_path, monkeypatch):
    """No request can be sent before; polling would only use processor time."""
    written, looks = trio.Event(), []

    async def flush(some, then):
        await written.wait()
        return await syncing.carry_out(some, then)

    real = Fetcher._next_request
    monkeypatch.setattr(group_commit, "carry_out", flush)
    monkeypatch.setattr(Fetcher, "_next_request", lambda self: (looks.append(self), real(self))[1])
    async with followed(tmp_path, partitions=2) as (harness, leader):
        refused = data(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        leader.answer = once(answered(refused, data(1, records=record(1))))
        follow(harness, partitions=2)
        await until(lambda: looks and looks[0]._flushing)
        [fetcher] = set(looks)
        await until(lambda: fetcher._client.next_due < trio.current_time())
        looks.clear()
        follow(harness, partitions=3)
        for _ in range(50):
            await trio.lowlevel.checkpoint()
        assert len(looks) == 1, "one for the new partition"
        written.set()
        await until(lambda: len(leader.fetches) >= 2)
        assert leader.positions()[1] == [(1, 2), (2, 0)]
