"""Shards over real logs: loading, serving, losing leadership, and requests that wait."""

from __future__ import annotations

import logging
import threading
from itertools import chain

import pytest
import trio
import trio.testing

from tests.broker.groups.driver import GROUP_DEPENDENCIES, subscription
from tests.broker.groups.kafka_logs import ORDERS_ID, PAIR
from tests.broker.groups.rig import TOPIC_ID, cluster_image, open_rig, topic_image
from trimaran.broker.coordination import loader
from trimaran.broker.coordination.loader import CoordinatorLoader
from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.consumer import kind as consumer
from trimaran.broker.groups.consumer.groups import ConsumerHeartbeat
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.records import OFFSETS_TOPIC
from trimaran.broker.groups.registry import serde_of
from trimaran.broker.groups.shard import GroupCoordinatorShard
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.producers.marker import EndMarker
from trimaran.node.replicated.state_machine import Producer
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.steps import at_once
from trimaran.node.runtime.watermark import Watermark
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from trimaran.wire.records.topics import RemoveTopicRecord

E = ErrorCode
DAY_MS = 24 * 3600 * 1000


def join_request(member_id="", group="g", session_ms=10_000):
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription([]))],
    )


def sync_request(member_id, generation, assignments=None, group="g"):
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=m, assignment=a)
            for m, a in (assignments or {}).items()
        ],
    )


def commit_request(offset, group="g", member_id="", generation=-1):
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])],
    )


def heartbeat(rig, given):
    return rig.groups.member_heartbeat(consumer.KIND, given.request.group_id, given)


def new_member(member_id, group="g", instance=None):
    """Sends the first heartbeat of a member of the consumer protocol."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=0,
        instance_id=instance,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return ConsumerHeartbeat(request, 1, "c", "/h", member_id, lambda _name: True)


def fetch_all(rig, group="g"):
    return rig.groups.fetch_offsets(OffsetFetchRequestGroup(group_id=group, topics=None))


def offsets_in(response):
    return {
        (t.name, p.partition_index): p.committed_offset
        for t in response.topics
        for p in t.partitions
    }


def code_of(caught):
    return caught.value.code


async def test_groups_are_served_only_between_load_and_end(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        with pytest.raises(KafkaError) as caught:
            rig.groups.commit_offsets(commit_request(1), 9)
        assert code_of(caught) is E.NOT_COORDINATOR
        rig.lead(index)
        with pytest.raises(KafkaError) as caught:
            rig.groups.commit_offsets(commit_request(1), 9)
        assert code_of(caught) is E.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(KafkaError) as caught:
            rig.groups.unverified_from("g", Producer(5, 0))
        assert code_of(caught) is E.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(KafkaError) as caught:
            [*chain.from_iterable(rig.groups.list_groups((), ()))]
        assert code_of(caught) is E.COORDINATOR_LOAD_IN_PROGRESS
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert rig.groups.heartbeat(beat) is E.NONE
        await rig.loaded(index)
        assert rig.groups.heartbeat(beat) is E.UNKNOWN_MEMBER_ID
        assert rig.groups.commit_offsets(commit_request(1), 9).ready()
        rig.resign(index)
        with pytest.raises(KafkaError) as caught:
            fetch_all(rig)
        assert code_of(caught) is E.NOT_COORDINATOR
        assert [*chain.from_iterable(rig.groups.list_groups((), ()))] == []


async def test_coordinator_has_its_groups_by_kind(tmp_path):
    async with open_rig(tmp_path) as rig:
        kinds = (classic.KIND, consumer.KIND)
        assert [rig.groups.has(kind, "g") for kind in kinds] == [False, False]
        rig.lead(rig.index_of("g"))
        assert [rig.groups.has(kind, "g") for kind in kinds] == [False, False]
        await rig.loaded(rig.index_of("g"))
        assert [rig.groups.has(kind, "g") for kind in kinds] == [False, False]
        heartbeat(rig, new_member("a"))
        assert [rig.groups.has(kind, "g") for kind in kinds] == [False, True]
        rig.resign(rig.index_of("g"))
        assert [rig.groups.has(kind, "g") for kind in kinds] == [False, False]


async def test_another_epoch_loads_written_offsets(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        for offset in range(1, 4):
            rig.groups.commit_offsets(commit_request(offset), 9)
        rig.resign(index)
        rig.lead(index, epoch=1)
        await rig.loaded(index)
        pending = fetch_all(rig)
        assert pending.ready()
        assert offsets_in(pending.response) == {("t", 0): 3}


async def test_kafkas_log_is_loaded(tmp_path):
    async with open_rig(tmp_path, GroupLimits(load_buffer_bytes=200)) as rig:
        index = rig.index_of("pair")
        assert index == 28
        leader = rig.lead(index)
        rig.resign(index)
        leader.log.append_as_follower(memoryview(PAIR))
        rig.metadata.image = cluster_image(
            topic_image("orders", ORDERS_ID, 4), rig.metadata.image.topics.by_name[OFFSETS_TOPIC]
        )
        rig.lead(index, epoch=1)
        await rig.loaded(index)
        found = offsets_in(fetch_all(rig, "pair").response)
        assert found == {("orders", p): 10 for p in range(4)}
        described, _members = rig.groups.describe_group("pair", 6)
        assert (described.group_state, described.protocol_type) == ("Empty", "consumer")


async def test_commit_is_answered_after_isr_replication(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        leader.holding = True
        pending = rig.groups.commit_offsets(commit_request(5), 9)
        assert not pending.ready()
        # Uncommitted offsets must not be read: this response waits as well (G3).
        read = fetch_all(rig)
        assert not read.ready()
        leader.commit()
        assert offsets_in(await read.wait()) == {("t", 0): 5}
        answer = await pending.wait()
        assert answer.topics[0].partitions[0].error_code == E.NONE


async def test_unreplicated_commit_times_out(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        leader.holding = True
        pending = rig.groups.commit_offsets(commit_request(5), 9)
        began = trio.current_time()
        with pytest.raises(KafkaError) as caught:
            await pending.wait()
        assert code_of(caught) is E.COORDINATOR_NOT_AVAILABLE
        assert trio.current_time() - began == pytest.approx(5)
        rig.resign(index)
        with pytest.raises(KafkaError) as caught:
            await pending.wait()
        assert code_of(caught) is E.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_failed_append_refuses_the_commit(tmp_path, failure, answer):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        leader.failing = failure
        with pytest.raises(KafkaError) as caught:
            rig.groups.commit_offsets(commit_request(5), 9)
        assert code_of(caught) is answer
        leader.failing = None
        assert offsets_in(fetch_all(rig).response) == {}


async def test_commit_larger_than_batch_is_refused(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        request = commit_request(1)
        one = request.topics[0].partitions[0]
        one.committed_metadata = "m" * 4096
        request.topics[0].partitions = [one] * 300
        with pytest.raises(KafkaError) as caught:
            rig.groups.commit_offsets(request, 9)
        assert code_of(caught) is E.UNKNOWN_SERVER_ERROR


def deleted(rig, *group_ids):
    codes, pending = {}, []
    at_once(rig.groups.delete_groups(group_ids, codes, pending))
    return codes, pending


async def test_group_joined_during_deletion_is_kept(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        request = commit_request(1)
        request.topics[0].partitions = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=1, committed_metadata=None
            )
            for index in range(600)
        ]
        rig.groups.commit_offsets(request, 9)
        codes, pending = {}, []
        deleting = rig.groups.delete_groups(["g"], codes, pending)
        assert [next(deleting), next(deleting)] == [1, 500]
        rig.groups.join(join_request(), 3, "c", "/h")
        assert next(deleting) == 0
        assert next(deleting, None) is None
        assert (codes, pending[-1].response) == ({}, {"g": E.NON_EMPTY_GROUP})
        assert len(offsets_in(fetch_all(rig).response)) == 100


async def test_many_tombstones_are_cut_into_batches(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        for first in range(0, 2_500, 500):
            request = commit_request(1)
            request.topics[0].partitions = [
                OffsetCommitRequestPartition(
                    partition_index=p, committed_offset=1, committed_metadata=None
                )
                for p in range(first, first + 500)
            ]
            rig.groups.commit_offsets(request, 9)
        before = leader.log.log_end_offset
        refused, pending = deleted(rig, "g")
        assert refused == {}
        assert all(response.ready() for response in pending)
        assert [item.response for item in pending] == [{}] * 5 + [{"g": E.NONE}]
        written = leader.log.read_bytes(before, 1 << 20, upto_offset=leader.log.log_end_offset)
        assert [batch.count for batch in iter_batches(written)] == [500] * 5 + [1]
        assert [*chain.from_iterable(rig.groups.list_groups((), ()))] == []


async def test_rebalance_completes_within_its_delays(tmp_path, autojump_clock):
    """Runs two members from the first join to their assignments; time passes only while the coordinator makes them
    wait.
    """
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        began = trio.current_time()
        assigned = {}

        async def member(name):
            first = await rig.groups.join(join_request(), 9, name, "/h").wait()
            assert first.error_code == E.MEMBER_ID_REQUIRED
            joined = await rig.groups.join(join_request(first.member_id), 9, name, "/h").wait()
            plan = {m.member_id: m.member_id.encode() for m in joined.members}
            synced = await rig.groups.sync(
                sync_request(joined.member_id, joined.generation_id, plan)
            ).wait()
            assigned[joined.member_id] = synced.assignment

        async with trio.open_nursery() as nursery:
            for name in ("a", "b"):
                nursery.start_soon(member, name)
        assert assigned == {m: m.encode() for m in assigned}
        assert len(assigned) == 2
        assert 3 <= trio.current_time() - began < 3.5
        # Both stop sending heartbeats; after their sessions the group is empty.
        await trio.sleep(11)
        described, _members = rig.groups.describe_group("g", 6)
        assert described.group_state == "Empty"


async def test_fifty_members_join_in_one_delay(tmp_path, autojump_clock):
    """Apache Kafka takes 6.1 s, because it adds a second delay of 3 s."""
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        began = trio.current_time()
        stable = []

        async def member(name):
            first = await rig.groups.join(join_request(), 9, name, "/h").wait()
            joined = await rig.groups.join(join_request(first.member_id), 9, name, "/h").wait()
            plan = {m.member_id: b"x" for m in joined.members}
            await rig.groups.sync(sync_request(joined.member_id, joined.generation_id, plan)).wait()
            stable.append(joined.generation_id)

        async with trio.open_nursery() as nursery:
            for i in range(50):
                nursery.start_soon(member, f"c{i}")
        assert stable == [1] * 50
        assert trio.current_time() - began < 3.5


async def test_waiter_fails_when_epoch_ends(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        pending = rig.groups.join(join_request(), 3, "a", "/h")
        assert not pending.ready()
        rig.resign(index)
        assert (await pending.wait()).error_code == E.NOT_COORDINATOR


async def test_waiter_fails_when_broker_stops(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        pending = rig.groups.join(join_request(), 3, "a", "/h")
    assert (await pending.wait()).error_code == E.NOT_COORDINATOR


async def test_assignment_waits_for_its_commit(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        joined = await rig.groups.join(join_request(), 3, "a", "/h").wait()
        leader.holding = True
        pending = rig.groups.sync(sync_request(joined.member_id, 1, {joined.member_id: b"all"}))
        await trio.sleep(1)
        assert not pending.ready()
        leader.commit()
        assert (await pending.wait()).assignment == b"all"
        rig.groups.leave(
            LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)]), 5
        )
        assert rig.groups.describe_group("g", 6)[0].group_state == "Empty"


async def test_unreadable_log_fails_alone(tmp_path, caplog):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        rig.resign(index)
        bad = build_batch([NewRecord(b"\0\1cut", b"\0\4", now_ms())])
        buffer = memoryview(bytearray(bad))
        leader.log.append_as_leader(buffer, list(iter_batches(buffer)), leader_epoch=0, now_ms=0)
        other = next(f"g{i}" for i in range(100) if rig.index_of(f"g{i}") != index)
        rig.lead(rig.index_of(other))
        await rig.loaded(rig.index_of(other))
        with caplog.at_level(logging.CRITICAL, logger="trimaran.broker.coordination.shard_epoch"):
            rig.lead(index, epoch=1)
            await rig.loaded(index)
        with pytest.raises(KafkaError) as caught:
            fetch_all(rig)
        assert code_of(caught) is E.NOT_COORDINATOR
        assert rig.groups.commit_offsets(commit_request(1, other), 9).ready()
        assert [g.group_id for g in [*chain.from_iterable(rig.groups.list_groups((), ()))]] == [
            other
        ]
        # The next leadership may succeed.
        rig.resign(index)
        leader.log.truncate_to(0)
        rig.lead(index, epoch=2)
        await rig.loaded(index)
        assert fetch_all(rig).ready()


async def test_loaded_offsets_are_answered_once_committed(tmp_path):
    """A new leader has all committed records, but does not know the high watermark yet."""
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        rig.groups.commit_offsets(commit_request(1), 9)
        leader.holding = True
        rig.groups.commit_offsets(commit_request(2), 9)
        watermark = leader.high_watermark.offset
        rig.resign(index)
        leader = rig.lead(index, epoch=1)
        leader.high_watermark = Watermark(watermark)
        await rig.loaded(index)
        found = fetch_all(rig)
        assert offsets_in(found.response) == {("t", 0): 2}
        assert not found.ready()
        leader.commit()
        assert found.ready()


async def test_new_coordinator_gives_assignment_after_commit(tmp_path):
    """The member's first response may have been lost with the coordinator that appended the assignment."""
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        joined = await rig.groups.join(join_request(), 3, "a", "/h").wait()
        leader.holding = True
        watermark = leader.high_watermark.offset
        request = sync_request(joined.member_id, 1, {joined.member_id: b"all"})
        assert not rig.groups.sync(request).ready()
        for outcome in ("not committed", "committed"):
            rig.resign(index)
            leader = rig.lead(index, epoch=leader.epoch + 1)
            leader.high_watermark = Watermark(watermark)
            await rig.loaded(index)
            again = rig.groups.sync(sync_request(joined.member_id, 1))
            await trio.testing.wait_all_tasks_blocked()
            assert not again.ready(), outcome
        leader.commit()
        assert (await again.wait()).assignment == b"all"
        told = rig.groups.sync(sync_request(joined.member_id, 1))
        assert told.ready(), "all that the log has is committed"


async def test_assignment_waiter_fails_when_coordinator_moves(
    tmp_path,
):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        joined = await rig.groups.join(join_request(), 3, "a", "/h").wait()
        leader.holding = True
        rig.groups.sync(sync_request(joined.member_id, 1, {joined.member_id: b"all"}))
        rig.resign(index)
        leader = rig.lead(index, epoch=1)
        leader.high_watermark = Watermark(0)
        await rig.loaded(index)
        again = rig.groups.sync(sync_request(joined.member_id, 1))
        rig.resign(index)
        assert (await again.wait()).error_code == E.NOT_COORDINATOR


async def test_epoch_loads_after_previous_has_unwound(tmp_path, monkeypatch):
    """The old epoch's threads must have ended, too; otherwise the new epoch would write while the old one reads."""
    may_read, reads = threading.Event(), []
    feed = CoordinatorLoader.feed

    def slow(loader, data):
        reads.append(loader)
        may_read.wait(30)
        return feed(loader, data)

    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        rig.groups.commit_offsets(commit_request(1), 9)
        rig.resign(index)
        monkeypatch.setattr(CoordinatorLoader, "feed", slow)
        rig.lead(index, epoch=1)
        await trio.testing.wait_all_tasks_blocked()
        rig.resign(index)
        rig.lead(index, epoch=2)
        await trio.testing.wait_all_tasks_blocked()
        assert len(reads) <= 1
        may_read.set()
        await rig.loaded(index)
        assert len(reads) == 2
        assert offsets_in(fetch_all(rig).response) == {("t", 0): 1}


async def test_epoch_ended_during_load_never_serves(tmp_path, monkeypatch):
    may_finish = threading.Event()
    replay_into = CoordinatorLoader.replay_into

    def slow(loader, *into):
        may_finish.wait(30)
        replay_into(loader, *into)

    monkeypatch.setattr(CoordinatorLoader, "replay_into", slow)
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        loading = rig.epoch(index)
        await trio.testing.wait_all_tasks_blocked()
        rig.resign(index)
        may_finish.set()
        rig.lead(index, epoch=1)
        await rig.loaded(index)  # the new epoch loads after the previous one has ended
        assert loading.state is ShardState.CLOSED


async def test_end_of_older_epoch_ends_nothing(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index, epoch=5)
        await rig.loaded(index)
        rig.groups.runtime.ended(index, 4)
        assert rig.groups.commit_offsets(commit_request(1), 9).ready()


async def test_leadership_changing_while_loading_ends_in_newest(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        for epoch in range(5):
            rig.lead(index, epoch)
            if epoch % 2:
                await trio.lowlevel.checkpoint()
            rig.resign(index)
        rig.groups.runtime.ended(index, 9)  # from an epoch whose beginning was not announced
        rig.lead(index, epoch=10)
        await rig.loaded(index)
        assert rig.groups.commit_offsets(commit_request(1), 9).ready()


async def test_offsets_of_deleted_topics_are_removed(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        rig.groups.commit_offsets(commit_request(1), 9)
        delta = MetadataDelta(rig.metadata.image)
        rig.groups.publish(delta, rig.metadata.image, None)
        assert offsets_in(fetch_all(rig).response) == {("t", 0): 1}
        delta.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
        rig.groups.publish(delta, rig.metadata.image, None)
        assert offsets_in(fetch_all(rig).response) == {}


AGAIN = b"topic-id-of-t--2"


def recreate_topic(rig):
    """Deletes topic `t` and creates it again; notifies the metadata's subscribers."""
    old = rig.metadata.image
    delta = MetadataDelta(old)
    delta.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    rig.metadata.image = cluster_image(
        topic_image("t", AGAIN, 4), old.topics.by_name[OFFSETS_TOPIC]
    )
    rig.groups.publish(delta, rig.metadata.image, None)


def stored_offsets(rig, index):
    """Returns the offsets that a coordinator loads from the log."""
    loader, log = CoordinatorLoader(serde_of()), rig.leaders[index].log
    shard = GroupCoordinatorShard(rig.limits, lambda *_: True, GROUP_DEPENDENCIES)
    found = log.read(0, 1 << 22, upto_offset=log.log_end_offset, min_one=True)
    loader.feed(found.read())
    loader.replay_into(shard)
    return shard.store.offsets


LONG_IDS = [f"{number}".rjust(3_000, "g") for number in range(400)]


def delete_topic(rig):
    delta = MetadataDelta(rig.metadata.image)
    delta.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    rig.groups.publish(delta, rig.metadata.image, None)


@pytest.mark.parametrize("remove", [delete_topic, lambda rig: deleted(rig, *LONG_IDS)])
async def test_removed_groups_may_exceed_a_batch(tmp_path, remove):
    """A tombstone has the id of its group: together they take 1.2 MB."""
    async with open_rig(tmp_path, GroupLimits(partition_count=1)) as rig:
        rig.lead(0)
        await rig.loaded(0)
        for group_id in LONG_IDS:
            rig.groups.commit_offsets(commit_request(1, group_id), 9)
        assert len(stored_offsets(rig, 0)) == len(LONG_IDS)
        remove(rig)
        assert stored_offsets(rig, 0) == {}


@pytest.mark.parametrize("retention_ms", [-1, DAY_MS], ids=["with topic id", "without"])
async def test_offsets_of_topic_deleted_during_load_disappear(tmp_path, monkeypatch, retention_ms):
    """A commit with its own expiry is stored without the topic's id."""
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        commit = commit_request(1)
        commit.retention_time_ms = retention_ms
        rig.groups.commit_offsets(commit, 4)
        rig.resign(index)

        async def deleted_meanwhile(step, *args):
            monkeypatch.undo()
            result = step(*args)
            recreate_topic(rig)
            return result

        monkeypatch.setattr(loader, "run_blocking", deleted_meanwhile)
        rig.lead(index, epoch=1)
        await rig.loaded(index)
        assert offsets_in(fetch_all(rig).response) == {}
        assert stored_offsets(rig, index) == {}


async def test_offsets_of_topic_deleted_without_leader_disappear(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        rig.groups.commit_offsets(commit_request(1), 9)
        rig.resign(index)
        recreate_topic(rig)
        rig.lead(index, epoch=1)
        await rig.loaded(index)
        assert offsets_in(fetch_all(rig).response) == {}
        assert stored_offsets(rig, index) == {}


async def test_offsets_of_existing_topic_survive_load(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        recreate_topic(rig)
        commit = commit_request(1)
        commit.topics[0].topic_id = AGAIN
        rig.groups.commit_offsets(commit, 9)
        rig.resign(index)
        rig.lead(index, epoch=1)
        await rig.loaded(index)
        assert offsets_in(fetch_all(rig).response) == {("t", 0): 1}


async def test_invalid_requests_are_refused(tmp_path):
    async with open_rig(tmp_path) as rig:
        for call in (
            lambda: rig.groups.join(join_request(group=""), 9, "c", "/h"),
            lambda: rig.groups.sync(sync_request("m", 1, group="")),
            lambda: rig.groups.heartbeat(
                HeartbeatRequest(group_id="", generation_id=1, member_id="m")
            ),
            lambda: rig.groups.leave(LeaveGroupRequest(group_id=""), 5),
            lambda: rig.groups.delete_offsets("", []),
            lambda: rig.groups.commit_offsets_in_transaction(
                commit_request(1, group=""), 5, Producer(7, 0), None
            ),
        ):
            with pytest.raises(KafkaError) as caught:
                call()
            assert code_of(caught) is E.INVALID_GROUP_ID
        for session_ms in (5_999, 1_800_001, -1):
            with pytest.raises(KafkaError) as caught:
                rig.groups.join(join_request(session_ms=session_ms), 9, "c", "/h")
            assert code_of(caught) is E.INVALID_SESSION_TIMEOUT
        for session_ms in (6_000, 1_800_000):
            with pytest.raises(KafkaError) as caught:
                rig.groups.join(join_request(session_ms=session_ms), 9, "c", "/h")
            assert code_of(caught) is E.NOT_COORDINATOR


async def test_groups_of_other_shards_are_refused_individually(tmp_path):
    async with open_rig(tmp_path) as rig:
        refused, pending = deleted(rig, "g", "h")
        assert refused == {"g": E.NOT_COORDINATOR, "h": E.NOT_COORDINATOR}
        assert not pending


async def test_groups_are_not_deleted_while_unwritable(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        assert deleted(rig, "g") == ({"g": E.COORDINATOR_LOAD_IN_PROGRESS}, [])
        await rig.loaded(index)
        rig.groups.commit_offsets(commit_request(1), 9)
        leader.failing = E.NOT_ENOUGH_REPLICAS
        assert deleted(rig, "g") == ({"g": E.COORDINATOR_NOT_AVAILABLE}, [])
        assert offsets_in(fetch_all(rig).response) == {("t", 0): 1}


async def test_classic_group_survives_failed_upgrade(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        joined = await rig.groups.join(join_request(), 3, "a", "/h").wait()
        await rig.groups.sync(sync_request(joined.member_id, 1)).wait()
        leader.failing = E.NOT_ENOUGH_REPLICAS
        with pytest.raises(KafkaError) as caught:
            heartbeat(rig, new_member("n"))
        assert code_of(caught) is E.COORDINATOR_NOT_AVAILABLE
        leader.failing = None
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert rig.groups.heartbeat(beat) is E.NONE
        assert (await heartbeat(rig, new_member("n")).wait()).member_id == "n"
        group = rig.epoch(index).active().store.of("consumer")["g"]
        assert set(group.members) == {joined.member_id, "n"}


LEAVING, AWAY = -1, -2


@pytest.mark.parametrize(("instance", "left"), [(None, LEAVING), ("i", LEAVING), ("i", AWAY)])
async def test_member_that_cannot_leave_expires(tmp_path, autojump_clock, instance, left):
    """The member sends this once and vanishes; the group keeps nothing of it beyond its session."""
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        await heartbeat(rig, new_member("n", instance=instance)).wait()
        leader.failing = E.NOT_ENOUGH_REPLICAS
        leaving = new_member("n", instance=instance)
        leaving.request.member_epoch = left
        with pytest.raises(KafkaError):
            heartbeat(rig, leaving)
        leader.failing = None
        group = rig.epoch(index).active().store.of("consumer")["g"]
        assert set(group.members) == {"n"}
        await trio.sleep(46)
        assert not group.members


async def test_member_that_could_not_be_replaced_expires(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        await heartbeat(rig, new_member("n", instance="i")).wait()
        away = new_member("n", instance="i")
        away.request.member_epoch = AWAY
        await heartbeat(rig, away).wait()
        leader.failing = E.NOT_ENOUGH_REPLICAS
        with pytest.raises(KafkaError):
            heartbeat(rig, new_member("m", instance="i"))
        leader.failing = None
        group = rig.epoch(index).active().store.of("consumer")["g"]
        assert set(group.members) == {"n"}
        await trio.sleep(46)
        assert not group.members


async def test_member_without_a_group_is_refused(tmp_path):
    async with open_rig(tmp_path) as rig:
        with pytest.raises(KafkaError, match="GroupId can't be empty") as refused:
            heartbeat(rig, new_member("n", group=""))
        assert refused.value.code is E.INVALID_REQUEST


async def test_commit_after_end_of_verified_transaction_is_refused(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        producer = Producer(5, 0)
        verified = rig.groups.unverified_from("g", producer)
        rig.groups.commit_offsets_in_transaction(commit_request(7), 5, producer, verified)
        assert rig.groups.unverified_from("g", producer) is None
        rig.groups.complete_transaction(index, producer, EndMarker(False, 0), 1)
        with pytest.raises(KafkaError) as refused:
            rig.groups.commit_offsets_in_transaction(commit_request(8), 5, producer, verified)
        assert refused.value.code is E.INVALID_TXN_STATE


async def test_offsets_of_transaction_are_applied_by_timer(tmp_path, monkeypatch):
    monkeypatch.setattr("trimaran.broker.groups.store.APPLIED_AT_ONCE", 0)
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        producer, store = Producer(5, 0), rig.epoch(index).active().store
        verified = rig.groups.unverified_from("g", producer)
        rig.groups.commit_offsets_in_transaction(commit_request(7), 5, producer, verified)
        rig.groups.complete_transaction(index, producer, EndMarker(True, 0), 1)
        assert (store.is_completing("g"), store.offset_count("g")) == (True, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert (store.is_completing("g"), store.offset_count("g")) == (False, 1)


async def test_end_of_connection_ends_unfinished_joins(tmp_path, autojump_clock):
    """A shard that is still loading, or has ended, knows of no connection."""
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        other = rig.index_of("h")
        assert other != index
        rig.lead(other)  # the shard gets no turn to load
        rig.groups.join(join_request(session_ms=60_000), 9, "c", "/h", connection=7)
        group = rig.epoch(index).active().of(classic.KIND).groups["g"]
        assert len(group.pending) == 1
        for connection in (8, 7):
            assert rig.groups.closing(connection) == rig.groups.closing(connection)
            rig.groups.closing(connection)()
            await trio.sleep(11)
            assert len(group.pending) == (1 if connection == 8 else 0)


async def test_unwritable_group_leaves_nothing(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index).failing = E.NOT_ENOUGH_REPLICAS
        await rig.loaded(index)
        with pytest.raises(KafkaError):
            heartbeat(rig, new_member("n"))
        assert not rig.epoch(index).active().of(consumer.KIND)._works


async def test_partition_count_is_that_of_existing_topic(tmp_path):
    """The setting counts only until the topic exists."""
    async with open_rig(tmp_path, GroupLimits(partition_count=4)) as rig:
        assert rig.groups.partition_count() == 4
        rig.groups.limits = GroupLimits(partition_count=50)
        assert rig.groups.partition_count() == 4
        rig.metadata.image = cluster_image()
        assert rig.groups.partition_count() == 50


async def commits_in_pieces(rig, count=5):
    """Returns a shard with `count` earlier commits, to be loaded one by one."""
    index = rig.index_of("g")
    rig.lead(index)
    await rig.loaded(index)
    for offset in range(count):
        rig.groups.commit_offsets(commit_request(offset), 9)
    rig.resign(index)
    return index


async def test_loader_looks_up_log_on_loop(tmp_path, monkeypatch):
    """The loop swaps the log's files when they are compacted: a thread that opened them at that moment would fail, and
    take the directory offline.
    """
    threads = []
    read = PartitionLog.read

    def noting(log, *args, **kwargs):
        threads.append(threading.get_ident())
        return read(log, *args, **kwargs)

    async with open_rig(tmp_path, GroupLimits(partition_count=4, load_buffer_bytes=1)) as rig:
        index = await commits_in_pieces(rig)
        monkeypatch.setattr(PartitionLog, "read", noting)
        rig.lead(index, 1)
        await rig.loaded(index)
    assert threads == [threading.get_ident()] * 5


async def test_log_removed_during_load_is_not_read(tmp_path, monkeypatch):
    async with open_rig(tmp_path, GroupLimits(partition_count=4, load_buffer_bytes=1)) as rig:
        index = await commits_in_pieces(rig)
        log, gone = rig.leaders[index].log, tmp_path / "gone"

        async def gone_meanwhile(step, *args):
            if not gone.exists():
                rig.resign(index)
                log.close(clean=False)
                log.directory.rename(gone)
            return step(*args)

        monkeypatch.setattr(loader, "run_blocking", gone_meanwhile)
        rig.lead(index, 1)
        await rig.loaded(index)
        with log.storage("looked at"):
            assert gone.exists(), "it went meanwhile, and that was no failure of the disk"
        gone.rename(log.directory)
