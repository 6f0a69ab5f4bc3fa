"""The common parts of groups with heartbeats: targets in pieces, timers, failed writes, and messages of refusals."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.groups.driver import topic_id
from tests.broker.groups.share.driver import ShareDriver
from tests.broker.groups.streams.driver import StreamsDriver
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.heartbeating import admission, assigning
from trimaran.broker.groups.heartbeating.assigning import (
    TargetWork,
    go_on,
    write_some,
    write_targets,
)
from trimaran.broker.groups.heartbeating.offsets import check_fetch, member_of
from trimaran.broker.groups.heartbeating.operation import HeartbeatGroupWrite, HeartbeatTimer
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.share.member import ShareMember
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup

E = ErrorCode
T = topic_id("t")
TARGET = TimerKey(HeartbeatTimer.TARGET, "g")


@pytest.fixture
def driver():
    """A share group with the members a, b and c, without targets."""
    driver = ShareDriver()
    for name in "abc":
        driver.beat(name)
    return driver


@pytest.fixture
def operation(driver):
    """Returns an operation on the group without targets."""
    found = driver.shares.operation(driver.group(), driver.at)
    for name in "abc":
        found.group.target = found.group.target.delete(name)
    return found


def given(*partitions):
    return {T: frozenset(partitions)} if partitions else {}


def written(operation):
    """Returns the members whose target was written, and forgets the records."""
    names = [record.key.member_id for record in operation.records]
    operation.records.clear()
    return names


def words(call, *arguments):
    with pytest.raises(KafkaError) as refused:
        call(*arguments)
    return refused.value.code, refused.value.message


# -- targets


def computing(steps, assignment):
    for _ in range(steps):
        yield
    return assignment


def test_target_is_computed_piece_by_piece():
    work = TargetWork(5, computing(3, {"b": 1, "a": 2}))
    for _ in range(3):
        work.compute(1)
        assert (work.assignment, work.unwritten) == (None, None)
    work.compute(1)
    assert (work.assignment, list(work.unwritten)) == ({"b": 1, "a": 2}, ["b", "a"])
    work = TargetWork(5, computing(3, {}))
    work.compute(3)
    assert work.assignment is None
    work.compute(3)
    assert work.assignment == {}


def test_only_changed_targets_of_members_are_written(operation):
    assignment = {"a": given(0, 1), "b": given(), "c": given(2), "gone": given(3)}
    write_targets(operation, assignment, ["a", "b", "gone"])
    assert written(operation) == ["a", "b"]
    assert dict(operation.group.target) == {"a": given(0, 1), "b": given()}
    write_targets(operation, {**assignment, "b": given(3)}, assignment)
    assert written(operation) == ["b", "c"]
    assert operation.group.target["b"] == given(3)


@pytest.mark.parametrize(
    ("records", "assigned", "steps"),
    [
        (1, 100, [["a"], ["b"], ["c"], []]),
        (2, 100, [["a", "b"], ["c"], []]),
        (3, 100, [["a", "b", "c"], []]),
        (9, 1, [["a"], ["b"], ["c"], []]),
        (9, 2, [["a", "b"], ["c"], []]),
        (9, 3, [["a", "b"], ["c"], []]),
        (9, 4, [["a", "b", "c"], []]),
    ],
)
def test_tick_writes_bounded_number_of_targets(monkeypatch, operation, records, assigned, steps):
    monkeypatch.setattr(assigning, "RECORDS_PER_TICK", records)
    monkeypatch.setattr(assigning, "ASSIGNED_PER_TICK", assigned)
    assignment = {"a": given(0, 1), "b": given(2, 3), "c": given(1)}
    if assigned in (2, 3):
        assignment = {"a": given(0, 1), "b": given(*range(assigned - 1)), "c": given(1)}
    if assigned == 4:
        assignment = {"a": given(0, 1), "b": given(2), "c": given(1)}
    work = TargetWork(5, computing(0, assignment))
    work.compute(1)
    found = []
    for step in steps:
        assert write_some(operation, work) is (not step)
        found.append(written(operation))
    assert found == steps


def test_target_timer_repeats_until_epoch_is_written(operation):
    assignment = {"a": given(0), "b": given(1), "c": given(2)}
    operation.work.target = work = TargetWork(9, computing(1, assignment))
    ticks = []
    while operation.work.target is not None:
        operation.timers.cancel(TARGET)
        is_done = go_on(operation, work, 1)
        ticks.append((is_done, TARGET in operation.timers, len(operation.records)))
    assert ticks == [
        (False, True, 0), (False, True, 0), (False, True, 3), (True, False, 4)
    ]  # fmt: skip
    group = operation.group
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (9, operation.at.now_ms)


# -- times and timers


@pytest.mark.parametrize(
    ("since_ms", "wait_ms"), [(0, 1_000), (1, 999), (999, 1), (1_000, 0), (1_001, 0), (-1, 0)]
)
def test_next_target_waits_for_the_interval(operation, since_ms, wait_ms):
    operation.settings = SimpleNamespace(assignment_interval_ms=1_000)
    operation.group.assignment_timestamp_ms = operation.at.now_ms - since_ms
    assert operation.target_wait_ms == wait_ms


def test_only_missing_session_timers_are_set(operation):
    operation.at = Instant(100.0, 100_000)
    member, session = ShareMember("a"), TimerKey(Timer.SESSION, "g", "a")
    operation.timers.set(session, 7.0)
    operation.expect(member)
    assert operation.timers.earliest() == 7.0
    assert operation.has_timer(Timer.SESSION, "a")
    operation.set_timer_if_absent(Timer.SESSION, 1, "a")
    assert operation.timers.earliest() == 7.0
    operation.cancel_timers("a")
    assert not operation.has_timer(Timer.SESSION, "a")
    for name in "bc":
        operation.timers.set(TimerKey(Timer.SESSION, "g", name), 900.0)
    operation.expect(member)
    assert operation.timers.earliest() == 100.0 + 45.0
    operation.set_timer_if_absent(HeartbeatTimer.TARGET, 2_500, "")
    assert operation.timers.earliest() == 102.5
    assert operation.revocation_ms(member) is None


def test_session_timers_are_set_step_by_step(driver):
    for name in "abc":
        driver.shares._timers.cancel(TimerKey(Timer.SESSION, "g", name))
    driver.beat("a", group="h")
    assert len(list(driver.shares.expecting(driver.at))) == (1 + 3) + (1 + 1)
    sessions = [TimerKey(Timer.SESSION, "g", name) in driver.shares._timers for name in "abc"]
    assert sessions == [True] * 3


def test_member_that_left_meanwhile_is_not_expected(driver):
    expecting = driver.shares.expecting(driver.at)
    next(expecting)
    driver.beat("a", -1)
    for _ in expecting:
        pass
    sessions = [TimerKey(Timer.SESSION, "g", name) in driver.shares._timers for name in "ab"]
    assert sessions == [False, True]
    driver.beat("b", -1)
    driver.beat("c", -1)
    assert list(driver.shares.expecting(driver.at)) == [None]


# -- the groups


def test_failed_write_of_this_kind_restores_timers(driver):
    session = TimerKey(Timer.SESSION, "g", "a")
    write = HeartbeatGroupWrite(kind="share", group_id="g")
    others = HeartbeatGroupWrite(kind="streams", group_id="g")
    for ignored, code in (
        (write, E.NONE), (others, E.NOT_ENOUGH_REPLICAS), (object(), E.NOT_ENOUGH_REPLICAS)
    ):  # fmt: skip
        driver.shares._timers.cancel(session)
        driver.shares.written(ignored, code, driver.at)
        assert session not in driver.shares._timers
    driver.shares.written(write, E.NOT_ENOUGH_REPLICAS, driver.at)
    assert session in driver.shares._timers


def test_tombstones_end_when_a_member_joins(driver):
    for name in "abc":
        driver.beat(name, -1)
    everything = list(driver.shares.tombstones("g"))
    assert everything[-1].value is None
    tombstones = driver.shares.tombstones("g")
    assert next(tombstones) == everything[0]
    driver.beat("d")
    assert list(tombstones) == []
    assert list(driver.shares.tombstones("g")) == []
    assert list(driver.shares.tombstones("no")) == []
    assert [driver.shares.is_empty(group_id) for group_id in ("g", "no")] == [False, True]


def test_principal_of_a_failed_join_is_not_charged(driver):
    account = driver.shard.account
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.beat("a", principal="User:x")
    driver.beat("d", principal="User:x")
    driver.failing = None
    assert "User:x" not in account.by_principal
    driver.beat("d", principal="User:x")
    assert account.by_principal["User:x"] > 0
    driver.check_account()


def test_member_stays_with_its_first_principal(driver):
    account = driver.shard.account
    before = dict(account.by_principal)
    driver.beat("a", 2, rack="r", principal="User:y")
    assert account.by_principal.keys() == before.keys()
    assert sum(account.by_principal.values()) > sum(before.values())


# -- words


def test_refusal_of_static_member_has_its_reason():
    driver = StreamsDriver()
    driver.beat("a", instance_id="i")
    group = driver.group
    known = group.members["a"]
    assert admission.known_static(group, "a", "i") is known
    assert words(admission.known_static, group, "a", "j") == (
        E.UNKNOWN_MEMBER_ID,
        "Instance id j is unknown.",
    )
    assert words(admission.known_static, group, "b", "i") == (
        E.FENCED_INSTANCE_ID,
        "Static member b with instance id i was fenced by member a.",
    )
    refusal = admission.unreleased(known, "b")
    assert (refusal.code, refusal.message) == (
        E.UNRELEASED_INSTANCE_ID,
        "Static member b with instance id i cannot join the group because the instance id is owned by a member.",
    )


def test_refusal_for_lack_of_memory_says_so(operation):
    asked = []
    operation.fits = asked.append
    code, message = words(operation.check_memory, 7)
    assert (code, asked) == (E.GROUP_MAX_SIZE_REACHED, [7])
    assert message.startswith("The groups of this broker, or those of this principal, take")
    operation.fits = lambda _more: True
    operation.check_memory(7)


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        (None, 0, E.UNKNOWN_MEMBER_ID),
        ("", -1, E.UNKNOWN_MEMBER_ID),
        ("b", 5, E.UNKNOWN_MEMBER_ID),
        ("a", 5, None),
        ("a", 4, E.STALE_MEMBER_EPOCH),
        ("a", 6, E.STALE_MEMBER_EPOCH),
        ("a", -1, E.STALE_MEMBER_EPOCH),
    ],
)
def test_fetch_needs_member_at_its_epoch(member_id, epoch, code):
    group = SimpleNamespace(members={"a": ShareMember("a", epoch=5)})
    request = OffsetFetchRequestGroup(
        group_id="g", member_id=member_id, member_epoch=epoch, topics=None
    )
    if code is None:
        check_fetch(group, request)
        assert member_of(group, "a").epoch == 5
        return
    assert words(check_fetch, group, request)[0] is code
