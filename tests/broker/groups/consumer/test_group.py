"""A group's state follows from its records, in any order: compared with a twin that scans all members for every
query."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from trimaran.broker.groups.consumer import records
from trimaran.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupState, ResolvedRegex
from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState
from trimaran.broker.groups.heartbeating.group import NO_ASSIGNMENT_EPOCH
from trimaran.wire.records.consumer_groups import ClassicMemberMetadata, ClassicProtocol

IDS, NAMES, REGEXES = ["a", "b", "c"], ["t", "u", "tu"], ["", "t.*", "u.*"]
TOPIC = b"t" * 16


def owner(group, partition):
    return group.owners.get(TOPIC, {}).get(partition)


@st.composite
def members(draw):
    classic = ClassicMemberMetadata(
        session_timeout_ms=10_000,
        supported_protocols=[ClassicProtocol(name="range", metadata=b"m" * 7)],
    )
    member_id = draw(st.sampled_from(IDS))
    return ConsumerMember(
        member_id,
        # A static name may pass to another member before the record of the former one is removed.
        instance_id=draw(st.sampled_from([None, "i", "j"])),
        subscribed_names=tuple(sorted(draw(st.sets(st.sampled_from(NAMES))))),
        regex=draw(st.sampled_from(REGEXES)),
        classic=draw(st.sampled_from([None, classic])),
    )


@st.composite
def currents(draw):
    """Returns current assignments as the shard writes them: no two members own the same partition."""
    member_id = draw(st.sampled_from(IDS))
    mine = {number: 1 for number in (0, 1, 2) if number % len(IDS) == IDS.index(member_id)}
    return ConsumerMember(
        member_id,
        epoch=draw(st.integers(0, 3)),
        state=draw(st.sampled_from([MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS])),
        assigned=draw(st.sampled_from([{}, {TOPIC: mine}])),
        revoking=draw(st.sampled_from([{}, {TOPIC: {9: 1}}])) if member_id == "a" else {},
    )


def resolved(topics):
    return ResolvedRegex(frozenset(topics), 5, 6)


written = st.one_of(
    members().map(lambda member: [records.RECORDS.member("g", member)]),
    currents().map(lambda member: [records.RECORDS.current("g", member)]),
    st.sampled_from(IDS).map(lambda name: list(records.RECORDS.without_member("g", name))),
    st.sampled_from(IDS).map(lambda name: [records.RECORDS.target("g", name, {TOPIC: {1}})]),
    st.integers(0, 3).map(lambda epoch: [records.epoch_record("g", epoch, 77)]),
    st.integers(0, 3).map(lambda epoch: [records.RECORDS.assignment_epoch("g", epoch, 88)]),
    st.tuples(st.sampled_from(REGEXES[1:]), st.none() | st.sets(st.sampled_from(NAMES))).map(
        lambda pattern_and_topics: [
            records.regex_record(
                "g",
                pattern_and_topics[0],
                None if pattern_and_topics[1] is None else resolved(pattern_and_topics[1]),
            )
        ]
    ),
)


def replayed(log):
    group = ConsumerGroup("g")
    for record in log:
        group.apply(record.key, record.value)
    return group


@given(st.lists(written, max_size=30).map(lambda runs: [record for run in runs for record in run]))
def test_group_counts_match_its_members(log):
    group = replayed(log)
    all_members = list(group.members.values())
    assert group.bytes == sum(member.bytes for member in all_members)
    assert group.classic_count == sum(member.uses_classic_protocol for member in all_members)
    named = {name for member in all_members for name in member.subscribed_names}
    matched = {member.regex for member in all_members} & set(group.regexes)
    topics = named.union(*(group.regexes[regex].topics for regex in matched))
    assert group.subscribed_topics() == topics
    assert [name for name in NAMES if group.is_subscribed_to(name)] == [
        name for name in NAMES if name in topics
    ]
    for number in (0, 1, 2, 9):
        owners = [
            member.id
            for member in all_members
            for owned in (member.assigned, member.revoking)
            if number in owned.get(TOPIC, ())
        ]
        assert owner(group, number) == (owners[0] if owners else None)
    for instance_id, member_id in group.instances.items():
        assert group.members[member_id].instance_id == instance_id


@given(st.lists(written, max_size=30).map(lambda runs: [record for run in runs for record in run]))
def test_tombstones_leave_nothing_of_group(log):
    group = replayed(log)
    before = copy.copy(group)
    for record in records.group_tombstones(before):
        group.apply(record.key, record.value)
    assert group.is_gone
    assert (group.bytes, group.classic_count) == (0, 0)
    for held in (group.members, group.target, group.regexes, group.instances, group.owners):
        assert not held
    assert not group.name_counts
    assert not group.regex_counts


def test_tombstones_are_of_members_and_targets():
    """A member may have no target yet, and a target may be of a member that has left."""
    group = ConsumerGroup("g")
    for record in (
        records.RECORDS.member("g", ConsumerMember("a")),
        records.RECORDS.target("g", "b", {TOPIC: frozenset([0])}),
    ):
        group.apply(record.key, record.value)
    of = [
        (
            type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key"),
            record.key.member_id,
        )
        for record in records.group_tombstones(group)
        if hasattr(record.key, "member_id")
    ]
    assert of == [
        ("CurrentMemberAssignment", "a"),
        ("TargetAssignmentMember", "b"),
        ("TargetAssignmentMember", "a"),
        ("MemberMetadata", "a"),
    ]


def test_group_without_records_is_gone_and_empty():
    group = ConsumerGroup("g")
    assert group.is_gone
    assert group.state is ConsumerGroupState.EMPTY
    assert (group.epoch, group.metadata_hash, group.bytes) == (0, 0, 0)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (NO_ASSIGNMENT_EPOCH, 0)


def test_group_with_any_record_is_not_gone():
    resolved_regex = ResolvedRegex(frozenset(["t"]), 1, 1)
    for record in (
        records.epoch_record("g", 1, 0),
        records.RECORDS.member("g", ConsumerMember("a")),
        records.RECORDS.target("g", "a", {TOPIC: frozenset([0])}),
        records.regex_record("g", "t.*", resolved_regex),
        records.RECORDS.assignment_epoch("g", 0, 1),
    ):
        group = replayed([record])
        assert not group.is_gone, record
        group.apply(record.key, None)
        assert group.is_gone, record


def test_withdrawn_target_loses_its_time():
    group = replayed([records.RECORDS.assignment_epoch("g", 4, 99)])
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (4, 99)
    group.apply(records.RECORDS.assignment_epoch("g", 4, 99).key, None)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (NO_ASSIGNMENT_EPOCH, 0)


def test_member_with_withdrawn_assignment_remains_member():
    member = ConsumerMember("a", epoch=2, assigned={TOPIC: {0: 1}}, revoking={TOPIC: {1: 1}})
    log = [records.RECORDS.member("g", member), records.RECORDS.current("g", member)]
    group = replayed(log)
    assert owner(group, 0) == owner(group, 1) == "a"
    group.apply(log[1].key, None)
    assert owner(group, 0) is owner(group, 1) is None
    assert group.members["a"].assigned == group.members["a"].revoking == {}


def test_next_incarnation_keeps_name_when_first_goes():
    log = [
        records.RECORDS.member("g", ConsumerMember("a", instance_id="i")),
        records.RECORDS.member("g", ConsumerMember("b", instance_id="i")),
        list(records.RECORDS.without_member("g", "a"))[-1],
    ]
    group = replayed(log)
    assert group.static_member("i").id == "b"
    assert group.static_member(None) is None
