"""The rules of a leader epoch, a test for each sentence: who is in sync, what holds the watermark, what ends with the
epoch.
"""

from __future__ import annotations

import pytest

from broker.partitions.isr import FetchClock
from log.batches.batch import iter_batches
from node.runtime.errors import NotLeaderError
from tests.broker.batches import append, batch
from tests.broker.harness import open_harness, partition, registration, topic
from wire.errors import ErrorCode, KafkaError

LAG_SECONDS = 30
BROKERS = tuple(registration(node_id) for node_id in (11, 12, 13, 14))


class Followers:
    """Fetches of several followers, each with a session of its own."""

    def __init__(self, harness) -> None:
        self.harness = harness
        self.clocks: dict[int, FetchClock] = {}

    def fetch(self, replica_id, offset, *, log_start=0, broker_epoch=None, session=0):
        clock = self.clocks.setdefault((replica_id, session), FetchClock())
        clock.tick(self.harness.now)
        epoch = 100 + replica_id if broker_epoch is None else broker_epoch
        self.harness.leader().record_fetch(replica_id, offset, log_start, epoch, clock)

    def ask(self, replica_id, session=0):
        """A request that leaves the partition out: nothing has changed there."""
        self.clocks[replica_id, session].tick(self.harness.now)


@pytest.fixture
def followers(harness):
    return Followers(harness)


def lead(harness, replicas=(11, 12), **fields):
    harness.set_image(topic("t", partition(replicas, **fields)), brokers=BROKERS)
    return harness.leader()


def proposals(harness):
    return [tuple(member for member, _ in one.new_isr) for _, one in harness.isr_changes.submitted]


def write(harness, *values):
    append(harness, *(values or (b"x",)))
    harness.flush()


# -- who has kept up


def test_in_sync_to_the_last_moment_of_the_allowed_lag_and_no_longer(harness, followers):
    leader = lead(harness)
    followers.fetch(12, 0)
    write(harness)
    harness.now += LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == []
    harness.now += 0.5
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_who_asks_again_for_the_same_has_lost_nothing(harness, followers):
    """Its disk may take a while; it is as current as it was."""
    leader = lead(harness)
    followers.fetch(12, 0)
    write(harness)
    for _ in range(3):
        harness.now += 1
        followers.fetch(12, 0)
    harness.now += LAG_SECONDS - 4
    leader.drop_lagging()
    assert proposals(harness) == []


def test_who_has_what_there_was_at_its_last_fetch_was_current_then(harness, followers):
    """A partition that is always written to: nobody ever stands at its end."""
    leader = lead(harness)
    for end in range(4):
        followers.fetch(12, max(0, end - 1))
        write(harness)
        harness.now += 10
    harness.now += LAG_SECONDS - 20  # the last fetch but one was 20 seconds ago
    leader.drop_lagging()
    assert proposals(harness) == []
    harness.now += 0.5
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_who_falls_behind_ever_more_leaves_though_it_fetches_all_the_time(harness, followers):
    leader = lead(harness)
    followers.fetch(12, 0)
    write(harness, *[b"x"] * 50)
    for offset in range(1, LAG_SECONDS + 2):
        harness.now += 1
        write(harness)
        followers.fetch(12, offset)
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_who_asks_for_nothing_new_at_the_end_is_current(harness, followers):
    """KIP-227: a request that leaves the partition out says that it stands where it stood."""
    leader = lead(harness)
    followers.fetch(12, 0)
    harness.now += 10 * LAG_SECONDS
    followers.ask(12)
    write(harness)
    harness.now += LAG_SECONDS - 1
    leader.drop_lagging()
    assert proposals(harness) == []


def test_who_stands_at_the_end_is_in_sync_however_long_it_is_silent(harness, followers):
    """There is nothing that it lacks."""
    leader = lead(harness)
    write(harness)
    followers.fetch(12, 1)
    harness.now += 10 * LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == []


def test_a_new_session_takes_over_what_the_old_one_proved(harness, followers):
    leader = lead(harness)
    followers.fetch(12, 0)
    harness.now += 100
    followers.ask(12)
    write(harness)
    harness.now += 10
    followers.fetch(12, 0, session=1)
    harness.now += LAG_SECONDS - 11
    leader.drop_lagging()
    assert proposals(harness) == []
    harness.now += 2
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_a_new_leader_gives_its_isr_the_full_time_to_show_up(harness, followers):
    """Also who has fetched, and is behind: it could not before."""
    lead(harness)
    write(harness, b"a", b"b")
    leader = lead(harness, leader_epoch=1, partition_epoch=1)
    followers.fetch(12, 0)
    harness.now += LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == []
    harness.now += 0.5
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_who_becomes_a_replica_and_a_member_at_once_has_the_full_time_too(harness):
    leader = lead(harness, (11,))
    write(harness)
    lead(harness, (11, 12), isr=(11, 12), partition_epoch=1)
    harness.now += LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == []
    harness.now += 0.5
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_who_may_have_been_admitted_meanwhile_has_the_full_time_too(harness, followers):
    """The log was let go of while the controller decided, and with it what the follower had proved."""
    lead(harness, isr=(11,))
    followers.fetch(12, 0)
    harness.partitions.reopen([harness.partitions.find("t", 0)])
    leader = harness.leader()
    write(harness)
    owner, change = harness.isr_changes.submitted[-1]
    owner.isr_committed(change, (11, 12), 0, 1)
    count = len(harness.isr_changes.submitted)
    leader.drop_lagging()
    assert len(harness.isr_changes.submitted) == count


def test_a_member_of_the_isr_that_is_no_replica_any_more_leaves_it(harness, followers):
    leader = lead(harness, (11, 12, 13), isr=(11, 12, 13))
    lead(harness, (11, 13), isr=(11, 12, 13), partition_epoch=1)
    followers.fetch(13, 0)
    leader.drop_lagging()
    assert proposals(harness) == [(11, 13)]


def test_the_leader_never_drops_itself(harness):
    leader = lead(harness, (11, 12, 13))
    write(harness)
    harness.now += 2 * LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_nobody_is_dropped_while_a_change_is_under_way(harness, followers):
    leader = lead(harness, (11, 12, 13), isr=(11, 12))
    followers.fetch(12, 0)
    followers.fetch(13, 0)
    assert proposals(harness) == [(11, 12, 13)]
    write(harness)
    harness.now += 2 * LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == [(11, 12, 13)]


# -- what holds the watermark


def test_the_watermark_waits_for_a_caught_up_follower_whose_turn_to_be_admitted_is_not_yet(
    harness, followers
):
    """One change at a time; else the watermark would run away from the second for ever."""
    leader = lead(harness, (11, 12, 13), isr=(11,))
    followers.fetch(12, 0)
    followers.fetch(13, 0)
    assert proposals(harness) == [(11, 12)]
    write(harness)
    followers.fetch(12, 1)
    assert leader.high_watermark.offset == 0
    followers.fetch(13, 1)
    assert leader.high_watermark.offset == 1


def test_the_watermark_does_not_wait_for_who_is_not_caught_up(harness, followers):
    leader = lead(harness, (11, 12), isr=(11,))
    write(harness)
    followers.fetch(12, 0)
    harness.now += 2 * LAG_SECONDS
    write(harness)
    assert (leader.high_watermark.offset, proposals(harness)) == (2, [])


def test_a_new_leader_does_not_wait_for_who_is_far_behind_and_in_no_isr(harness, followers):
    write_to = lead(harness, isr=(11,))
    write(harness, b"a", b"b")
    leader = lead(harness, isr=(11,), leader_epoch=1, partition_epoch=1)
    assert write_to.ended
    followers.fetch(12, 0)
    write(harness)
    assert leader.high_watermark.offset == 3


def test_a_leader_knows_at_once_what_needs_nobody_else(tmp_path):
    """Its checkpoint is old, its log is on disk to the end."""
    harness = open_harness(tmp_path)
    lead(harness, (11,))
    write(harness, b"a", b"b")
    harness.partitions.close()
    harness.directory.close(broker_epoch=5)
    again = open_harness(tmp_path)
    assert lead(again, (11,), leader_epoch=1).high_watermark.offset == 2


def test_the_watermark_does_not_wait_for_who_may_not_join(harness, followers):
    """KIP-841: fenced, it could never be admitted."""
    harness.set_image(
        topic("t", partition((11, 12), isr=(11,))),
        brokers=(registration(11), registration(12, fenced=True)),
    )
    followers.fetch(12, 0)
    write(harness)
    assert harness.leader().high_watermark.offset == 1


def test_a_refusal_lets_the_watermark_go_on_without_the_newcomer(harness, followers):
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


def test_a_replica_that_was_taken_away_holds_nothing_up(harness, followers):
    leader = lead(harness, (11, 12, 13))
    write(harness)
    followers.fetch(12, 1)
    assert leader.high_watermark.offset == 0
    lead(harness, (11, 12), isr=(11, 12), partition_epoch=1)
    assert leader.high_watermark.offset == 1


def test_what_is_on_the_followers_disks_alone_is_not_committed(harness, followers):
    """The leader may lose it; it would come back with less than it answered for."""
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
def test_how_many_are_too_few_for_the_minimal_isr(tmp_path, replicas, isr, minimum, too_few):
    harness = open_harness(tmp_path, min_insync_replicas=str(minimum))
    leader = lead(harness, replicas, isr=isr)
    assert leader.is_under_min_isr == too_few
    assert leader.satisfies_min_isr != too_few


def test_who_may_be_in_the_isr_already_keeps_what_is_committed(tmp_path):
    harness = open_harness(tmp_path, min_insync_replicas="2")
    leader = lead(harness, isr=(11,))
    Followers(harness).fetch(12, 0)
    assert leader.is_under_min_isr
    assert leader.satisfies_min_isr


def test_acks_1_writes_where_acks_all_finds_too_few(tmp_path):
    harness = open_harness(tmp_path, min_insync_replicas="2")
    leader = lead(harness, isr=(11,))
    data = batch(b"a")
    with pytest.raises(KafkaError) as refused:
        leader.append(data, list(iter_batches(data)), acks=-1)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.log_end_offset == 0
    assert leader.append(data, list(iter_batches(data)), acks=1).last_offset == 0


# -- changes of the ISR


def test_a_change_names_members_by_the_incarnation_that_the_leader_saw(harness, followers):
    """KIP-903: of those that it has not seen it says so."""
    lead(harness, (11, 12, 13), isr=(11, 12))
    lead(harness, (11, 13, 14), isr=(11, 12), partition_epoch=1)
    followers.fetch(14, 0)
    [(_, change)] = harness.isr_changes.submitted
    assert change.new_isr == ((11, 111), (12, -1), (14, 114))


def test_the_answer_of_another_epoch_changes_nothing(harness, followers):
    leader = lead(harness, isr=(11,))
    followers.fetch(12, 0)
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_committed(change, (11, 12), 1, 9)
    assert (leader.isr.isr, leader.isr.proposed) == ((11,), (11, 12))


def test_an_answer_older_than_metadata_changes_nothing(harness, followers):
    leader = lead(harness, isr=(11,), partition_epoch=5)
    followers.fetch(12, 0)
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_committed(change, (11, 12), 0, 4)
    assert (leader.isr.isr, leader.isr.proposed) == ((11,), (11, 12))


def test_the_controller_may_find_that_nothing_had_to_change(harness, followers):
    """Then it answers with the partition epoch that we have."""
    leader = lead(harness, isr=(11,), partition_epoch=5)
    followers.fetch(12, 0)
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_committed(change, (11, 12), 0, 5)
    assert (leader.isr.isr, leader.isr.proposed) == ((11, 12), None)


def test_when_one_is_admitted_the_next_is_proposed(harness, followers):
    lead(harness, (11, 12, 13), isr=(11,))
    followers.fetch(12, 0)
    followers.fetch(13, 0)
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_committed(change, (11, 12), 0, 1)
    assert proposals(harness) == [(11, 12), (11, 12, 13)]


def test_metadata_that_is_not_newer_leaves_the_isr(harness):
    leader = lead(harness, isr=(11, 12), partition_epoch=5)
    leader.update(leader.replica.state._replace(isr=(11,), partition_epoch=5))
    assert leader.isr.isr == (11, 12)
    leader.update(leader.replica.state._replace(isr=(11,), partition_epoch=6))
    assert leader.isr.isr == (11,)


def test_an_ended_epoch_proposes_nothing(harness, followers):
    leader = lead(harness, isr=(11,))
    followers.fetch(12, 0)
    [(owner, change)] = harness.isr_changes.submitted
    lead(harness, isr=(11,), leader_epoch=1, partition_epoch=1)
    owner.isr_committed(change, (11, 12), 0, 1)
    assert leader.isr.isr == (11,)
    assert owner.isr_refused(change, ErrorCode.UNKNOWN_SERVER_ERROR) is False


def test_a_follower_joins_with_what_is_committed_though_not_all_that_is_written(harness, followers):
    leader = lead(harness, (11, 12, 13), isr=(11, 12))
    write(harness, b"a")
    followers.fetch(12, 1)
    write(harness, b"b")
    followers.fetch(13, 0)
    assert (leader.high_watermark.offset, proposals(harness)) == (1, [])
    followers.fetch(13, 1)
    assert proposals(harness) == [(11, 12, 13)]


def test_a_replica_whose_directory_failed_does_not_join(harness, followers):
    """KIP-858: what it had is not there any more."""
    elsewhere = registration(12, directories=(bytes(15) + b"\x09",))
    state = topic("t", partition((11, 12), isr=(11,)))
    harness.set_image(state, brokers=(registration(11), elsewhere))
    followers.fetch(12, 0)
    assert proposals(harness) == []


def test_a_broker_that_metadata_does_not_know_does_not_join(harness, followers):
    state = topic("t", partition((11, 12), isr=(11,)))
    harness.set_image(state, brokers=(registration(11),))
    followers.fetch(12, 0)
    assert proposals(harness) == []


# -- the log's start


def test_the_low_watermark_is_the_least_start_among_live_replicas(harness, followers):
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


def test_records_are_deleted_up_to_the_watermark_or_not_at_all(harness):
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
def test_a_topic_that_is_only_compacted_keeps_its_records(harness, policy, refused):
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


def test_what_a_live_replica_has_deleted_is_unknown_before_it_has_fetched(harness, followers):
    """Who deletes records waits for it, from offset 0 on."""
    leader = lead(harness)
    assert not leader.low_watermark.reached(0)
    followers.fetch(12, 0)
    assert leader.low_watermark.offset == 0


def test_what_only_the_leader_has_is_deleted_at_once(harness):
    leader = lead(harness, (11,))
    write(harness)
    leader.delete_records_before(1)
    assert leader.low_watermark.offset == 1


# -- records that may be damaged


def test_records_that_a_follower_is_given_again_and_again_are_looked_at(harness):
    """P17: it cannot take them over."""
    leader = lead(harness)
    suspected = []
    leader.replica.services.suspects.add = lambda *what: suspected.append(what)
    leader.given(12, 5, 100)
    leader.given(12, 7, 100)
    leader.given(12, 5, 100)
    assert suspected == []
    for _ in range(2):
        leader.given(12, 5, 100)
    assert suspected == [(("t", 0), 5, 100)]


def test_who_is_no_replica_any_more_is_not_looked_after(harness):
    leader = lead(harness)
    leader.replica.services.suspects.add = lambda *_: pytest.fail("nobody follows")
    for _ in range(5):
        leader.given(13, 5, 100)


# -- idempotent producers


def produce(leader, producer_id, sequence=0):
    data = batch(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return leader.produce(data, list(iter_batches(data)), acks=-1)


def test_what_an_idempotent_producer_sends_twice_is_written_once(harness):
    """Producer ids begin at 0; the offset to wait for is that of the first time."""
    leader = lead(harness)
    produce(leader, 0)
    first, reached_at = produce(leader, 0, 1)
    produce(leader, 0, 2)
    again, again_reached_at = produce(leader, 0, 1)
    assert (first.base_offset, reached_at) == (1, 2)
    assert (again.base_offset, again.last_offset, again_reached_at) == (1, 1, 2)
    assert again.log_append_time_ms == -1
    assert leader.log.log_end_offset == 3


def test_who_is_no_idempotent_producer_has_sent_nothing_before(harness):
    leader = lead(harness)
    for offset in range(3):
        info, reached_at = produce(leader, -1, -1)
        assert (info.base_offset, reached_at) == (offset, offset + 1)


# -- the end of the epoch


async def test_an_ended_epoch_changes_nothing_whoever_still_holds_it(harness):
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


def test_a_leader_counts_nothing_that_recovery_found_before_it_is_flushed(tmp_path):
    """What lies above the flushed offset may be in the page cache only."""
    harness = open_harness(tmp_path)
    lead(harness, (11,))
    append(harness, b"a")
    harness.partitions.find("t", 0).release_log()
    leader = harness.leader()
    assert (leader.log.log_end_offset, leader.high_watermark.offset) == (1, 0)
    harness.flush()
    assert leader.high_watermark.offset == 1
