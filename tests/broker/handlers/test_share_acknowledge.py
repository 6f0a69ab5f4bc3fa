"""ShareAcknowledge: sessions, the write before each response, and the errors of each partition."""

from __future__ import annotations

import pytest
import trio

from tests.broker.calls import Paused, started
from tests.broker.sharing.rig import refusals, sharing_rig, shown
from tests.cluster.data_side import topic_id
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import share_acknowledge as messages


async def acquired(rig, size=10):
    """Lets member m acquire records; its next epoch is 2."""
    rig.produce(size)
    rig.states.open = trio.Event()
    await rig.fetched(0, 0)
    rig.states.open.set()
    await trio.testing.wait_all_tasks_blocked()
    assert shown(await rig.fetched(1)) == {0: (0, [(0, size - 1, 1)], 0)}


async def test_response_follows_the_write(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        rig.states.open = trio.Event()
        waiting = started(rig.acknowledge(2, {0: [(0, 9, [1])]}))
        assert isinstance(waiting, Paused)
        assert not waiting.ready()
        rig.states.open.set()
        response = await waiting.finish()
        assert refusals(response) == {0: 0}
        assert response.acquisition_lock_timeout_ms == 30_000
        assert rig.states.written == [[(0, 9, 2, 1)]]


async def test_writes_are_sent_one_by_one(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        rig.states.open = trio.Event()
        waiting = [
            started(rig.acknowledge(epoch, {0: [(epoch, epoch, [1])]})) for epoch in (2, 3, 4)
        ]
        await trio.testing.wait_all_tasks_blocked()
        rig.states.open.set()
        assert [refusals(await each.finish()) for each in waiting] == [{0: 0}] * 3
        assert rig.states.written_batches == [(2, 2, 2, 1), (3, 3, 2, 1), (4, 4, 2, 1)]
        assert rig.states.writing_max == 1


async def test_failed_write_returns_the_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        rig.states.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
        response = await rig.acknowledged(2, {0: [(0, 9, [1])]})
        assert refusals(response) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        rig.states.failure = None
        assert refusals(await rig.acknowledged(3, {0: [(0, 9, [1])]})) == {0: 0}


async def test_last_acknowledgement_of_partition_counts(tmp_path):
    """Kafka keeps those of a partition in a map."""
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        topics = [
            messages.AcknowledgeTopic(topic_id=topic_id("t"), partitions=[accepting(0, last)])
            for last in (9, 4)
        ]
        assert refusals(await rig.acknowledged(2, {}, topics=topics)) == {0: 0}
        assert rig.states.written_batches == [(0, 4, 2, 1)]


def accepting(first, last):
    batch = messages.AcknowledgementBatch(
        first_offset=first, last_offset=last, acknowledge_types=[1]
    )
    return messages.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])


@pytest.mark.parametrize("code", [ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH])
async def test_fenced_write_makes_the_state_read_anew(tmp_path, code):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        rig.states.failure = code
        response = await rig.acknowledged(2, {0: [(0, 9, [1])]})
        assert refusals(response) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
        rig.states.failure = None
        assert rig.share() is None
        again = started(rig.fetch(3, max_wait_ms=1_000))
        assert shown(await again.finish()) == {0: (0, [(0, 9, 1)], 0)}


async def test_lost_leadership_fails_a_write_in_progress(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        rig.states.open = trio.Event()
        waiting = started(rig.acknowledge(2, {0: [(0, 9, [1])]}))
        await trio.testing.wait_all_tasks_blocked()
        rig.set_image(replicas=(11, 12), leader=12, leader_epoch=5)
        response = await waiting.finish()
        assert refusals(response) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
        leader = response.responses[0].partitions[0].current_leader
        assert (leader.leader_id, leader.leader_epoch) == (12, 5)


async def test_final_epoch_ends_the_session(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        assert refusals(await rig.acknowledged(-1, {0: [(0, 4, [1])]})) == {0: 0}
        await trio.testing.wait_all_tasks_blocked()
        assert rig.states.written_batches == [(0, 4, 2, 1), (5, 9, 0, 1)]
        with pytest.raises(KafkaError) as refused:
            await rig.acknowledged(2, {0: [(5, 9, [1])]})
        assert refused.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (1, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (3, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ],
)
async def test_epochs_out_of_order_are_refused(tmp_path, epoch, code):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        with pytest.raises(KafkaError) as refused:
            await rig.acknowledged(epoch, {0: [(0, 9, [1])]})
        assert refused.value.code is code
        assert rig.states.written == []


async def test_each_partition_has_its_error(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        await acquired(rig)
        unknown = messages.AcknowledgeTopic(
            topic_id=topic_id("u"),
            partitions=[
                messages.AcknowledgePartition(partition_index=5, acknowledgement_batches=[])
            ],
        )
        known = messages.AcknowledgeTopic(
            topic_id=topic_id("t"),
            partitions=[
                messages.AcknowledgePartition(
                    partition_index=index,
                    acknowledgement_batches=[
                        messages.AcknowledgementBatch(
                            first_offset=0, last_offset=0, acknowledge_types=[1]
                        )
                    ],
                )
                for index in (0, 1, 7)
            ],
        )
        response = await rig.acknowledged(2, {}, topics=[unknown, known])
        assert refusals(response) == {
            5: ErrorCode.UNKNOWN_TOPIC_ID,
            0: 0,
            1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_renewal_needs_its_flag_and_version(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await acquired(rig)
        rig.harness.now += 10
        refused = await rig.acknowledged(2, {0: [(0, 9, [4])]})
        assert refusals(refused) == {0: ErrorCode.INVALID_REQUEST}
        old = await rig.acknowledged(3, {0: [(0, 9, [4])]}, version=1)
        assert refusals(old) == {0: ErrorCode.INVALID_REQUEST}
        renewed = await rig.acknowledged(4, {0: [(0, 9, [4])]}, is_renew_ack=True)
        assert refusals(renewed) == {0: 0}
        assert rig.share().core.next_deadline == rig.harness.now + 30
