"""The rules of a leader epoch, one test each: what the watermark waits for, and what ends with the epoch."""

from __future__ import annotations

import pytest

from tests.broker.batches import append, batch
from tests.broker.partitions.leading import LAG_SECONDS, Followers, lead, proposals, write
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.log.batches.batch import iter_batches
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition


@pytest.fixture
def followers(harness):
    return Followers(harness)


# -- what the watermark waits for


def test_watermark_waits_for_each_caught_up_follower(harness, followers):
    """Only one ISR change is made at a time; otherwise the second follower might never catch up with the watermark."""
    leader = lead(harness, (11, 12, 13), isr=(11,))
    followers.fetch(12, 0)
    followers.fetch(13, 0)
    assert proposals(harness) == [(11, 12)]
    write(harness)
    followers.fetch(12, 1)
    assert leader.high_watermark.offset == 0
    followers.fetch(13, 1)
    assert leader.high_watermark.offset == 1


def test_watermark_ignores_lagging_followers(harness, followers):
    leader = lead(harness, (11, 12), isr=(11,))
    write(harness)
    followers.fetch(12, 0)
    harness.now += 2 * LAG_SECONDS
    write(harness)
    assert (leader.high_watermark.offset, proposals(harness)) == (2, [])


def test_new_leader_ignores_lagging_non_members(harness, followers):
    write_to = lead(harness, isr=(11,))
    write(harness, b"a", b"b")
    leader = lead(harness, isr=(11,), leader_epoch=1, partition_epoch=1)
    assert write_to.ended
    followers.fetch(12, 0)
    write(harness)
    assert leader.high_watermark.offset == 3


def test_sole_leader_knows_its_watermark_at_once(tmp_path):
    """The leader's checkpoint is old, but its log is durable to the end."""
    harness = open_harness(tmp_path)
    lead(harness, (11,))
    write(harness, b"a", b"b")
    harness.partitions.close()
    harness.directory.close(broker_epoch=5)
    again = open_harness(tmp_path)
    assert lead(again, (11,), leader_epoch=1).high_watermark.offset == 2


def test_watermark_ignores_ineligible_followers(harness, followers):
    """KIP-841: a fenced follower could never be admitted."""
    harness.set_image(
        topic("t", partition((11, 12), isr=(11,))),
        brokers=(registration(11), registration(12, fenced=True)),
    )
    followers.fetch(12, 0)
    write(harness)
    assert harness.leader().high_watermark.offset == 1


def test_refusal_releases_the_watermark(harness, followers):
    leader = lead(harness, isr=(11,))
    followers.fetch(12, 0)
    harness.now += 2 * LAG_SECONDS
    followers.ask(12)
    write(harness)
    harness.now += 2 * LAG_SECONDS
    write(harness)
    assert leader.high_watermark.offset == 0, "the controller may have admitted it"
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_refused(change, ErrorCode.INELIGIBLE_REPLICA)
    assert leader.high_watermark.offset == 2


def test_removed_replica_holds_nothing_back(harness, followers):
    leader = lead(harness, (11, 12, 13))
    write(harness)
    followers.fetch(12, 1)
    assert leader.high_watermark.offset == 0
    lead(harness, (11, 12), isr=(11, 12), partition_epoch=1)
    assert leader.high_watermark.offset == 1


def test_records_unflushed_by_leader_are_not_committed(harness, followers):
    """The leader may lose them; it would return with fewer records than it acknowledged."""
    leader = lead(harness)
    append(harness, b"a")
    followers.fetch(12, 1)
    assert leader.watermark_when_flushed == 1
    assert leader.high_watermark.offset == 0


@pytest.mark.parametrize(
    ("replicas", "isr", "minimum", "too_few"),
    [
        ((11,), (11,), 1, False),
        ((11,), (11,), 2, False),
        ((11, 12), (11,), 1, False),
        ((11, 12), (11,), 2, True),
        ((11, 12), (11,), 3, True),
        ((11, 12), (11, 12), 3, False),
        ((11, 12, 13), (11, 12), 2, False),
        ((11, 12, 13), (11, 12), 3, True),
        ((11, 12, 13), (11,), 2, True),
    ],
)
def test_isr_below_minimum_is_detected(tmp_path, replicas, isr, minimum, too_few):
    harness = open_harness(tmp_path, min_insync_replicas=str(minimum))
    leader = lead(harness, replicas, isr=isr)
    assert leader.is_under_min_isr == too_few
    assert leader.satisfies_min_isr != too_few


def test_possible_isr_members_count_for_minimum(tmp_path):
    harness = open_harness(tmp_path, min_insync_replicas="2")
    leader = lead(harness, isr=(11,))
    Followers(harness).fetch(12, 0)
    assert leader.is_under_min_isr
    assert leader.satisfies_min_isr


def test_acks_1_ignores_the_minimum_isr(tmp_path):
    harness = open_harness(tmp_path, min_insync_replicas="2")
    leader = lead(harness, isr=(11,))
    data = batch(b"a")
    with pytest.raises(KafkaError) as refused:
        leader.append(data, list(iter_batches(data)), acks=-1)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.log_end_offset == 0
    assert leader.append(data, list(iter_batches(data)), acks=1).last_offset == 0


# -- the log's start


def test_low_watermark_is_smallest_live_start(harness, followers):
    leader = lead(harness, (11, 12, 13))
    write(harness, b"a", b"b", b"c")
    followers.fetch(12, 3)
    followers.fetch(13, 3)
    leader.delete_records_before(2)
    assert leader.low_watermark.offset == 0
    followers.fetch(12, 3, log_start=2)
    assert leader.low_watermark.offset == 0
    followers.fetch(13, 3, log_start=1)
    assert leader.low_watermark.offset == 1
    followers.fetch(13, 3, log_start=3)
    assert leader.low_watermark.offset == 2, "the leader's own start counts"


def test_records_are_deleted_only_up_to_watermark(harness):
    leader = lead(harness, (11,))
    write(harness, b"a")
    write(harness, b"b")
    assert leader.delete_records_before(0) == 0
    assert leader.log.log_start_offset == 0
    assert leader.delete_records_before(1) == 1
    assert leader.log.log_start_offset == 1
    assert leader.delete_records_before(2) == 2
    assert leader.log.log_start_offset == 2


@pytest.mark.parametrize(
    ("policy", "refused"),
    [("compact", True), ("compact,delete", False), ("delete", False), ("", False)],
)
def test_compact_only_topic_refuses_record_deletion(harness, policy, refused):
    state = topic("t", partition())
    harness.set_image(state, configs={(2, "t"): {"cleanup.policy": policy}})
    append(harness, b"a")
    harness.flush()
    if not refused:
        assert harness.leader().delete_records_before(1) == 1
        return
    with pytest.raises(KafkaError) as raised:
        harness.leader().delete_records_before(1)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION


def test_low_watermark_waits_for_first_fetches(harness, followers):
    """DeleteRecords waits for it, from offset 0 on."""
    leader = lead(harness)
    assert not leader.low_watermark.reached(0)
    followers.fetch(12, 0)
    assert leader.low_watermark.offset == 0


def test_records_of_sole_replica_are_deleted_at_once(harness):
    leader = lead(harness, (11,))
    write(harness)
    leader.delete_records_before(1)
    assert leader.low_watermark.offset == 1


# -- possibly damaged records


def test_repeatedly_fetched_records_are_suspected(harness):
    """P17: the follower cannot append them."""
    leader = lead(harness)
    suspected = []
    leader.replica.services.suspects.add = lambda *what: suspected.append(what)
    leader.records_sent(12, 5, 100)
    leader.records_sent(12, 7, 100)
    leader.records_sent(12, 5, 100)
    assert suspected == []
    for _ in range(2):
        leader.records_sent(12, 5, 100)
    assert suspected == [(("t", 0), 5, 100)]


def test_former_replica_is_not_watched(harness):
    leader = lead(harness)
    leader.replica.services.suspects.add = lambda *_: pytest.fail("nobody follows")
    for _ in range(5):
        leader.records_sent(13, 5, 100)


# -- idempotent producers


def produce(leader, producer_id, sequence=0):
    data = batch(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    views = list(iter_batches(data))
    info = leader.appended_before(views) or leader.append(data, views)
    return info, info.last_offset + 1


def test_idempotent_duplicate_is_appended_once(harness):
    """Producer ids begin at 0; the offset to wait for is that of the first append."""
    leader = lead(harness)
    produce(leader, 0)
    first, reached_at = produce(leader, 0, 1)
    produce(leader, 0, 2)
    again, again_reached_at = produce(leader, 0, 1)
    assert (first.base_offset, reached_at) == (1, 2)
    assert (again.base_offset, again.last_offset, again_reached_at) == (1, 1, 2)
    assert again.log_append_time_ms == -1
    assert leader.log.log_end_offset == 3


def test_non_idempotent_batches_are_never_duplicates(harness):
    leader = lead(harness)
    for offset in range(3):
        info, reached_at = produce(leader, -1, -1)
        assert (info.base_offset, reached_at) == (offset, offset + 1)


# -- the end of the epoch


async def test_ended_epoch_changes_nothing(harness):
    leader = lead(harness)
    append(harness, b"a")
    lead(harness, leader_epoch=1, partition_epoch=1)
    leader._flushed(0)
    leader.settings_changed()
    leader.reconsider_followers()
    assert leader.high_watermark.offset == 0
    with pytest.raises(KafkaError) as refused:
        leader.delete_records_before(0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(NotLeaderError):
        await leader.low_watermark.wait_reached(1)


def test_leader_counts_recovered_records_after_flush(tmp_path):
    """Records above the flushed offset may be only in the page cache."""
    harness = open_harness(tmp_path)
    lead(harness, (11,))
    append(harness, b"a")
    harness.partitions.find(TopicPartition("t", 0)).release_log()
    leader = harness.leader()
    assert (leader.log.log_end_offset, leader.high_watermark.offset) == (1, 0)
    harness.flush()
    assert leader.high_watermark.offset == 1
