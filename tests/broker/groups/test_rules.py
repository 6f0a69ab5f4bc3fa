"""Rules of membership and expiry that no other test covers, one per test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import WALL_CLOCK_MS, Driver
from trimaran.broker.groups.classic import joining
from trimaran.broker.groups.classic.group import GroupState
from trimaran.broker.groups.classic.operation import ClassicTimer
from trimaran.broker.groups.classic.records import group_record
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.wire.errors import ErrorCode
from trimaran.wire.records.groups import GroupMetadataValue

E = ErrorCode
S = GroupState
LIMITS = replace(GroupLimits(), offsets_retention_ms=60_000, expiry_interval_ms=1_000)


@pytest.fixture
def driver():
    return Driver()


def code_of(driver, token):
    return E(driver.answers[token].error_code)


def state(driver):
    return driver.groups["g"].state


def stable(driver, *names, **join):
    """Adds static members with these instance ids in a stable generation 1; returns their member ids."""
    for name in names:
        driver.join(name, instance=name, client=name, **join)
    driver.advance(3)
    ids = [driver.answers[name].member_id for name in names]
    for name, member_id in zip(names, ids, strict=True):
        assignments = dict.fromkeys(ids, b"x")
        driver.sync(f"sync {name}", member_id, 1, assignments, instance=name)
    assert state(driver) is S.STABLE
    return ids


# -- sessions


def test_commit_extends_session_during_rebalance(driver):
    _, b = stable(driver, "a", "b")
    driver.join("a again", driver.answers["a"].member_id, instance="a")
    assert state(driver) is S.PREPARING_REBALANCE
    for _ in range(3):
        driver.advance(8)
        assert driver.commit_offset(1, member_id=b, generation=1, instance="b") is E.NONE
    assert b in driver.groups["g"].members


def test_rejoining_member_may_change_session_timeout(driver):
    (a,) = stable(driver, "a")
    driver.join("a again", a, instance="a", session_ms=40_000)
    driver.sync("sync again", a, 2, {a: b"x"}, instance="a")
    driver.advance(39)
    assert a in driver.groups["g"].members
    driver.advance(2)
    assert a not in driver.groups["g"].members


def test_abandoned_member_id_disturbs_no_other(driver):
    (a,) = stable(driver, "a")
    driver.join("b")
    assert code_of(driver, "b") is E.MEMBER_ID_REQUIRED
    for _ in range(3):
        driver.advance(5)
        assert driver.heartbeat(a, 1, instance="a") is E.NONE
    assert not driver.groups["g"].pending
    assert state(driver) is S.STABLE


def test_dynamic_members_id_is_refused_for_static(driver):
    stable(driver, "a")
    driver.join("b")
    driver.join("b again", driver.answers["b"].member_id, instance="b")
    assert code_of(driver, "b again") is E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("is_consumer_group", [False, True])
def test_member_id_begins_with_bounded_name(driver, is_consumer_group):
    if is_consumer_group:
        driver.consumer_heartbeat("other")
    driver.join("a", client="n" * 1_001, version=4)
    name, _, suffix = driver.answers["a"].member_id.partition("-")
    assert (name, bool(suffix)) == ("n" * 1_000, True)


def test_ids_that_were_given_out_have_a_bound(driver, monkeypatch):
    """A member of the group, or a client that was already given an id, is admitted nevertheless."""
    monkeypatch.setattr(joining, "PENDING_MEMBERS_MAX", 2)
    stable(driver, "a")
    for token in "bcd":
        driver.join(token)
    assert [code_of(driver, token) for token in "bcd"] == [
        E.MEMBER_ID_REQUIRED,
        E.MEMBER_ID_REQUIRED,
        E.GROUP_MAX_SIZE_REACHED,
    ]
    driver.join("a2", instance="a")
    assert code_of(driver, "a2") is E.NONE
    driver.join("b again", driver.answers["b"].member_id)
    assert len(driver.groups["g"].members) == 2


# -- returning static members


def test_waiting_sync_is_fenced_by_next_incarnation(driver):
    for name in "ab":
        driver.join(name, instance=name)
    driver.advance(3)
    driver.sync("sync b", driver.answers["b"].member_id, 1, {}, instance="b")
    driver.join("b2", instance="b")
    assert code_of(driver, "sync b") is E.FENCED_INSTANCE_ID


def test_static_member_back_before_generation_is_awaited(driver):
    """Unlike a new member's, its waiting join keeps its session alive."""
    (a,) = stable(driver, "a", session_ms=300_000)
    driver.join("b", instance="b")
    driver.join("b2", instance="b")
    assert code_of(driver, "b") is E.FENCED_INSTANCE_ID
    driver.advance(50)
    assert len(driver.groups["g"].members) == 2
    driver.join("a again", a, instance="a")
    assert code_of(driver, "b2") is E.NONE


def test_unstorable_return_leaves_member_unchanged(driver):
    (a,) = stable(driver, "a")
    before, timers = driver.groups["g"].members[a].protocols, len(driver.shard._timers)
    driver.failing = E.NOT_COORDINATOR
    driver.join(
        "a2",
        instance="a",
        protocols=[("range", b"other"), ("sticky", b"other")],
        session_ms=50_000,
        rebalance_ms=70_000,
    )
    assert code_of(driver, "a2") is E.NOT_COORDINATOR
    assert driver.answers["a2"].leader == a
    assert len(driver.shard._timers) == timers, "of the id that it was about to have none is left"
    member = driver.groups["g"].members[a]
    assert member.protocols == before
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 60_000)
    assert driver.groups["g"].supports("consumer", ["range"])
    assert not driver.groups["g"].supports("consumer", ["sticky"])


def test_return_stored_during_rebalance_joins_next_generation(driver):
    stable(driver, "a")
    driver.holding = True
    driver.join("a2", instance="a")
    driver.join("c")  # an id for a member that has not joined yet, so the rebalance waits for it
    driver.join("b", instance="b")
    assert state(driver) is S.PREPARING_REBALANCE
    driver.commit()
    assert "a2" not in driver.answers
    driver.leave((driver.answers["c"].member_id, None))
    assert driver.answers["a2"].generation_id == driver.answers["b"].generation_id == 2


def test_failed_return_during_rebalance_changes_nothing(driver):
    (a,) = stable(driver, "a")
    stable_group = driver.groups["g"]
    driver.holding = True
    driver.join("a2", instance="a")
    (write,) = driver.uncommitted.pop_committed(len(driver.log))
    driver.join("c")  # an id for a member that has not joined yet, so the rebalance waits for it
    driver.join("b", instance="b")
    assert state(driver) is S.PREPARING_REBALANCE
    driver.shard.written(write, E.COORDINATOR_NOT_AVAILABLE, driver.at)
    driver.settle()
    assert "a2" not in driver.answers
    assert a not in stable_group.members


def test_failed_return_does_not_affect_the_next(driver):
    (a,) = stable(driver, "a")
    driver.holding = True
    driver.join("a2", instance="a")
    (write,) = driver.uncommitted.pop_committed(len(driver.log))
    driver.join("a3", instance="a")
    assert code_of(driver, "a2") is E.FENCED_INSTANCE_ID
    driver.shard.written(write, E.COORDINATOR_NOT_AVAILABLE, driver.at)
    driver.settle()
    assert "a3" not in driver.answers
    driver.commit()
    assert code_of(driver, "a3") is E.NONE
    assert set(driver.groups["g"].members) == {driver.answers["a3"].member_id} != {a}


def test_session_of_returning_member_begins_with_answer(driver):
    stable(driver, "a")
    driver.holding = True
    driver.join("a2", instance="a")
    driver.limits = replace(driver.limits, commit_timeout_ms=60_000)
    driver.advance(4)
    driver.commit()
    back = driver.answers["a2"].member_id
    driver.advance(8)
    assert back in driver.groups["g"].members
    driver.advance(2.5)
    assert back not in driver.groups["g"].members


def test_departure_of_last_awaited_member_ends_rebalance(driver):
    a, b, c = stable(driver, "a", "b", "c")
    driver.join("a again", a, instance="a")
    driver.join("b again", b, instance="b")
    assert "a again" not in driver.answers
    driver.leave((c, "c"))
    assert code_of(driver, "a again") is code_of(driver, "b again") is E.NONE


def test_synced_group_awaits_no_member(driver):
    stable(driver, "a", "b")
    assert TimerKey(ClassicTimer.SYNC, "g") not in driver.shard._timers


def test_oversized_group_keeps_first_rejoining_members(driver):
    """The limit was lowered: the last members to join again are removed."""
    a, b = stable(driver, "a", "b")
    driver.classic._limits = replace(driver.limits, members_max=1)
    assert code_of_join(driver, "c", version=3) is E.GROUP_MAX_SIZE_REACHED
    driver.join("a again", a, instance="a")
    assert state(driver) is S.PREPARING_REBALANCE
    driver.join("a once more", a, instance="a")
    assert code_of(driver, "a again") is E.REBALANCE_IN_PROGRESS
    driver.join("b again", b, instance="b")
    assert code_of(driver, "b again") is E.GROUP_MAX_SIZE_REACHED
    assert code_of(driver, "a once more") is E.NONE
    assert set(driver.groups["g"].members) == {a}


# -- writes of an older generation


def test_late_assignment_failure_spares_next_generation(driver):
    driver.join("a", version=3)
    driver.advance(3)
    a = driver.answers["a"].member_id
    driver.holding = True
    driver.sync("sync a", a, 1, {a: b"x"})
    driver.join("b", version=3)
    driver.join("a again", a)
    group = driver.groups["g"]
    assert (group.state, group.generation) == (S.COMPLETING_REBALANCE, 2)
    driver.advance(6)  # the first one's commit did not come in time
    assert (group.state, group.generation) == (S.COMPLETING_REBALANCE, 2)


# -- expiry


def empty_group(**fields):
    """Returns a loaded group without members."""
    values = {
        "protocol_type": "consumer",
        "generation": 3,
        "protocol": None,
        "leader": None,
        "current_state_timestamp": WALL_CLOCK_MS,
        "members": [],
    }
    return group_record("g", GroupMetadataValue(**values | fields))


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 10),
        ({"protocol_type": ""}, 60),
        ({"current_state_timestamp": -1}, 60),
    ],
    ids=["empty for 50 s", "never had members", "since when is not stored"],
)
def test_offset_retention_starts_when_group_empties(fields, seconds):
    """Retention starts when the last member leaves, or at the commit if there was no member or the time is unknown."""
    since = {"current_state_timestamp": WALL_CLOCK_MS - 50_000}
    driver = Driver(LIMITS, log=[empty_group(**since | fields)])
    driver.commit_offset(1)
    driver.advance(seconds - 1.5)
    assert driver.offset() == 1
    driver.advance(3)
    assert driver.offset() is None


def test_offsets_do_not_expire_before_pending_join():
    driver = Driver(LIMITS, log=[empty_group()])
    driver.commit_offset(1)
    driver.advance(55)
    driver.join("a")
    assert code_of(driver, "a") is E.MEMBER_ID_REQUIRED
    driver.advance(9)
    assert driver.offset() == 1
    assert "g" in driver.groups
    driver.advance(3)
    assert driver.offset() is None


def test_group_without_offsets_survives_pending_join():
    driver = Driver(LIMITS, log=[empty_group()])
    driver.join("a")
    driver.advance(2)
    driver.join("a again", driver.answers["a"].member_id)
    driver.advance(3)
    assert code_of(driver, "a again") is E.NONE


# -- bounds


def code_of_join(driver, token, *args, **join):
    driver.join(token, *args, **join)
    return E(driver.answers[token].error_code) if token in driver.answers else E.NONE


def test_metadata_of_all_members_is_bounded(driver, monkeypatch):
    monkeypatch.setattr(joining, "GROUP_BYTES_MAX", 20)
    assert code_of_join(driver, "a", version=3, protocols=[("p", b"x" * 9)]) is E.NONE
    assert code_of_join(driver, "b", version=3, protocols=[("p", b"x" * 10)]) is (
        E.GROUP_MAX_SIZE_REACHED
    )
    assert code_of_join(driver, "c", version=3, protocols=[("p", b"x" * 9)]) is E.NONE
    group = driver.groups["g"]
    assert (len(group.members), group.bytes) == (2, 20)
    # A member's former metadata does not count in addition to the present one.
    driver.advance(3)
    first, second = group.members
    driver.join("a again", first, protocols=[("p", b"y" * 9)])
    driver.join("c again", second, protocols=[("p", b"y" * 9)])
    assert code_of(driver, "a again") is code_of(driver, "c again") is E.NONE
    assert group.bytes == 20


@pytest.mark.parametrize(("version", "code"), [(3, E.NONE), (4, E.MEMBER_ID_REQUIRED)])
def test_member_id_is_required_from_version_4(driver, version, code):
    assert code_of_join(driver, "a", version=version) is code


def test_returning_static_member_has_its_own_session(driver):
    (a,) = stable(driver, "a")
    driver.join("a2", instance="a")
    back = driver.answers["a2"].member_id
    timers = driver.shard._timers
    assert TimerKey(Timer.SESSION, "g", a) not in timers
    assert TimerKey(Timer.SESSION, "g", back) in timers
    driver.advance(9)
    assert driver.heartbeat(back, 1, instance="a") is E.NONE
    driver.advance(9)
    assert back in driver.groups["g"].members


def test_rebalance_does_not_wait_for_sync(driver):
    """The deadline for SyncGroup belonged to the last generation."""
    driver.join("a", version=3, rebalance_ms=5_000)
    driver.advance(3)
    assert TimerKey(ClassicTimer.SYNC, "g") in driver.shard._timers
    driver.join("b", version=3, rebalance_ms=5_000)
    assert TimerKey(ClassicTimer.SYNC, "g") not in driver.shard._timers
    assert TimerKey(ClassicTimer.JOIN, "g") in driver.shard._timers


@pytest.mark.parametrize(
    ("delay_ms", "rebalance_ms", "ends"), [(3_000, 5_000, 5.0), (3_000, 1_000, 3.0)]
)
def test_initial_rebalance_ends_despite_further_joins(delay_ms, rebalance_ms, ends):
    """The rebalance ends after its delay, or after the longest rebalance timeout of its first members."""
    driver = Driver(replace(GroupLimits(), initial_rebalance_delay_ms=delay_ms))
    driver.join("a", version=3, rebalance_ms=rebalance_ms)
    for number in range(4):
        driver.advance(ends / 5)
        driver.join(f"b{number}", version=3, rebalance_ms=100_000)
    driver.advance(ends - driver.now - 0.1)
    assert "a" not in driver.answers
    driver.advance(0.1)
    assert "a" in driver.answers


def test_join_phase_without_joins_lasts_rebalance_timeout(driver):
    stable(driver, "a", "b", rebalance_ms=40_000, session_ms=300_000)
    group = driver.groups["g"]
    driver.leave((group.instances["b"], "b"))
    assert state(driver) is S.PREPARING_REBALANCE
    assert driver.advance(85) == [pytest.approx(43.0), pytest.approx(83.0)]
