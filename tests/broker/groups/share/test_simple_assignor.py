"""The assignor of share groups: its invariants, its balance, what members keep, and a table of results."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.groups.share.simple_twin import assign_at_once
from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.groups.share import simple_assignor
from trimaran.broker.groups.share.simple_assignor import SharingMember, assign_simply
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.transport.scheduling.pauses import pauses as every

T, U, V = TOPICS = [bytes([number]) * 16 for number in range(3)]
# A set of these has another order than the numbers.
INDEXES = st.sampled_from([0, 1, 2, 3, 4, 5, 8, 16, 33])


@st.composite
def groups(draw, *, homogeneous=None):
    """Returns members with subscriptions and previous targets, which may be outdated in every way."""
    assignable = {topic: draw(st.frozensets(INDEXES)) for topic in TOPICS}
    same = draw(st.booleans()) if homogeneous is None else homogeneous
    shared = frozenset(draw(st.sets(st.sampled_from(TOPICS), min_size=1)))
    targets = st.dictionaries(
        st.sampled_from(TOPICS), st.frozensets(INDEXES, min_size=1), max_size=3
    )
    members = []
    for number in range(draw(st.integers(1, 9))):
        topics = shared if same else frozenset(draw(st.sets(st.sampled_from(TOPICS))))
        members.append(SharingMember(f"m{number}", topics, draw(targets)))
    return draw(st.permutations(members)), assignable


def assigned_to(members, assignable):
    return done(assign_simply(members, assignable))


def pairs(partitions):
    return {(topic, index) for topic, mine in partitions.items() for index in mine}


@given(groups())
def test_assignment_in_pieces_equals_the_twins(group):
    assert assigned_to(*group) == assign_at_once(*group)


def test_pieces_of_a_large_group_are_small(monkeypatch):
    """The number of pieces grows with the number of partitions, for members with and without a target."""
    monkeypatch.setattr(simple_assignor, "PIECE", 10)
    members = [SharingMember(f"m{number}", frozenset(TOPICS)) for number in range(7)]
    assignable = {topic: range(500) for topic in TOPICS}
    first = assigned_to(members, assignable)
    assert len(list(assign_simply(members, assignable))) >= 4 * 1500 // 10
    again = [SharingMember(member.id, member.topics, first[member.id]) for member in members]
    assert len(list(assign_simply(again, assignable))) >= 5 * 1500 // 10 - 10
    one = [
        SharingMember("m", frozenset(TOPICS), {topic: frozenset(range(500)) for topic in TOPICS})
    ]
    assert len(list(assign_simply(one, assignable))) >= 5 * 1500 // 10 - 10


def pauses(work):
    return sum(1 for _ in work)


@pytest.mark.parametrize(("count", "parts"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_each_piece_has_its_pause(monkeypatch, count, parts):
    monkeypatch.setattr(simple_assignor, "PIECE", 2)
    assignor = simple_assignor
    named = [TopicIdPartition(T, index) for index in range(count)]
    assert pauses(assignor._unshared([T], {T: range(count)})) == parts
    member = SharingMember("m", frozenset([T]), {T: frozenset(range(count))})
    for sharers in (dict.fromkeys(named, ()), {}):
        assert pauses(assignor._known(member, frozenset([T]), sharers, every(2))) == parts
    full = {each: ["m"] for each in named}
    assert pauses(assignor._add({"m": {}}, full)) == parts
    assert pauses(assignor._fill(full, 1, {}, {})) == parts


def test_shares_are_computed_in_pieces(monkeypatch):
    monkeypatch.setattr(simple_assignor, "PIECE", 2)
    named = [TopicIdPartition(T, index) for index in range(3)]
    members = [SharingMember(name, frozenset([T]), {T: frozenset([0, 1, 2])}) for name in "abcde"]
    # Three known partitions for each member, up to two kept ones, then members, partitions, and fills.
    kept = [2, 1, 1, 1, 1]
    assert list(simple_assignor._shares(6, list("abcde")).values()) == kept
    work = simple_assignor._share({each: [] for each in named}, frozenset([T]), members)
    assert pauses(work) == (5 * 3 + sum(kept) + 5 + 3) // 2 + 3 // 2


@given(groups())
def test_each_partition_has_a_subscriber_and_no_other(group):
    members, assignable = group
    found = assigned_to(members, assignable)
    assert found.keys() == {member.id for member in members}
    for member in members:
        assert found[member.id].keys() <= member.topics
        assert all(found[member.id].values())
    owned = set().union(*map(pairs, found.values()))
    subscribed = {topic for member in members for topic in member.topics}
    assert owned == pairs({topic: assignable[topic] for topic in subscribed})


@given(groups())
def test_order_of_members_does_not_matter(group):
    members, assignable = group
    assert assigned_to(members[::-1], assignable) == assigned_to(members, assignable)


@given(groups(homogeneous=True))
def test_no_partition_has_more_members_than_needed(group):
    members, assignable = group
    count = sum(len(assignable[topic]) for topic in members[0].topics)
    found = assigned_to(members, assignable)
    sharers = Counter(pair for mine in found.values() for pair in pairs(mine))
    needed = -(-len(members) // count) if count else 0
    assert all(1 <= number <= needed for number in sharers.values())
    sizes = [len(pairs(mine)) for mine in found.values()]
    average = needed * count / len(members)
    assert all(size <= average + 1 for size in sizes)


@given(groups(homogeneous=True))
def test_a_new_group_is_balanced(group):
    members, assignable = group
    found = assigned_to([SharingMember(m.id, m.topics) for m in members], assignable)
    sizes = [len(pairs(mine)) for mine in found.values()]
    assert max(sizes) - min(sizes) <= 1
    sharers = Counter(pair for mine in found.values() for pair in pairs(mine))
    assert len(set(sharers.values())) <= 1


@given(groups())
def test_assignment_is_stable_once_computed(group):
    members, assignable = group
    fresh = [SharingMember(member.id, member.topics) for member in members]
    first = assigned_to(fresh, assignable)
    again = [SharingMember(member.id, member.topics, first[member.id]) for member in members]
    assert assigned_to(again, assignable) == first


@given(groups(homogeneous=True))
def test_members_lose_only_what_others_need(group):
    members, assignable = group
    fresh = [SharingMember(member.id, member.topics) for member in members]
    first = assigned_to(fresh, assignable)
    more = [
        *(SharingMember(member.id, member.topics, first[member.id]) for member in members),
        SharingMember("new", members[0].topics),
    ]
    found = assigned_to(more, assignable)
    for member in members:
        kept = pairs(found[member.id]) & pairs(first[member.id])
        lost = len(pairs(first[member.id])) - len(kept)
        gained = len(pairs(found[member.id])) - len(kept)
        assert lost == 0 or gained == 0


def assigned(counts, subscriptions, targets=()):
    """Returns the result for members a, b, …, each with its topics: `{"a": {T: {0, 1}}}`."""
    targets = dict(targets)
    members = [
        SharingMember(name, frozenset(topics), targets.get(name, {}))
        for name, topics in subscriptions.items()
    ]
    return assigned_to(members, {topic: range(count) for topic, count in counts.items()})


@pytest.mark.parametrize(
    ("counts", "subscriptions", "targets", "expected"),
    [
        ({T: 4}, {"a": [T]}, {}, {"a": {T: {0, 1, 2, 3}}}),
        ({T: 4}, {"a": [T], "b": [T]}, {}, {"a": {T: {0, 2}}, "b": {T: {1, 3}}}),
        ({T: 1}, {"a": [T], "b": [T], "c": [T]}, {}, {n: {T: {0}} for n in "abc"}),
        # Three members for two partitions: each partition has two of them.
        (
            {T: 2},
            {"a": [T], "b": [T], "c": [T]},
            {},
            {"a": {T: {0, 1}}, "b": {T: {0}}, "c": {T: {1}}},
        ),
        # Two topics are one pool for equal subscriptions.
        (
            {T: 1, U: 2},
            {"a": [T, U], "b": [T, U]},
            {},
            {"a": {T: {0}, U: {1}}, "b": {U: {0}}},
        ),
        # Otherwise each topic is shared by its own subscribers.
        (
            {T: 2, U: 1},
            {"a": [T], "b": [T, U], "c": [U]},
            {},
            {"a": {T: {0}}, "b": {T: {1}, U: {0}}, "c": {U: {0}}},
        ),
        # A member that has too much gives up its first partitions, and keeps the others.
        ({T: 4}, {"a": [T], "b": [T]}, {"a": {T: {0, 1, 2, 3}}}, {"a": {T: {2, 3}}, "b": {T: {0, 1}}}),
        # A member gives up what it does not subscribe to, and what is not assignable.
        ({T: 2, U: 1}, {"a": [T], "b": [T]}, {"a": {U: {0}, T: {1, 7}}}, {"a": {T: {1}}, "b": {T: {0}}}),
        ({}, {"a": [T]}, {"a": {T: {0}}}, {"a": {}}),
        ({T: 2}, {"a": []}, {}, {"a": {}}),
    ],
)  # fmt: skip
def test_results_of_small_groups(counts, subscriptions, targets, expected):
    assert assigned(counts, subscriptions, targets) == expected


def test_a_group_without_members_has_no_assignment():
    assert assigned_to([], {T: {0}}) == {}
