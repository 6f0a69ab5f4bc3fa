"""ISR and watermark arithmetic, compared with naive twins, and the rules of KIP-497 and KAFKA-7128, one per test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.broker.partitions.isr import (
    FetchClock,
    IsrState,
    ReplicaProgress,
    lagging,
    may_join,
    next_high_watermark,
)
from trimaran.wire.identity import NO_OFFSET

OFFSETS = st.integers(0, 20)
LEADER = 1


def progress_at(offset: int, **values) -> ReplicaProgress:
    progress = ReplicaProgress(end_offset=offset)
    for name, value in values.items():
        setattr(progress, name, value)
    return progress


def naive_high_watermark(current, flushed, ends, isr, proposed, joining):
    """Returns the smallest durable end offset of all counted replicas; it never decreases."""
    counted = [flushed]
    for replica_id, end in ends.items():
        if replica_id in isr or replica_id in proposed or replica_id in joining:
            counted.append(end)
    return max(current, min(counted))


@given(
    current=OFFSETS,
    flushed=OFFSETS,
    ends=st.dictionaries(st.integers(2, 5), st.integers(NO_OFFSET, 20)),
    isr=st.sets(st.integers(2, 5)),
    proposed=st.sets(st.integers(2, 5)),
    joining=st.sets(st.integers(2, 5)),
)
def test_watermark_is_smallest_end_of_maximal_isr(current, flushed, ends, isr, proposed, joining):
    state = IsrState((LEADER, *isr), 0, (LEADER, *proposed) if proposed else None)
    assert next_high_watermark(
        current,
        flushed,
        {replica_id: progress_at(end) for replica_id, end in ends.items()},
        state.maximal,
        lambda replica_id, _: replica_id in joining,
    ) == naive_high_watermark(current, flushed, ends, isr, proposed, joining)


def test_member_without_fetch_holds_the_watermark():
    replicas = {2: ReplicaProgress()}
    assert next_high_watermark(5, 9, replicas, {1, 2}, lambda *_: False) == 5


def test_leader_counts_only_flushed_records():
    replicas = {2: progress_at(9)}
    assert next_high_watermark(0, 7, replicas, {1, 2}, lambda *_: False) == 7


def test_isr_expansion_counts_early_shrink_late():
    assert IsrState((1, 2), 0, (1, 2, 3)).maximal == {1, 2, 3}
    assert IsrState((1, 2), 0, (1,)).maximal == {1, 2}
    assert IsrState((1, 2), 0).maximal == {1, 2}


@given(end=st.integers(-1, 20), watermark=OFFSETS, start=OFFSETS)
def test_joining_needs_watermark_and_epoch_start(end, watermark, start):
    assert may_join(progress_at(end, log_start_offset=0), watermark, start, 0) == all(
        end >= needed for needed in (watermark, start)
    )


@pytest.mark.parametrize(
    ("end", "start", "joins"),
    [(7, 0, False), (7, 6, False), (7, 7, True), (8, 0, True)],
)
def test_records_below_leaders_start_precede_joining(end, start, joins):
    """Records below the leader's start may be of another history, which the leader's log does not show."""
    assert may_join(progress_at(end, log_start_offset=start), 7, 0, 7) is joins


class NaiveFollower:
    """Remembers every fetch and every end offset of the leader, with their times."""

    def __init__(self) -> None:
        self.fetches: list[tuple[float, int]] = []
        self.ends: list[tuple[float, int]] = [(0.0, 0)]

    def leader_end_at(self, time: float) -> int:
        return [end for when, end in self.ends if when <= time][-1]

    def caught_up(self, now: float, lag: float) -> bool:
        """Whether the follower had all records at some moment within the allowed lag."""
        if not self.fetches:
            return False
        if self.fetches[-1][1] == self.ends[-1][1]:
            return True
        moments = []
        for number, (time, offset) in enumerate(self.fetches):
            if offset >= self.leader_end_at(time):
                moments.append(time)
            elif number and offset >= self.leader_end_at(self.fetches[number - 1][0]):
                moments.append(self.fetches[number - 1][0])
        return bool(moments) and now - max(moments) <= lag


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("fetch"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    max_size=30,
)


@given(steps=STEPS, lag=st.integers(5, 30))
def test_caught_up_agrees_with_the_whole_history(steps, lag):
    clock, progress, naive = FetchClock(), ReplicaProgress(), NaiveFollower()
    now, end, offset = 1.0, 0, 0
    for kind, amount in steps:
        now += 0.5
        if kind == "append":
            end += amount
            naive.ends.append((now, end))
        elif kind == "wait":
            now += amount
        else:
            offset = min(end, offset + amount)
            clock.tick(now)
            progress.record(offset, leader_end=end, broker_epoch=1, clock=clock, now=now)
            naive.fetches.append((now, offset))
        if naive.fetches:
            assert progress.caught_up(end, now, lag) == naive.caught_up(now, lag)


def test_idle_partition_is_as_current_as_session():
    """A request that omits the partition means that its position has not changed (KIP-227)."""
    clock, progress = FetchClock(), ReplicaProgress()
    clock.tick(10.0)
    progress.record(5, leader_end=5, broker_epoch=1, clock=clock, now=10.0)
    for moment in range(11, 100):
        clock.tick(float(moment))
    assert progress.caught_up(6, 100.0, lag_seconds_max=30.0)
    assert not progress.caught_up(6, 130.0, lag_seconds_max=30.0)


def test_new_session_replaces_old_one():
    old, new, progress = FetchClock(), FetchClock(), ReplicaProgress()
    old.tick(10.0)
    progress.record(5, leader_end=5, broker_epoch=1, clock=old, now=10.0)
    old.tick(20.0)
    new.tick(25.0)
    progress.record(5, leader_end=8, broker_epoch=1, clock=new, now=25.0)
    assert progress.caught_up_at == 20.0


@given(
    isr=st.sets(st.integers(2, 5)),
    ends=st.dictionaries(st.integers(2, 5), st.integers(0, 10)),
    caught_up_at=st.dictionaries(st.integers(2, 5), st.integers(0, 100)),
    pending=st.booleans(),
)
def test_lagging_members_are_those_not_caught_up(isr, ends, caught_up_at, pending):
    replicas = {
        replica_id: progress_at(end, caught_up_at=float(caught_up_at.get(replica_id, -1000)))
        for replica_id, end in ends.items()
    }
    members = (LEADER, *sorted(isr))
    state = IsrState(members, 0, (LEADER,) if pending else None)
    expected = set()
    for member in () if pending else isr:
        behind = ends.get(member) != 10
        late = 100 - caught_up_at.get(member, -1000) > 30
        if member not in ends or (behind and late):
            expected.add(member)
    found = lagging(
        state, replicas, leader_id=LEADER, leader_end=10, now=100.0, lag_seconds_max=30.0
    )
    assert set(found) == expected


def test_follower_at_the_end_has_caught_up_now():
    """Consumers are sent to the replica that caught up last."""
    progress, clock, found = ReplicaProgress(), FetchClock(), []
    for now, offset, leader_end in ((10, 5, 5), (20, 5, 7), (30, 7, 7), (40, 8, 7)):
        clock.tick(now)
        progress.record(offset, leader_end=leader_end, broker_epoch=1, clock=clock, now=now)
        found.append(progress.caught_up_at)
    assert found == [10, 10, 30, 40]
