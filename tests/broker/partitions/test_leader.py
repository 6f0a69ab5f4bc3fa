"""A leader epoch over a real log: what advances the watermark, what changes the ISR, and what ends with the epoch."""

from __future__ import annotations

import pytest

from tests.broker.batches import append, batch
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.partitions.isr import FetchClock
from trimaran.broker.partitions.leader import open_leader_epoch
from trimaran.log.batches.batch import iter_batches
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

CLOCK = FetchClock()
BROKERS = (registration(11), registration(12), registration(13))


def lead(harness, replicas=(11, 12), **fields):
    harness.set_image(topic("t", partition(replicas, **fields)), brokers=BROKERS)
    return harness.leader()


def fetched(harness, leader, replica_id, offset, broker_epoch=None):
    CLOCK.tick(harness.now)
    epoch = 100 + replica_id if broker_epoch is None else broker_epoch
    leader.record_fetch(replica_id, offset, 0, epoch, CLOCK)


def proposed(harness):
    """Returns the members of the ISR that was proposed last."""
    _, change = harness.isr_changes.submitted[-1]
    return tuple(member for member, _ in change.new_isr)


def test_sole_replicas_watermark_follows_the_disk(harness):
    leader = lead(harness, (11,))
    append(harness, b"a", b"b")
    assert leader.high_watermark.offset == 0
    harness.flush()
    assert leader.high_watermark.offset == 2


def test_write_behind_commits_with_the_append(tmp_path):
    harness = open_harness(tmp_path, trimaran_log_fsync="none")
    leader = lead(harness, (11,))
    append(harness, b"a")
    assert leader.high_watermark.offset == 1


def test_slowest_isr_member_determines_watermark(harness):
    leader = lead(harness, (11, 12, 13))
    append(harness, b"a")
    fetched(harness, leader, 12, 1)
    fetched(harness, leader, 13, 1)
    assert leader.high_watermark.offset == 0, "followers may be ahead of the leader's disk"
    harness.flush()
    assert leader.high_watermark.offset == 1
    append(harness, b"b")
    harness.flush()
    fetched(harness, leader, 13, 2)
    assert leader.high_watermark.offset == 1
    fetched(harness, leader, 12, 2)
    assert leader.high_watermark.offset == 2


def test_unassigned_replica_is_refused(harness):
    leader = lead(harness)
    with pytest.raises(KafkaError) as raised:
        fetched(harness, leader, 13, 0)
    assert raised.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_follower_joins_after_reaching_epoch_start(harness):
    """KAFKA-7128: the watermark alone is not enough."""
    lead(harness, (11,))
    append(harness, b"a", b"b")
    harness.flush()
    leader = lead(harness, isr=(11,), leader_epoch=1, partition_epoch=1)
    assert leader.start_offset == 2
    fetched(harness, leader, 12, 1)
    assert not harness.isr_changes.submitted
    fetched(harness, leader, 12, 2)
    assert proposed(harness) == (11, 12)


def test_follower_below_epoch_start_does_not_join(harness):
    """KAFKA-7128: records between the two may be committed, and the new leader does not know it yet."""
    lead(harness, (11, 12, 13), isr=(11, 13))
    append(harness, b"a", b"b")
    append(harness, b"c")
    harness.flush()
    leader = lead(harness, (11, 12, 13), isr=(11, 13), leader_epoch=1, partition_epoch=1)
    assert (leader.start_offset, leader.high_watermark.offset) == (3, 0)
    for offset in (0, 2):
        fetched(harness, leader, 12, offset)
        leader.reconsider_followers()
        assert not harness.isr_changes.submitted
    fetched(harness, leader, 12, 3)
    assert proposed(harness) == (11, 13, 12)


def test_replica_with_emptied_disk_joins_after_catching_up(harness):
    """KIP-903: its records are of its former incarnation. The replica delays no other one until it has caught up."""
    leader = lead(harness)
    append(harness, b"a")
    append(harness, b"b")
    harness.flush()
    fetched(harness, leader, 12, 2)
    back = (registration(11), registration(12, epoch=300))
    harness.set_image(topic("t", partition((11, 12), isr=(11,), partition_epoch=1)), brokers=back)
    assert not harness.isr_changes.submitted, "it has not fetched yet"
    for offset in (0, 1):
        fetched(harness, leader, 12, offset, broker_epoch=300)
        assert leader.followers[12].end_offset == offset
        leader.reconsider_followers()
        assert not harness.isr_changes.submitted
    append(harness, b"c")
    harness.flush()
    assert leader.high_watermark.offset == 3
    fetched(harness, leader, 12, 3, broker_epoch=300)
    [(_, change)] = harness.isr_changes.submitted
    assert change.new_isr == ((11, 111), (12, 300))


def test_fetch_from_before_restart_proves_nothing(harness):
    """KIP-903: the fetch arrived while the old incarnation was registered, and is examined again when records are
    appended.
    """
    leader = lead(harness)
    append(harness, b"a")
    fetched(harness, leader, 12, 1)
    back = (registration(11), registration(12, epoch=300))
    harness.set_image(topic("t", partition((11, 12), isr=(11,), partition_epoch=1)), brokers=back)
    fetched(harness, leader, 12, 0, broker_epoch=300)
    with pytest.raises(KafkaError) as refused:
        fetched(harness, leader, 12, 1)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    progress = leader.followers[12]
    assert (progress.end_offset, progress.broker_epoch) == (0, 300)


def test_isr_member_that_lost_records_is_removed(harness):
    """With write-behind a crash may lose them; even recent progress from before it no longer counts."""
    leader = lead(harness)
    append(harness, b"a")
    append(harness, b"b")
    harness.flush()
    fetched(harness, leader, 12, 2)
    assert leader.high_watermark.offset == 2
    fetched(harness, leader, 12, 1)
    leader.drop_lagging()
    assert proposed(harness) == (11,)
    assert leader.high_watermark.offset == 2


def test_watermark_waits_for_proposed_member(harness):
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    assert leader.isr.proposed == (11, 12)
    append(harness, b"a")
    harness.flush()
    assert leader.high_watermark.offset == 0
    fetched(harness, leader, 12, 1)
    assert leader.high_watermark.offset == 1
    assert len(harness.isr_changes.submitted) == 1, "one change at a time"


@pytest.mark.parametrize(
    "changes", [{"fenced": True}, {"in_controlled_shutdown": True}, {"epoch": 99}]
)
def test_refused_follower_joins_after_registration_changes(harness, changes):
    """KIP-841, KIP-903: it need not fetch again for that."""
    harness.set_image(
        topic("t", partition((11, 12), isr=(11,))),
        brokers=(registration(11), registration(12, **changes)),
    )
    leader = harness.leader()
    fetched(harness, leader, 12, 0)
    assert not harness.isr_changes.submitted
    harness.set_image(*harness.metadata.image.topics.by_name.values(), brokers=BROKERS)
    assert proposed(harness) == (11, 12)


def test_lagging_member_counts_until_removal_is_committed(harness):
    leader = lead(harness)
    fetched(harness, leader, 12, 0)
    append(harness, b"a")
    harness.flush()
    harness.now += 29
    leader.drop_lagging()
    assert not harness.isr_changes.submitted
    harness.now += 2
    leader.drop_lagging()
    assert proposed(harness) == (11,)
    assert leader.high_watermark.offset == 0
    owner, change = harness.isr_changes.submitted[0]
    owner.isr_committed(change, (11,), 0, 1)
    assert leader.high_watermark.offset == 1
    assert leader.isr.proposed is None


def test_refusal_without_change_restores_the_isr(harness):
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    owner, change = harness.isr_changes.submitted[0]
    assert owner.isr_refused(change, ErrorCode.INELIGIBLE_REPLICA) is False
    assert leader.isr.proposed is None
    fetched(harness, leader, 12, 0)
    assert len(harness.isr_changes.submitted) == 2


def test_refused_member_is_reconsidered_after_new_registrations(harness):
    """The controller considered it fenced, and answers after it has been unfenced. It is at the leader's end, so no
    fetch of its own would trigger another proposal.
    """
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    owner, change = harness.isr_changes.submitted[0]
    for fenced in (True, False):
        topics = harness.metadata.image.topics.by_name.values()
        harness.set_image(*topics, brokers=(registration(11), registration(12, fenced=fenced)))
    assert len(harness.isr_changes.submitted) == 1
    assert owner.isr_refused(change, ErrorCode.INELIGIBLE_REPLICA) is False
    assert len(harness.isr_changes.submitted) == 2
    owner, change = harness.isr_changes.submitted[1]
    owner.isr_refused(change, ErrorCode.INELIGIBLE_REPLICA)
    assert len(harness.isr_changes.submitted) == 2, "nothing has changed: it would be refused again"


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION])
def test_refusal_of_stale_leader_keeps_maximal_isr(harness, code):
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    owner, change = harness.isr_changes.submitted[0]
    assert owner.isr_refused(change, code) is False
    assert leader.isr.proposed == (11, 12)
    lead(harness, isr=(11, 12), partition_epoch=1)
    assert (leader.isr.isr, leader.isr.proposed) == ((11, 12), None)


def test_other_errors_are_retried_unchanged(harness):
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    owner, change = harness.isr_changes.submitted[0]
    assert owner.isr_refused(change, ErrorCode.UNKNOWN_SERVER_ERROR) is True
    assert leader.isr.proposed == (11, 12)


def test_answers_to_obsolete_changes_are_ignored(harness):
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    owner, change = harness.isr_changes.submitted[0]
    lead(harness, isr=(11, 12), partition_epoch=5)
    owner.isr_committed(change, (11,), 0, 1)
    assert leader.isr.isr == (11, 12)
    assert owner.isr_refused(change, ErrorCode.UNKNOWN_SERVER_ERROR) is False


async def test_end_of_epoch_ends_its_waits(harness):
    leader = lead(harness)
    info = append(harness, b"a")
    lead(harness, leader_epoch=1, partition_epoch=1)
    with pytest.raises(NotLeaderError):
        await leader.high_watermark.wait_reached(info.last_offset + 1)
    with pytest.raises(KafkaError) as raised:
        leader.append(memoryview(b""), [])
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert harness.leader().epoch == 1


def test_flush_of_ended_epoch_advances_the_next(harness):
    lead(harness, (11,))
    append(harness, b"a")
    leader = lead(harness, (11,), leader_epoch=1, partition_epoch=1)
    assert leader.high_watermark.offset == 0
    harness.flush()
    assert leader.high_watermark.offset == 1


def test_watermark_survives_the_epoch(harness):
    leader = lead(harness)
    append(harness, b"a", b"b")
    harness.flush()
    fetched(harness, leader, 12, 1)
    assert leader.high_watermark.offset == 1
    leader = lead(harness, leader_epoch=1, partition_epoch=1)
    assert leader.high_watermark.offset == 1


def test_low_watermark_waits_only_for_live_replicas(harness):
    leader = lead(harness)
    append(harness, b"a", b"b")
    harness.flush()
    fetched(harness, leader, 12, 2)
    assert leader.delete_records_before(-1) == 2
    assert leader.low_watermark.offset == 0
    harness.set_image(
        *harness.metadata.image.topics.by_name.values(),
        brokers=(registration(11), registration(12, fenced=True)),
    )
    assert leader.low_watermark.offset == 2


@pytest.mark.parametrize("offset", [3, -2])
def test_records_above_the_watermark_are_not_deleted(harness, offset):
    """P13, KAFKA-5634."""
    leader = lead(harness, (11,))
    append(harness, b"a", b"b", b"c")
    harness.flush()
    append(harness, b"not committed")
    with pytest.raises(KafkaError) as raised:
        leader.delete_records_before(offset + 1 if offset > 0 else offset)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def append_to(leader, value):
    data = batch(value)
    return leader.append(data, list(iter_batches(data)))


async def test_leader_epoch_ends_with_its_block(harness):
    """Callers that hold an ended epoch can neither append nor receive acknowledgements, whatever ended it."""
    lead(harness)
    held = harness.leader().replica
    with open_leader_epoch(held, held.state) as leader:
        append_to(leader, b"a")
        assert not leader.ended
    with pytest.raises(NotLeaderError):
        await leader.high_watermark.wait_reached(1)
    with pytest.raises(KafkaError) as raised:
        append_to(leader, b"b")
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_nothing_is_committed_below_the_minimal_isr(tmp_path):
    """P2: an acknowledgement of acks=all promises that many copies; and with KIP-966 a former ISR member may be
    elected.
    """
    harness = open_harness(tmp_path, min_insync_replicas="2")
    leader = lead(harness, (11, 12, 13), isr=(11,))
    data = batch(b"a")
    leader.append(data, list(iter_batches(data)), acks=1)
    harness.flush()
    assert leader.high_watermark.offset == 0
    fetched(harness, leader, 12, 1)
    assert leader.high_watermark.offset == 0, "12 is not in the ISR before the controller says so"
    leader.update(leader.replica.state._replace(isr=(11, 12), partition_epoch=1))
    assert leader.high_watermark.offset == 1


def test_lower_minimum_commits_at_once(tmp_path):
    harness = open_harness(tmp_path)
    state = topic("t", partition((11, 12, 13), isr=(11,)))
    harness.set_image(state, configs={(2, "t"): {"min.insync.replicas": "2"}})
    leader = harness.leader()
    data = batch(b"a")
    leader.append(data, list(iter_batches(data)), acks=1)
    harness.flush()
    assert leader.high_watermark.offset == 0
    harness.set_image(state, configs={})
    harness.partitions.settings_changed("t")
    assert leader.high_watermark.offset == 1


def test_minimum_above_replica_count_is_not_required(tmp_path):
    harness = open_harness(tmp_path, min_insync_replicas="3")
    leader = lead(harness, (11, 12))
    assert not leader.is_under_min_isr
    leader.update(leader.replica.state._replace(isr=(11,), partition_epoch=1))
    assert leader.is_under_min_isr
    with pytest.raises(KafkaError) as caught:
        append(harness, b"a")
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_unclean_leader_reports_recovery_in_first_isr(harness):
    """KIP-704: otherwise the controller would refuse every other member."""
    leader = lead(harness, (11, 12), isr=(11,), leader_recovery_state=1)
    fetched(harness, leader, 12, 0)
    _, change = harness.isr_changes.submitted[-1]
    assert (proposed(harness), change.leader_recovery_state) == ((11, 12), 0)


# -- reopened within the epoch, for example after a move to another directory


def reopen(harness):
    harness.partitions.reopen([harness.partitions.find(TopicPartition("t", 0))])
    return harness.leader()


def test_reopened_leader_waits_for_possibly_admitted_members(harness):
    """KIP-497: the response to the change may be on its way."""
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    leader = reopen(harness)
    assert leader.isr.proposed == (11, 12)
    append(harness, b"a")
    harness.flush()
    assert leader.high_watermark.offset == 0
    leader.drop_lagging()
    (_, first), (owner, again) = harness.isr_changes.submitted
    assert owner is leader
    assert again == first, "a retry says the same"
    owner.isr_committed(again, (11, 12), 0, 1)
    assert (leader.isr.isr, leader.isr.proposed) == ((11, 12), None)
    assert leader.high_watermark.offset == 0
    fetched(harness, leader, 12, 1)
    assert leader.high_watermark.offset == 1


def test_reopened_leader_knows_uncommitted_isr(harness):
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    owner, change = harness.isr_changes.submitted[0]
    owner.isr_committed(change, (11, 12), 0, 1)
    leader = reopen(harness)
    append(harness, b"a")
    harness.flush()
    assert leader.isr.isr == (11, 12)
    assert leader.high_watermark.offset == 0


def test_reopened_leader_skips_a_settled_change(harness):
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    held = harness.partitions.find(TopicPartition("t", 0))
    held.release_log()
    lead(harness, isr=(11,), partition_epoch=3)
    assert (harness.leader().isr.isr, harness.leader().isr.proposed) == ((11,), None)
    assert len(harness.isr_changes.submitted) == 1


def test_reopened_leader_keeps_epoch_start(harness):
    """Commits before the epoch are already known, although too few replicas have later records."""
    leader = lead(harness, isr=(11,))
    append(harness, b"a")
    harness.flush()
    leader = lead(harness, isr=(11, 12), leader_epoch=1, partition_epoch=1)
    append(harness, b"b")
    harness.flush()
    assert (leader.start_offset, leader.high_watermark.offset) == (1, 1)
    leader = reopen(harness)
    assert (leader.start_offset, leader.high_watermark.offset) == (1, 1)
    assert leader.knows_committed


def test_next_epoch_inherits_nothing(harness):
    leader = lead(harness, isr=(11,))
    fetched(harness, leader, 12, 0)
    harness.partitions.find(TopicPartition("t", 0)).release_log()
    leader = lead(harness, isr=(11,), leader_epoch=1, partition_epoch=0)
    assert leader.isr.proposed is None
    assert len(harness.isr_changes.submitted) == 1
