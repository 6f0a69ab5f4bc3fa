"""Members of the classic protocol in a consumer group, one rule per test: the right to join, the kept state, and its
lifetime.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver, subscription
from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState
from trimaran.broker.groups.consumer.operation import ConsumerTimer
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.join_group import JoinGroupResponse

E = ErrorCode


@pytest.fixture
def driver():
    """Returns a driver with member `n` of the consumer protocol, so that the group is a consumer group."""
    found = Driver()
    found.consumer_heartbeat("n")
    return found


def join(driver, member_id: str = "", **more) -> JoinGroupResponse:
    token = f"join {len(driver.answers)}"
    driver.join(token, member_id, **more)
    answer = driver.answers[token]
    assert isinstance(answer, JoinGroupResponse)
    return answer


def member(driver, member_id: str) -> ConsumerMember:
    found = driver.shard.store.of("consumer")["g"].members[member_id]
    assert isinstance(found, ConsumerMember)
    return found


def has_timer(driver, kind: Timer, member_id: str) -> bool:
    return TimerKey(kind, "g", member_id) in driver.shard._timers


def with_rack(rack: str) -> bytes:
    """Returns a subscription to `t` of version 3: user data, no owned partitions, no generation, the rack."""
    name = rack.encode()
    tail = b"\0\0\0\0" + b"\xff\xff\xff\xff" + len(name).to_bytes(2, "big") + name
    return b"\0\3" + subscription(["t"])[2:] + tail


def owning(topic: str, partitions: list[int], *, subscribed: str | None = None) -> bytes:
    """Returns a subscription of version 1, to `t` by default: the owned partitions follow the user data."""
    name, numbers = (
        topic.encode(),
        b"".join(partition.to_bytes(4, "big") for partition in partitions),
    )
    owned = len(name).to_bytes(2, "big") + name + len(partitions).to_bytes(4, "big") + numbers
    return b"\0\1" + subscription([subscribed or topic])[2:] + b"\0\0\0\1" + owned


# -- identity


def test_new_member_gets_its_id_first(driver):
    answer = join(driver, client="c")
    assert answer.error_code == E.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("c-")
    assert list(driver.shard.store.of("consumer")["g"].members) == ["n"]
    again = join(driver, answer.member_id)
    assert again.error_code == E.NONE
    assert again.member_id == answer.member_id


def test_member_of_old_version_joins_at_once(driver):
    answer = join(driver, version=3)
    assert answer.error_code == E.NONE
    assert member(driver, answer.member_id).uses_classic_protocol


@pytest.mark.parametrize(("version", "code"), [(3, E.NONE), (4, E.MEMBER_ID_REQUIRED)])
def test_ids_are_required_from_version_4_on(driver, version, code):
    assert join(driver, version=version).error_code == code


def test_static_member_joins_under_its_own_name(driver):
    answer = join(driver, instance="i", client="c")
    assert answer.error_code == E.NONE
    assert answer.member_id.startswith("i-")
    assert member(driver, answer.member_id).instance_id == "i"


def test_member_keeps_instance_and_rack(driver):
    answer = join(driver, instance="i", protocols=[("range", with_rack("r"))])
    assert member(driver, answer.member_id).rack_id == "r"
    assert (
        join(driver, answer.member_id, protocols=[("range", subscription(["t"]))]).error_code == 0
    )
    found = member(driver, answer.member_id)
    assert (found.instance_id, found.rack_id) == ("i", "r")


def test_member_may_move_to_another_rack(driver):
    answer = join(driver, "a", protocols=[("range", with_rack("r"))])
    join(driver, "a", protocols=[("range", with_rack("s"))])
    assert member(driver, answer.member_id).rack_id == "s"


def test_full_group_refuses_new_members(driver):
    driver.settings = replace(driver.settings, members_max=2)
    assert join(driver, "a").error_code == E.NONE
    assert join(driver, "b").error_code == E.GROUP_MAX_SIZE_REACHED
    assert join(driver, "a").error_code == E.NONE


# -- deadlines


def test_silent_member_leaves_after_its_session(driver):
    join(driver, "a", session_ms=7_000)
    assert 7.0 in driver.advance(7)
    assert set(driver.shard.store.of("consumer")["g"].members) == {"n"}


def test_member_without_sync_in_time_is_removed(driver):
    join(driver, "a", session_ms=30_000, rebalance_ms=5_000)
    assert has_timer(driver, ConsumerTimer.CLASSIC_SYNC, "a")
    driver.advance(5)
    assert set(driver.shard.store.of("consumer")["g"].members) == {"n"}


def test_rejoining_member_is_in_time(driver):
    """`n` has all partitions; when it revokes two of them for `a`, the heartbeat of `a` returns
    REBALANCE_IN_PROGRESS.
    """
    epoch = join(driver, "a").generation_id
    driver.consumer_heartbeat("n", 2, owned={"t": [0, 1]})
    assert driver.heartbeat("a", epoch) == E.REBALANCE_IN_PROGRESS
    assert has_timer(driver, ConsumerTimer.CLASSIC_JOIN, "a")
    answer = join(driver, "a")
    assert not has_timer(driver, ConsumerTimer.CLASSIC_JOIN, "a")
    driver.sync("sync", "a", answer.generation_id)
    assert driver.answers["sync"].error_code == E.NONE
    assert not has_timer(driver, ConsumerTimer.CLASSIC_SYNC, "a")
    assert driver.heartbeat("a", answer.generation_id) == E.NONE


# -- back to a classic group


def test_last_consumer_static_member_returns_as_classic():
    driver = Driver()
    driver.consumer_heartbeat("n", instance="i")
    join(driver, "a")
    driver.consumer_heartbeat("n", -2, instance="i")
    answer = join(driver, instance="i")
    assert answer.error_code == E.NONE
    driver.advance(0)
    assert driver.consumer_group("g") is None
    assert set(driver.groups["g"].members) == {"a", answer.member_id}


# -- protocols


def test_only_consumers_join_and_they_need_a_protocol(driver):
    for more in ({"protocol_type": "connect"}, {"protocols": []}):
        assert join(driver, "a", **more).error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_must_be_common_with_other_members(driver):
    t = subscription(["t"])
    assert join(driver, "a", protocols=[("range", t)]).error_code == E.NONE
    assert join(driver, "b", protocols=[("sticky", t)]).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert join(driver, "a", protocols=[("sticky", t)]).error_code == E.NONE
    assert join(driver, "b", protocols=[("sticky", t)]).error_code == E.NONE


def test_static_member_replaces_living_consumer_of_name():
    """The old protocol has no UNRELEASED_INSTANCE_ID."""
    driver = Driver()
    driver.consumer_heartbeat("n", instance="i")
    driver.consumer_heartbeat("other")
    answer = join(driver, instance="i")
    assert answer.error_code == E.NONE
    assert set(driver.shard.store.of("consumer")["g"].members) == {"other", answer.member_id}


# -- SyncGroup and Heartbeat


def sync(driver, member_id, generation, **more) -> ErrorCode:
    token = f"sync {len(driver.answers)}"
    driver.sync(token, member_id, generation, **more)
    return ErrorCode(driver.answers[token].error_code)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, E.NONE),
        ({"protocol_type": "consumer", "protocol_name": "range"}, E.NONE),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_sync_must_match_the_join(driver, more, code):
    epoch = join(driver, "a").generation_id
    assert sync(driver, "a", epoch, **more) is code


def test_sync_under_newer_target_requires_timely_rejoin(driver):
    epoch = join(driver, "a", session_ms=30_000, rebalance_ms=5_000).generation_id
    join(driver, "b")
    assert sync(driver, "a", epoch) is E.REBALANCE_IN_PROGRESS
    assert has_timer(driver, ConsumerTimer.CLASSIC_JOIN, "a")
    driver.advance(5)
    assert "a" not in driver.shard.store.of("consumer")["g"].members


def test_revocation_is_announced_before_newer_target():
    """The member syncs what it may keep, revokes the rest, and joins again for more."""
    driver = Driver()
    driver.consumer_heartbeat("n", topics=["none"])
    epoch = join(driver, "a").generation_id
    assert sync(driver, "a", epoch) is E.NONE
    join(driver, "b")
    owns_all = [("range", owning("t", [0, 1, 2, 3]))]
    epoch = join(driver, "a", protocols=owns_all).generation_id
    assert member(driver, "a").state is MemberState.UNREVOKED_PARTITIONS
    join(driver, "c")
    assert sync(driver, "a", epoch) is E.NONE
    assert driver.heartbeat("a", epoch) == E.REBALANCE_IN_PROGRESS


def test_member_revoking_early_rejoins_at_once():
    """Partitions that it still reports as owned get no other owner before it has revoked them."""
    driver = Driver()
    driver.topics.set("u", 1)
    driver.consumer_heartbeat("n", topics=["none"])
    both = [("range", subscription(["t", "u"]))]
    epoch = join(driver, "a", protocols=both).generation_id
    driver.settings = replace(driver.settings, assignment_interval_ms=60_000)
    only_t = [("range", owning("u", [0], subscribed="t"))]
    assert join(driver, "a", protocols=only_t).generation_id == epoch
    found = member(driver, "a")
    assert (found.state, found.epoch) == (MemberState.UNREVOKED_PARTITIONS, epoch)
    assert driver.shard.store.of("consumer")["g"].assignment_epoch == epoch
    assert driver.heartbeat("a", epoch) == E.REBALANCE_IN_PROGRESS


def test_waiting_member_is_undisturbed_until_partitions_free(driver):
    epoch = join(driver, "a").generation_id
    assert sync(driver, "a", epoch) is E.NONE
    assert member(driver, "a").state is MemberState.UNRELEASED_PARTITIONS
    assert driver.heartbeat("a", epoch) == E.NONE
    driver.consumer_heartbeat("n", 2, owned={"t": [0, 1, 2, 3]})
    driver.consumer_heartbeat("n", 2, owned={"t": [0, 1]})
    assert driver.heartbeat("a", epoch) == E.REBALANCE_IN_PROGRESS


def test_each_request_restarts_the_session(driver):
    epoch = join(driver, "a", session_ms=10_000).generation_id
    for say in (lambda: driver.heartbeat("a", epoch), lambda: sync(driver, "a", epoch)) * 2:
        driver.advance(6)
        driver.consumer_heartbeat("n", 2)
        assert say() == E.NONE


@pytest.mark.parametrize("epoch", [0, 2, 4])
def test_wrong_generation_is_refused(driver, epoch):
    assert join(driver, "a").generation_id == 3
    assert driver.heartbeat("a", epoch) == E.ILLEGAL_GENERATION
    assert sync(driver, "a", epoch) is E.ILLEGAL_GENERATION


def test_refused_heartbeat_restarts_no_session(driver):
    epoch = join(driver, "a", session_ms=10_000).generation_id
    assert driver.heartbeat("a", epoch) == E.NONE
    driver.advance(6)
    driver.consumer_heartbeat("n", 2)
    assert driver.heartbeat("a", epoch - 1) == E.ILLEGAL_GENERATION
    driver.advance(6)
    assert set(driver.shard.store.of("consumer")["g"].members) == {"n"}


def test_non_classic_member_is_unknown(driver):
    join(driver, "a", instance="i")
    for who, instance in [("n", None), ("x", None), ("x", "j"), ("", "j")]:
        assert driver.heartbeat(who, 1, instance=instance) == E.UNKNOWN_MEMBER_ID
        assert sync(driver, who, 1, instance=instance) is E.UNKNOWN_MEMBER_ID
        assert driver.leave((who, instance)) == [E.UNKNOWN_MEMBER_ID]


def test_static_member_is_fenced_by_next_incarnation(driver):
    first = join(driver, instance="i")
    second = join(driver, instance="i")
    assert first.member_id != second.member_id
    old, new = first.member_id, second.member_id
    assert driver.heartbeat(old, first.generation_id, instance="i") == E.FENCED_INSTANCE_ID
    assert sync(driver, old, first.generation_id, instance="i") is E.FENCED_INSTANCE_ID
    assert driver.leave((old, "i")) == [E.FENCED_INSTANCE_ID]
    assert new in driver.shard.store.of("consumer")["g"].members


# -- LeaveGroup


def test_each_leaving_member_is_answered(driver):
    join(driver, "a")
    static = join(driver, instance="i")
    before = driver.shard.store.of("consumer")["g"].epoch
    assert driver.leave(("x", None), ("a", None), ("", "i")) == [
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
        E.NONE,
    ]
    group = driver.shard.store.of("consumer")["g"]
    assert set(group.members) == {"n"}
    assert group.epoch == before + 1
    assert static.member_id not in group.members


def test_leaving_unknown_group_writes_nothing(driver):
    before = len(driver.log)
    assert driver.leave(("x", None)) == [E.UNKNOWN_MEMBER_ID]
    assert len(driver.log) == before


def test_failed_write_of_a_join_names_the_group(driver, caplog):
    driver.consumer_heartbeat("a")
    driver.failing = ErrorCode.NOT_COORDINATOR
    driver.join("b", version=3)
    assert driver.answers["b"].error_code == ErrorCode.NOT_COORDINATOR
    assert "storing g failed: NOT_COORDINATOR" in caplog.text
