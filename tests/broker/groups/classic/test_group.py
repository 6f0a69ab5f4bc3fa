"""A classic group's bookkeeping: its leader, common protocols, sizes."""

from __future__ import annotations

import pytest

from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.member import Member, size_of

S = GroupState


def member(name, *protocols, instance=None, token=None, sync=None):
    return Member(
        id=name,
        instance_id=instance,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1_000,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols or (("range", b"123"),),
        join=token,
        sync=sync,
    )


@pytest.fixture
def group():
    return ClassicGroup("g", 0)


def test_group_size_counts_member_metadata(group):
    assert size_of((("range", b"123"), ("sticky", b""))) == 8 + 6
    assert group.bytes == 0
    group.add(member("a"))
    b = member("b", ("range", b"1"), ("sticky", b"12"))
    group.add(b)
    assert group.bytes == 8 + 6 + 8
    group.set_protocols(b, (("range", b"1"),))
    assert group.bytes == 8 + 6
    assert group.remove("a").id == "a"
    assert group.bytes == 6
    assert group.remove("nobody") is None
    assert group.bytes == 6


def test_departed_member_is_not_waited_for(group):
    for name in "ab":
        group.add(member(name))
        group.awaiting_sync.add(name)
    group.pending.add("c")
    group.remove("a")
    assert group.awaiting_sync == {"b"}
    assert group.leader == "b"
    group.remove("c")
    assert not group.pending


def test_static_member_is_awaited_under_new_id(group):
    a = member("a", instance="i")
    group.add(a)
    group.add(member("b"))
    group.awaiting_sync.add("a")
    group.rename(a, "a2")
    assert group.awaiting_sync == {"a2"}
    assert (group.instances, group.leader, list(group.members)) == ({"i": "a2"}, "a2", ["a2", "b"])
    group.rename(group.members["b"], "b2")
    assert group.awaiting_sync == {"a2"}
    assert group.leader == "a2"


def test_new_generation_waits_for_no_old_member(group):
    group.add(member("a"))
    group.awaiting_sync.add("gone")
    group.storing_generation = 0
    group.transition(S.PREPARING_REBALANCE, 1)
    group.begin_generation(2)
    assert (group.generation, group.awaiting_sync, group.storing_generation) == (1, set(), None)
    assert (group.state, group.protocol_name) == (S.COMPLETING_REBALANCE, "range")


@pytest.mark.parametrize(
    ("tokens", "pending", "all_joined"),
    [((), (), True), ((1, 2), (), True), ((1, None), (), False), ((1, 2), ("x",), False)],
)
def test_all_have_joined_without_awaited_members(group, tokens, pending, all_joined):
    for number, token in enumerate(tokens):
        group.add(member(f"m{number}", token=token))
    group.pending.update(pending)
    assert group.all_joined() is all_joined
    assert group.joining_count() == sum(token is not None for token in tokens)


def test_leader_is_a_joined_member(group):
    assert not group.elect_joined_leader()
    group.add(member("a"))
    assert not group.elect_joined_leader()
    assert group.leader == "a"
    group.add(member("b", token=1))
    assert group.elect_joined_leader()
    assert group.leader == "b"
    group.members["a"].join = 2
    assert group.elect_joined_leader()
    assert group.leader == "b"


def test_initial_rebalance_starts_from_empty_group(group):
    assert not group.in_initial_rebalance
    group.transition(S.PREPARING_REBALANCE, 1)
    assert group.in_initial_rebalance
    group.add(member("a"))
    group.begin_generation(2)
    assert not group.in_initial_rebalance
    group.transition(S.PREPARING_REBALANCE, 3)
    assert not group.in_initial_rebalance


@pytest.mark.parametrize(
    ("protocol_type", "names", "is_supported"),
    [
        ("consumer", ["range"], True),
        ("consumer", ["other", "range"], True),
        ("consumer", ["sticky"], False),
        ("consumer", [], False),
        ("connect", ["range"], False),
    ],
)
def test_joining_member_needs_a_common_protocol(group, protocol_type, names, is_supported):
    group.add(member("a", ("range", b""), ("sticky", b"")))
    group.add(member("b", ("range", b"")))
    group.transition(S.PREPARING_REBALANCE, 1)
    assert group.supports(protocol_type, names) is is_supported


@pytest.mark.parametrize(
    ("protocol_type", "names", "is_supported"),
    [("any", ["x"], True), ("", ["x"], False), ("any", [], False)],
)
def test_empty_group_accepts_any_named_protocol(group, protocol_type, names, is_supported):
    assert group.supports(protocol_type, names) is is_supported


def test_most_preferred_common_protocol_is_selected(group):
    group.add(member("a", ("x", b""), ("range", b""), ("sticky", b"")))
    group.add(member("b", ("sticky", b""), ("range", b"")))
    group.add(member("c", ("sticky", b""), ("range", b"")))
    assert group.select_protocol() == "sticky"
    group.remove("b")
    assert group.select_protocol() == "range"  # a tie: the protocol with the first vote


@pytest.mark.parametrize(
    ("join", "sync", "is_new", "is_alive"),
    [
        (None, None, False, False),
        (1, None, False, True),
        (None, 1, False, True),
        (1, None, True, False),
    ],
)
def test_waiting_member_with_heartbeats_is_alive(join, sync, is_new, is_alive):
    one = member("a", token=join, sync=sync)
    one.is_new = is_new
    assert one.satisfies_heartbeat is is_alive


def test_unreadable_subscription_may_be_any_topic(group):
    assert not group.is_subscribed_to("t")
    group.add(member("a"))
    assert group.is_subscribed_to("t")
    group.subscribed_topics = frozenset(["u"])
    assert not group.is_subscribed_to("t")
    assert group.is_subscribed_to("u")
