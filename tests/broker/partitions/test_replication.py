"""Followers over real sockets and disks: data, truncation after a leader change, acks, sessions."""

from __future__ import annotations

import pytest
import trio.testing

from tests.broker.partitions.replicas import append, brokers, until
from tests.cluster.data_side import open_harness, partition, topic
from tests.log.helpers import batch_bytes
from trimaran.broker.replication import fetcher
from trimaran.broker.replication.fetch_client import FetchClient
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.identity import TopicPartition

pytestmark = pytest.mark.slow


async def test_follower_copies_leaders_appends(tmp_path):
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(topic("t", partition((11, 12))))
        first = append(cluster[11], b"a", b"b")
        await cluster[11].leader().high_watermark.wait_reached(first.last_offset + 1)
        second = append(cluster[11], b"c")
        await cluster[11].leader().high_watermark.wait_reached(second.last_offset + 1)
        leader_log, follower_log = cluster[11].leader().log, cluster.partition(12).log
        assert follower_log.flushed_offset == 3
        assert leader_log.read_bytes(0, 1 << 20, upto_offset=3) == follower_log.read_bytes(
            0, 1 << 20, upto_offset=3
        )
        await until(lambda: cluster.partition(12).high_watermark == 3)


async def test_empty_partition_has_no_directory(tmp_path):
    """A partition uses no files before its first record, on the leader and on the follower."""
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(topic("t", partition((11, 12))), topic("idle", partition((11, 12))))
        info = append(cluster[11], b"a")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        assert cluster[11].directory.partitions() == {("t", 0)}
        assert cluster[12].directory.partitions() == {("t", 0)}
        info = append(cluster[11], b"b", name="idle")
        await cluster[11].leader("idle").high_watermark.wait_reached(info.last_offset + 1)
        assert cluster[12].directory.partitions() == {("idle", 0), ("t", 0)}
        assert cluster.partition(12, "idle").log.flushed_offset == 1


async def test_leader_of_empty_partition_starts_for_follower(tmp_path):
    """Only the leader can propose that the follower is in sync again."""
    async with brokers(tmp_path, 11, 12) as cluster:
        other = topic("t", partition((11, 12)))
        cluster.assign(other, topic("idle", partition((11, 12))))
        info = append(cluster[11], b"a")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        assert cluster.partition(11, "idle").leader_or_none is None
        cluster.assign(other, topic("idle", partition((11, 12), isr=(11,), partition_epoch=1)))
        await until(lambda: cluster.partition(11, "idle").leader_or_none is not None)
        progress = cluster.partition(11, "idle").leader_or_none.followers[12]
        await until(lambda: progress.end_offset == 0)


async def test_three_replicas_and_many_batches_arrive_byte_identical(tmp_path):
    async with brokers(tmp_path, 11, 12, 13) as cluster:
        cluster.assign(topic("t", partition((11, 12, 13))))
        leader = cluster[11].leader()
        for number in range(200):
            info = append(cluster[11], b"x" * (number * 37 % 5000), str(number).encode())
            if number % 20 == 0:
                await leader.high_watermark.wait_reached(info.last_offset + 1)
        await leader.high_watermark.wait_reached(400)
        logs = [cluster.partition(node_id).log for node_id in (11, 12, 13)]
        contents = {log.read_bytes(0, 10 << 20, upto_offset=400) for log in logs}
        assert len(contents) == 1
        assert len(contents.pop()) == logs[0].size_bytes


async def test_new_partition_does_not_wait_for_long_poll(tmp_path):
    """The second request releases the first: the new topic is replicated long before the maximal wait is over."""
    async with brokers(tmp_path, 11, 12, replica_fetch_wait_max_ms="60000") as cluster:
        cluster.assign(topic("t", partition((11, 12))))
        info = append(cluster[11], b"a")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        for number in range(4):
            names = [f"u{n}" for n in range(number + 1)]
            cluster.assign(
                topic("t", partition((11, 12))), *(topic(n, partition((11, 12))) for n in names)
            )
            info = append(cluster[11], b"b", name=names[-1])
            await cluster[11].leader(names[-1]).high_watermark.wait_reached(info.last_offset + 1)
        assert {cluster.partition(12, name).log.log_end_offset for name in names} == {1}


async def test_new_partitions_are_fetched_together(tmp_path, monkeypatch):
    monkeypatch.setattr(fetcher, "NEW_PARTITION_BATCH_SECONDS", 3600.0)
    told = []  # the number of topics in each of the follower's requests
    real = FetchClient.next_request

    def next_request(self, now, *, in_flight):
        request = real(self, now, in_flight=in_flight)
        if request is not None and request.topics:
            told.append(len(request.topics))
        return request

    monkeypatch.setattr(FetchClient, "next_request", next_request)
    async with brokers(tmp_path, 11, 12, replica_fetch_wait_max_ms="60000") as cluster:
        topics = [topic("t", partition((11, 12)))]
        cluster.assign(*topics)
        info = append(cluster[11], b"a")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        told.clear()
        for number in range(5):
            topics.append(topic(f"u{number}", partition((11, 12))))
            cluster.assign(*topics)
            await until(lambda: told == [1])  # the first topic, immediately
            await trio.testing.wait_all_tasks_blocked()
        topics.append(topic("v", partition((11, 12), leader_epoch=1, partition_epoch=1)))
        cluster.assign(*topics)
        info = append(cluster[11], b"b", name="u4")
        await cluster[11].leader("u4").high_watermark.wait_reached(info.last_offset + 1)
        assert told[:2] == [1, 5]


async def test_diverged_follower_truncates_and_catches_up(tmp_path):
    """KIP-101: records that only the old leader has are truncated before they count as committed."""
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(topic("t", partition((11, 12))))
        info = append(cluster[11], b"shared")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        # 11 leads an epoch that 12 does not know, so 12's fetches are refused
        cluster[11].set_image(topic("t", partition((11, 12), leader_epoch=1, partition_epoch=1)))
        append(cluster[11], b"lost", b"lost")
        append(cluster[11], b"lost too")
        # 12 leads from its own log's end
        state = partition((11, 12), leader=12, leader_epoch=2, partition_epoch=2)
        cluster[12].set_image(topic("t", state))
        append(cluster[12], b"kept")
        cluster.assign(topic("t", state))
        await cluster[12].leader().high_watermark.wait_reached(2)
        mine = cluster.partition(11).log.read_bytes(0, 1 << 20, upto_offset=2)
        theirs = cluster[12].leader().log.read_bytes(0, 1 << 20, upto_offset=2)
        assert mine == theirs
        assert b"lost" not in mine
        assert cluster.partition(11).log.log_end_offset == 2


async def test_follower_below_leaders_start_moves_there(tmp_path):
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(topic("t", partition((11,))))
        for value in (b"a", b"b", b"c"):
            info = append(cluster[11], value)
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        cluster[11].leader().delete_records_before(2)
        cluster.assign(topic("t", partition((11, 12), leader_epoch=1, partition_epoch=1)))
        info = append(cluster[11], b"d")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        follower = cluster.partition(12).log
        assert (follower.log_start_offset, follower.log_end_offset) == (2, 4)


async def test_deleted_records_are_deleted_on_followers(tmp_path):
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(topic("t", partition((11, 12))))
        for value in (b"a", b"b", b"c"):
            info = append(cluster[11], value)
        leader = cluster[11].leader()
        await leader.high_watermark.wait_reached(info.last_offset + 1)
        leader.delete_records_before(2)
        await leader.low_watermark.wait_reached(2)
        assert cluster.partition(12).log.log_start_offset == 2


async def test_caught_up_follower_joins_the_isr(tmp_path):
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(topic("t", partition((11, 12), isr=(11,))))
        info = append(cluster[11], b"a")
        leader = cluster[11].leader()
        await until(lambda: cluster[11].isr_changes.submitted)
        [(owner, change)] = cluster[11].isr_changes.submitted
        assert owner is leader
        assert change.new_isr == ((11, 111), (12, 112))
        await leader.high_watermark.wait_reached(info.last_offset + 1)


async def test_write_behind_replicates_too(tmp_path):
    async with brokers(tmp_path, 11, 12, trimaran_log_fsync="none") as cluster:
        cluster.assign(topic("t", partition((11, 12))))
        info = append(cluster[11], b"a")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        assert cluster.partition(12).log.log_end_offset == 1


async def test_replication_continues_after_connection_loss(tmp_path):
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(topic("t", partition((11, 12))))
        info = append(cluster[11], b"a")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        sessions = cluster[11].contexts.data.fetch_sessions
        await until(lambda: len(sessions) == 1)
        for session_id in list(sessions._sessions):
            sessions.close(session_id)
        info = append(cluster[11], b"b")
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        assert cluster.partition(12).log.log_end_offset == info.last_offset + 1
        assert len(sessions) == 1, "it opened another one"


def test_followers_segments_roll_by_age_too(tmp_path):
    """Without timestamps in the records only the clock shows that segment.ms has passed."""
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition((11, 12), leader=12)))
    follower = harness.partitions.find(TopicPartition("t", 0)).open_follower()
    began_ms = now_ms()
    follower.append(memoryview(batch_bytes(1, timestamp_ms=-1)))
    assert began_ms <= follower.log.active_segment.opened_ms <= now_ms()
