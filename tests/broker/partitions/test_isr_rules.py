"""The rules of a leader's ISR, one test each: which followers are caught up, and which changes are proposed."""

from __future__ import annotations

import pytest

from tests.broker.partitions.leading import LAG_SECONDS, Followers, lead, proposals, write
from tests.cluster.data_side import partition, registration, topic
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition


@pytest.fixture
def followers(harness):
    return Followers(harness)


# -- which followers are caught up


def test_member_is_in_sync_within_allowed_lag(harness, followers):
    leader = lead(harness)
    followers.fetch(12, 0)
    write(harness)
    harness.now += LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == []
    harness.now += 0.5
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_repeated_fetch_loses_no_currency(harness, followers):
    """The follower's disk may be slow; the follower counts as caught up as before."""
    leader = lead(harness)
    followers.fetch(12, 0)
    write(harness)
    for _ in range(3):
        harness.now += 1
        followers.fetch(12, 0)
    harness.now += LAG_SECONDS - 4
    leader.drop_lagging()
    assert proposals(harness) == []


def test_follower_reaching_last_fetch_end_was_current(harness, followers):
    """The partition is written to continuously: no follower is ever at its end."""
    leader = lead(harness)
    for end in range(4):
        followers.fetch(12, max(0, end - 1))
        write(harness)
        harness.now += 10
    harness.now += LAG_SECONDS - 20  # the fetch before the last was 20 seconds ago
    leader.drop_lagging()
    assert proposals(harness) == []
    harness.now += 0.5
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_follower_falling_behind_leaves_despite_fetching(harness, followers):
    leader = lead(harness)
    followers.fetch(12, 0)
    write(harness, *[b"x"] * 50)
    for offset in range(1, LAG_SECONDS + 2):
        harness.now += 1
        write(harness)
        followers.fetch(12, offset)
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_follower_repeating_log_end_is_current(harness, followers):
    """KIP-227: a request that omits the partition means that its position has not changed."""
    leader = lead(harness)
    followers.fetch(12, 0)
    harness.now += 10 * LAG_SECONDS
    followers.ask(12)
    write(harness)
    harness.now += LAG_SECONDS - 1
    leader.drop_lagging()
    assert proposals(harness) == []


def test_silent_follower_at_end_stays_in_sync(harness, followers):
    """A follower at the end lacks no records."""
    leader = lead(harness)
    write(harness)
    followers.fetch(12, 1)
    harness.now += 10 * LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == []


def test_new_session_keeps_progress_of_old(harness, followers):
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


def test_new_leader_grants_isr_the_full_lag(harness, followers):
    """A follower that has fetched and lags is included: it could not catch up before."""
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


def test_new_replica_in_isr_has_full_lag(harness):
    leader = lead(harness, (11,))
    write(harness)
    lead(harness, (11, 12), isr=(11, 12), partition_epoch=1)
    harness.now += LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == []
    harness.now += 0.5
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_possibly_admitted_member_has_full_lag(harness, followers):
    """The log was reopened while the controller decided, which discarded the follower's known progress."""
    lead(harness, isr=(11,))
    followers.fetch(12, 0)
    harness.partitions.reopen([harness.partitions.find(TopicPartition("t", 0))])
    leader = harness.leader()
    write(harness)
    owner, change = harness.isr_changes.submitted[-1]
    owner.isr_committed(change, (11, 12), 0, 1)
    count = len(harness.isr_changes.submitted)
    leader.drop_lagging()
    assert len(harness.isr_changes.submitted) == count


def test_isr_member_without_replica_is_removed(harness, followers):
    leader = lead(harness, (11, 12, 13), isr=(11, 12, 13))
    lead(harness, (11, 13), isr=(11, 12, 13), partition_epoch=1)
    followers.fetch(13, 0)
    leader.drop_lagging()
    assert proposals(harness) == [(11, 13)]


def test_leader_never_drops_itself(harness):
    leader = lead(harness, (11, 12, 13))
    write(harness)
    harness.now += 2 * LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == [(11,)]


def test_no_member_is_removed_during_a_change(harness, followers):
    leader = lead(harness, (11, 12, 13), isr=(11, 12))
    followers.fetch(12, 0)
    followers.fetch(13, 0)
    assert proposals(harness) == [(11, 12, 13)]
    write(harness)
    harness.now += 2 * LAG_SECONDS
    leader.drop_lagging()
    assert proposals(harness) == [(11, 12, 13)]


# -- changes of the ISR


def test_change_names_known_broker_epochs(harness, followers):
    """KIP-903: the request marks followers whose broker epoch the leader has not seen."""
    lead(harness, (11, 12, 13), isr=(11, 12))
    lead(harness, (11, 13, 14), isr=(11, 12), partition_epoch=1)
    followers.fetch(14, 0)
    [(_, change)] = harness.isr_changes.submitted
    assert change.new_isr == ((11, 111), (12, -1), (14, 114))


def test_response_of_another_epoch_changes_nothing(harness, followers):
    leader = lead(harness, isr=(11,))
    followers.fetch(12, 0)
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_committed(change, (11, 12), 1, 9)
    assert (leader.isr.isr, leader.isr.proposed) == ((11,), (11, 12))


def test_response_older_than_metadata_changes_nothing(harness, followers):
    leader = lead(harness, isr=(11,), partition_epoch=5)
    followers.fetch(12, 0)
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_committed(change, (11, 12), 0, 4)
    assert (leader.isr.isr, leader.isr.proposed) == ((11,), (11, 12))


def test_controller_may_confirm_without_a_change(harness, followers):
    """The response then has the partition epoch that we have."""
    leader = lead(harness, isr=(11,), partition_epoch=5)
    followers.fetch(12, 0)
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_committed(change, (11, 12), 0, 5)
    assert (leader.isr.isr, leader.isr.proposed) == ((11, 12), None)


def test_admitted_follower_lets_the_next_be_proposed(harness, followers):
    lead(harness, (11, 12, 13), isr=(11,))
    followers.fetch(12, 0)
    followers.fetch(13, 0)
    [(owner, change)] = harness.isr_changes.submitted
    owner.isr_committed(change, (11, 12), 0, 1)
    assert proposals(harness) == [(11, 12), (11, 12, 13)]


def test_older_metadata_leaves_the_isr(harness):
    leader = lead(harness, isr=(11, 12), partition_epoch=5)
    leader.update(leader.replica.state._replace(isr=(11,), partition_epoch=5))
    assert leader.isr.isr == (11, 12)
    leader.update(leader.replica.state._replace(isr=(11,), partition_epoch=6))
    assert leader.isr.isr == (11,)


def test_ended_epoch_proposes_nothing(harness, followers):
    leader = lead(harness, isr=(11,))
    followers.fetch(12, 0)
    [(owner, change)] = harness.isr_changes.submitted
    lead(harness, isr=(11,), leader_epoch=1, partition_epoch=1)
    owner.isr_committed(change, (11, 12), 0, 1)
    assert leader.isr.isr == (11,)
    assert owner.isr_refused(change, ErrorCode.UNKNOWN_SERVER_ERROR) is False


def test_follower_with_committed_records_joins(harness, followers):
    leader = lead(harness, (11, 12, 13), isr=(11, 12))
    write(harness, b"a")
    followers.fetch(12, 1)
    write(harness, b"b")
    followers.fetch(13, 0)
    assert (leader.high_watermark.offset, proposals(harness)) == (1, [])
    followers.fetch(13, 1)
    assert proposals(harness) == [(11, 12, 13)]


def test_follower_of_another_history_joins_after_truncation(harness, followers):
    """The follower truncates foreign records only after a response of its leader. As leader it would serve records that
    were never committed (P3, P8).
    """
    leader = lead(harness, isr=(11,))
    write(harness, b"a", b"b")
    leader.delete_records_before(2)
    followers.fetch(12, 2, log_start=0)
    assert proposals(harness) == []
    followers.fetch(12, 2, log_start=2)
    assert proposals(harness) == [(11, 12)]


def test_replica_with_failed_directory_does_not_join(harness, followers):
    """KIP-858: its records no longer exist."""
    elsewhere = registration(12, directories=(bytes(15) + b"\x09",))
    state = topic("t", partition((11, 12), isr=(11,)))
    harness.set_image(state, brokers=(registration(11), elsewhere))
    followers.fetch(12, 0)
    assert proposals(harness) == []


def test_broker_missing_in_metadata_does_not_join(harness, followers):
    state = topic("t", partition((11, 12), isr=(11,)))
    harness.set_image(state, brokers=(registration(11),))
    followers.fetch(12, 0)
    assert proposals(harness) == []
