"""A streams group by its records: every order gives the same group, and its holders are those of its members."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.broker.groups.streams.driver import StreamsDriver, subtopology, topology
from trimaran.broker.groups.memory import MEMBER_BYTES, PARTITION_BYTES
from trimaran.broker.groups.registry import serde_of
from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.describe import described
from trimaran.broker.groups.streams.group import StreamsGroup, StreamsGroupState
from trimaran.broker.groups.streams.member import StreamsMember, StreamsMemberState
from trimaran.broker.groups.streams.operation import StreamsGroupWork
from trimaran.broker.groups.streams.records import (
    RECORDS,
    epoch_record,
    group_tombstones,
    topology_record,
)
from trimaran.broker.groups.streams.tasks import AssignedTasks, Task
from trimaran.broker.groups.streams.topology import Topology, topology_value
from trimaran.node.text.memory import text_bytes
from trimaran.wire.identity import Address
from trimaran.wire.messages.streams_group_describe import (
    Assignment,
    Endpoint,
    KeyValue,
    Member,
    TaskIds,
)

MEMBER = StreamsMember(
    "a",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=7,
    topology_epoch=3,
    process_id="p",
    endpoint=Address("host", 80),
    client_tags={"k": "v", "b": "w"},
    epoch=5,
    previous_epoch=4,
    state=StreamsMemberState.UNREVOKED_TASKS,
    assigned=AssignedTasks({"0": {1: 2, 0: 3}}, {"1": frozenset({0})}, {"2": frozenset({4})}),
    revoking=AssignedTasks({"3": {1: 2}}, {"4": frozenset({0})}, {"5": frozenset({4})}),
)


def state_of(group):
    return {key: value for key, value in group.__dict__.items() if key != "id"}


def test_member_is_read_as_written():
    serde = serde_of((streams.KIND,))
    group = StreamsGroup("g")
    for record in (RECORDS.member("g", MEMBER), RECORDS.current("g", MEMBER)):
        written = serde.encode(record, 0)
        group.apply(*serde.decode(written.key, written.value))
    assert group.members["a"] == MEMBER


def test_state_of_a_younger_release_is_unknown():
    group = StreamsGroup("g")
    key, value = RECORDS.current("g", replace(MEMBER, state=StreamsMemberState.UNKNOWN))
    group.apply(key, replace_state(value, 9))
    assert group.members["a"].state is StreamsMemberState.UNKNOWN


def replace_state(value, state):
    value.state = state
    return value


def test_tasks_without_epochs_get_that_of_the_member():
    group = StreamsGroup("g")
    key, value = RECORDS.current("g", MEMBER)
    value.active_tasks[0].assignment_epochs = None
    group.apply(key, value)
    assert group.members["a"].assigned.active == {"0": {0: 5, 1: 5}}


def test_holders_are_processes_of_members():
    group = StreamsGroup("g")
    group.apply(*RECORDS.current("g", MEMBER))
    assert group.active_process(Task("0", 1)) == ""  # no process reported yet
    group.apply(*RECORDS.member("g", MEMBER))
    assert group.active_process(Task("0", 1)) == "p"
    assert group.active_process(Task("3", 1)) == "p"
    assert group.active_process(Task("0", 2)) is None
    assert group.standby_processes(Task("1", 0)) == {"p"}
    assert group.standby_processes(Task("4", 0)) == {"p"}
    assert group.warmup_processes(Task("2", 4)) == {"p"}
    other = replace(MEMBER, id="b", process_id="q", instance_id=None)
    for record in (RECORDS.member("g", other), RECORDS.current("g", other)):
        group.apply(*record)
    assert group.standby_processes(Task("1", 0)) == {"p", "q"}
    assert group.active_process(Task("0", 1)) == "q"
    for record in RECORDS.without_member("g", "a"):
        group.apply(*record)
    assert group.active_process(Task("0", 1)) == "q"
    assert group.standby_processes(Task("1", 0)) == {"q"}
    for record in RECORDS.without_member("g", "b"):
        group.apply(*record)
    assert state_of(group) == state_of(StreamsGroup("g"))


def test_changed_draft_leaves_the_group_unchanged():
    group = StreamsGroup("g")
    draft = group.draft()
    draft.apply(*RECORDS.member("g", MEMBER))
    assert (len(group.members), len(draft.members)) == (0, 1)


def full():
    """Returns a driver whose group has members with standbys, and has had a member that left."""
    driver = StreamsDriver()
    stateful = topology(subtopology("0", changelogs=["c"]), subtopology("1"))
    driver.topics.set("c", 4)
    driver.streams_settings = replace(driver.streams_settings, standby_replicas=1)
    for member_id in ("a", "b", "c"):
        driver.beat(member_id, topology=stateful)
    driver.settled_beats("a", "b", "c")
    driver.beat("b", driver.group.members["b"].epoch, shutdown_application=True)
    driver.beat("c", -1)
    driver.settled_beats("a", "b")
    return driver


FULL = full()
# The last record of each key, as a compacted log has them.
COMPACTED = list({serde_of((streams.KIND,)).encode(r, 0).key: r for r in FULL.log}.values())


@given(st.permutations(COMPACTED))
def test_compacted_records_restore_group_in_any_order(records):
    group = StreamsGroup("g")
    for record in records:
        group.apply(*record)
    assert state_of(group) == state_of(FULL.group)


def test_states_follow_the_records():
    driver = StreamsDriver()
    driver.beat("a", topology=topology(subtopology("0", ["missing"])))
    assert driver.group.state is StreamsGroupState.NOT_READY
    driver.topics.set("missing", 2)
    driver.beat("a", 2)
    assert driver.group.state is StreamsGroupState.STABLE
    driver.beat("b", topology=topology(subtopology("0", ["missing"])))
    assert driver.group.state is StreamsGroupState.RECONCILING
    driver.beat("b", -1)
    assert driver.group.state is StreamsGroupState.ASSIGNING
    driver.beat("a", -1)
    assert driver.group.state is StreamsGroupState.EMPTY


def test_tombstones_remove_every_record():
    driver = full()
    records = list(group_tombstones(driver.group))
    group = driver.group
    for record in records[:-1]:
        group.apply(*record)
        assert not group.is_gone
    group.apply(*records[-1])
    assert group.is_gone
    assert group.held_bytes == 0


def test_member_takes_its_texts_and_tasks():
    texts = ["a", "c", "/h", "i", "r", "p", "k", "v", "b", "w", "host"]
    expected = MEMBER_BYTES + sum(map(text_bytes, texts)) + PARTITION_BYTES * (4 + 3)
    assert MEMBER.held_bytes == expected
    plain = MEMBER_BYTES + sum(map(text_bytes, ["a", "", "", ""]))
    assert StreamsMember("a").held_bytes == plain


def test_same_tasks_are_the_same_objects():
    both = AssignedTasks({}, {}, {}), AssignedTasks({"0": {0: 1}}, {}, {})
    one = StreamsMember("a", assigned=both[0], revoking=both[1])
    assert one.has_tasks_of(replace(one, epoch=3))
    assert not one.has_tasks_of(replace(one, assigned=both[1]))
    assert not one.has_tasks_of(replace(one, revoking=both[0]))


def test_forgotten_assignment_leaves_the_member():
    group = StreamsGroup("g")
    key, _ = RECORDS.current("g", MEMBER)
    group.apply(key, None)
    assert not group.members
    for record in (RECORDS.member("g", MEMBER), RECORDS.current("g", MEMBER)):
        group.apply(*record)
    group.apply(key, None)
    nothing = AssignedTasks({}, {}, {})
    assert group.members["a"] == replace(MEMBER, assigned=nothing, revoking=nothing)
    assert (dict(group.active), dict(group.standby), dict(group.warmup)) == ({}, {}, {})
    assert group.held_bytes == group.members["a"].held_bytes


def test_instance_follows_its_last_member():
    group = StreamsGroup("g")
    other = replace(MEMBER, id="b")
    for one in (MEMBER, other):
        group.apply(*RECORDS.member("g", one))
    assert group.static_member("i").id == "b"
    group.apply(RECORDS.member("g", MEMBER).key, None)
    assert dict(group.instances) == {"i": "b"}
    group.apply(*RECORDS.member("g", replace(other, instance_id="j")))
    assert dict(group.instances) == {"j": "b"}
    group.apply(RECORDS.member("g", other).key, None)
    assert (dict(group.instances), group.static_member(None)) == ({}, None)


def test_replaced_topology_changes_the_held_bytes():
    group = StreamsGroup("g")
    for names in (["t"], ["t", "long" * 9]):
        given = topology_value(topology(subtopology("0", names)))
        group.apply(*topology_record("g", given))
        assert group.held_bytes == group.topology.bytes == Topology(given).bytes
    group.apply(topology_record("g", given).key, None)
    assert (group.topology, group.held_bytes) == (None, 0)


def test_only_members_subscribe_to_sources():
    group = StreamsGroup("g")
    group.apply(*topology_record("g", topology_value(topology())))
    assert not group.is_subscribed_to("t")
    group.apply(*RECORDS.member("g", MEMBER))
    assert (group.is_subscribed_to("t"), group.is_subscribed_to("u")) == (True, False)
    group.apply(topology_record("g", None).key, None)
    assert not group.is_subscribed_to("t")


def test_each_task_has_its_own_holders():
    group = StreamsGroup("g")
    tasks = AssignedTasks({"0": {0: 1}}, {"1": frozenset({0, 1})}, {"2": frozenset({5})})
    first = StreamsMember("a", process_id="p", assigned=tasks)
    second = StreamsMember(
        "b",
        process_id="q",
        assigned=AssignedTasks({"0": {1: 1}}, {"1": frozenset({1, 2})}, {"2": frozenset({6})}),
    )
    for one in (first, second):
        group.apply(*RECORDS.member("g", one))
        group.apply(*RECORDS.current("g", one))
    assert dict(group.active) == {"0": {0: "a", 1: "b"}}
    assert dict(group.standby) == {"1": {0: {"a"}, 1: {"a", "b"}, 2: {"b"}}}
    assert dict(group.warmup) == {"2": {5: {"a"}, 6: {"b"}}}
    assert group.active_partitions("0") == {0, 1}
    assert [group.held_partitions(one) for one in "0123"] == [{0, 1}, {0, 1, 2}, {5, 6}, set()]
    group.apply(*RECORDS.current("g", replace(first, assigned=AssignedTasks({}, {}, {}))))
    assert dict(group.active) == {"0": {1: "b"}}
    assert dict(group.standby) == {"1": {1: {"b"}, 2: {"b"}}}
    assert dict(group.warmup) == {"2": {6: {"b"}}}


def test_tombstones_are_in_order():
    driver = StreamsDriver()
    driver.beat("a")
    driver.beat("b")

    def kinds(group):
        return [
            (
                type(record.key).__name__.removeprefix("StreamsGroup").removesuffix("Key"),
                getattr(record.key, "member_id", ""),
                record.value,
            )
            for record in group_tombstones(group)
        ]

    found = kinds(driver.group)
    assert sorted(found[:4]) == [
        (kind, member_id, None)
        for kind in ("CurrentMemberAssignment", "TargetAssignmentMember")
        for member_id in "ab"
    ]
    assert found[4] == ("TargetAssignmentMetadata", "", None)
    assert sorted(found[5:7]) == [("MemberMetadata", one, None) for one in "ab"]
    assert found[7:] == [("Metadata", "", None), ("Topology", "", None)]
    assert kinds(StreamsGroup("g")) == [("Metadata", "", None)]


def test_member_is_described_with_every_field():
    group = StreamsGroup("g")
    for record in (RECORDS.member("g", MEMBER), RECORDS.current("g", MEMBER)):
        group.apply(*record)
    _, members = described(group, StreamsGroupWork(), "sticky")

    def tasks(subtopology_id, *partitions):
        return [TaskIds(subtopology_id=subtopology_id, partitions=list(partitions))]

    nothing = Assignment(active_tasks=[], standby_tasks=[], warmup_tasks=[])
    assert list(members) == [
        Member(
            member_id="a",
            member_epoch=5,
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            topology_epoch=3,
            process_id="p",
            user_endpoint=Endpoint(host="host", port=80),
            client_tags=[KeyValue(key="b", value="w"), KeyValue(key="k", value="v")],
            task_offsets=[],
            task_end_offsets=[],
            assignment=Assignment(
                active_tasks=tasks("0", 0, 1),
                standby_tasks=tasks("1", 0),
                warmup_tasks=tasks("2", 4),
            ),
            target_assignment=nothing,
            is_classic=False,
        )
    ]


def test_epoch_without_settings_has_none():
    group = StreamsGroup("g")
    group.assignment_configs = {"k": "v"}
    key, value = epoch_record(group)
    value.last_assignment_configs = None
    group.apply(key, value)
    assert group.assignment_configs == {}
