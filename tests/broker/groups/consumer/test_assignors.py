"""Both assignors against the invariants of every group, and the uniform one against a naive twin."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimaran.broker.groups.consumer.assignors import model, uniform
from trimaran.broker.groups.consumer.assignors import range as range_module
from trimaran.broker.groups.consumer.assignors.model import AssignedMember, AssignmentInput
from trimaran.broker.groups.consumer.assignors.range import assign_ranges
from trimaran.broker.groups.consumer.assignors.uniform import assign_uniformly
from trimaran.broker.groups.heartbeating.work import done

TOPICS = [bytes([number]) * 16 for number in range(5)]


@st.composite
def groups(draw, *, homogeneous=None):
    """Returns members with subscriptions and previous targets, which may be outdated in every way."""
    counts = {topic: draw(st.integers(1, 9)) for topic in TOPICS}
    same = draw(st.booleans()) if homogeneous is None else homogeneous
    shared = frozenset(draw(st.sets(st.sampled_from(TOPICS))))
    members = []
    for number in range(draw(st.integers(1, 9))):
        topics = shared if same else frozenset(draw(st.sets(st.sampled_from(TOPICS))))
        target = draw(
            st.dictionaries(
                st.sampled_from(TOPICS), st.frozensets(st.integers(0, 11), min_size=1), max_size=3
            )
        )
        instance = draw(st.none() | st.just(f"i{9 - number}"))
        members.append(AssignedMember(f"m{number}", topics, target, instance))
    return AssignmentInput(tuple(draw(st.permutations(members))), counts)


def partitions(assignment, member_id):
    return {(t, p) for t, numbers in assignment[member_id].items() for p in numbers}


def assert_complete(given_, assignment):
    """Every subscribed partition is assigned once, to a subscriber; each member has an assignment."""
    assert assignment.keys() == {member.id for member in given_.members}
    owners = Counter(
        partition for m in given_.members for partition in partitions(assignment, m.id)
    )
    wanted = {t for member in given_.members for t in member.topics}
    assert owners == Counter((t, p) for t in wanted for p in range(given_.topics[t]))
    for member in given_.members:
        assert assignment[member.id].keys() <= member.topics
        assert all(assignment[member.id].values())


@given(groups())
def test_every_partition_is_assigned_once(given_):
    assert_complete(given_, done(assign_uniformly(given_)))
    assert_complete(given_, done(assign_ranges(given_)))


@given(groups(homogeneous=True))
def test_uniform_is_even_if_subscriptions_are_equal(given_):
    assignment = done(assign_uniformly(given_))
    sizes = [len(partitions(assignment, member.id)) for member in given_.members]
    assert max(sizes) - min(sizes) <= 1


@given(groups(homogeneous=True))
def test_uniform_assignor_moves_as_few_as_possible(given_):
    """The twin counts: each member keeps its partitions up to its quota, and members with the most get the largest
    quotas.
    """
    assignment = done(assign_uniformly(given_))
    taken, held = set(), {}
    for member in given_.members:
        held[member.id] = set()
        for topic, numbers in member.target.items():
            for number in numbers:
                one = (topic, number)
                valid = topic in member.topics and number < given_.topics[topic]
                if valid and one not in taken:
                    taken.add(one)
                    held[member.id].add(one)
    total = sum(given_.topics[topic] for topic in given_.members[0].topics)
    quota, extra = divmod(total, len(given_.members))
    sizes = sorted(map(len, held.values()), reverse=True)
    keeps = sum(min(size, quota + (i < extra)) for i, size in enumerate(sizes))
    kept = sum(len(held[m.id] & partitions(assignment, m.id)) for m in given_.members)
    assert kept == keeps


@given(groups())
def test_uniform_assignment_is_even_among_readers(given_):
    """Moving a partition to another reader of its topic never makes the two members more equal."""
    assignment = done(assign_uniformly(given_))
    sizes = {member.id: len(partitions(assignment, member.id)) for member in given_.members}
    for member in given_.members:
        for topic in assignment[member.id]:
            for other in given_.members:
                if topic in other.topics:
                    assert sizes[member.id] - sizes[other.id] <= 1


def test_uniform_assignor_repeats_rounds_until_balanced():
    t, u = TOPICS[:2]
    given_ = AssignmentInput(
        (
            AssignedMember("a", frozenset([t, u]), {u: frozenset([0])}),
            AssignedMember("b", frozenset([t]), {t: frozenset([1, 2, 3])}),
            AssignedMember("c", frozenset([u]), {u: frozenset([0])}),
        ),
        {t: 4, u: 1},
    )
    assignment = done(assign_uniformly(given_))
    assert {name: len(partitions(assignment, name)) for name in "abc"} == {"a": 2, "b": 2, "c": 1}


@given(groups())
@settings(max_examples=50)
def test_existing_assignment_is_kept(given_):
    for assignor in (assign_uniformly, assign_ranges):
        first = done(assignor(given_))
        members = tuple(
            AssignedMember(m.id, m.topics, first[m.id], m.instance_id) for m in given_.members
        )
        assert done(assignor(AssignmentInput(members, given_.topics))) == first


@given(groups(homogeneous=True))
def test_range_assignor_gives_each_member_one_run(given_):
    """Members are in order, static ones first, by name; each topic is split into runs whose sizes differ by at most
    one.
    """
    assignment = done(assign_ranges(given_))
    order = sorted(given_.members, key=lambda m: (m.instance_id is None, m.instance_id or m.id))
    for topic in given_.members[0].topics:
        runs = [sorted(assignment[member.id].get(topic, ())) for member in order]
        assert [p for run in runs for p in run] == list(range(given_.topics[topic]))
        sizes = list(map(len, runs))
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) - min(sizes) <= 1


def shape(members, topics, partitions, *, target=0, alike=True):
    """Returns `members` of `topics` topics each, which already own some partitions; the last reads one topic less
    unless all are `alike`.
    """
    names = [number.to_bytes(16, "big") for number in range(topics)]
    owned = {names[0]: frozenset(range(target))} if target else {}
    found = [AssignedMember(f"m{n:05}", frozenset(names), owned) for n in range(members)]
    if not alike:
        found[-1] = AssignedMember("z", frozenset(names[1:]))
    return AssignmentInput(tuple(found), dict.fromkeys(names, partitions))


@pytest.mark.parametrize(
    ("assignor", "given_", "pieces"),
    [
        # Members without partitions are counted, and then returned.
        (assign_ranges, shape(100, 1, 1), 20),
        # Each member's runs are separate pieces.
        (assign_ranges, shape(10, 1, 400), 10),
        # Each member is visited four times: kept partitions, removed ones, quotas, remaining ones.
        (assign_uniformly, shape(100, 1, 1), 49),
        # Each member's present partitions are visited.
        (assign_uniformly, shape(10, 1, 20, target=20), 27),
        # Partitions without an owner.
        (assign_uniformly, shape(2, 1, 400), 40),
        # For differing subscriptions: members, then topics, then partitions.
        (assign_uniformly, shape(100, 2, 1, alike=False), 120),
        # Partitions are looked up, assigned, balanced and returned.
        (assign_uniformly, shape(2, 2, 400, alike=False), 300),
        # Partitions are moved to members with fewer.
        (assign_uniformly, shape(2, 2, 400, target=400, alike=False), 280),
    ],
)
def test_assignment_yields_after_bounded_work(monkeypatch, assignor, given_, pieces):
    """With fewer than half as many yields, the work would block the event loop for longer than its limit."""
    for module in (model, range_module, uniform):
        monkeypatch.setattr(module, "PIECE", 10)
    assert pieces * 0.9 <= sum(1 for _ in assignor(given_)) <= pieces * 1.2


def test_large_group_is_assigned_in_pieces():
    members = tuple(AssignedMember(f"m{n:05}", frozenset(TOPICS[:1])) for n in range(5_000))
    given_ = AssignmentInput(members, {TOPICS[0]: 10_000})
    for assignor in (assign_uniformly, assign_ranges):
        assert sum(1 for _ in assignor(given_)) >= 5


def test_equal_members_get_topics_in_order():
    members = tuple(AssignedMember(f"m{n}", frozenset(TOPICS[:3])) for n in range(3))
    given_ = AssignmentInput(members, dict.fromkeys(TOPICS[:3], 1))
    assert done(assign_uniformly(given_)) == {
        f"m{n}": {TOPICS[n]: frozenset({0})} for n in range(3)
    }
