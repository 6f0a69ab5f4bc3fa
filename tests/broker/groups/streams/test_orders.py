"""Records and responses of streams groups have one order, whatever the order of sets and mappings."""

from __future__ import annotations

from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.groups.streams.assigning import compute_target
from trimaran.broker.groups.streams.configuring import ConfiguredTopology
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import StreamsMember, StreamsMemberState
from trimaran.broker.groups.streams.records import RECORDS, epoch_record
from trimaran.broker.groups.streams.tasks import AssignedTasks, MemberTasks

# The order of these in a set is not that of the numbers.
MIXED = frozenset({8, 1, 16})
BOTH = {"1": MIXED, "0": MIXED}
EPOCHS = {"1": {8: 80, 1: 10, 16: 160}, "0": {2: 20, 0: 5}}
ORDERED = [("0", [1, 8, 16]), ("1", [1, 8, 16])]


def listed(entries):
    return [(one.subtopology_id, one.partitions) for one in entries]


def with_epochs(entries):
    return [(one.subtopology_id, one.partitions, one.assignment_epochs) for one in entries]


def test_tags_are_written_in_order():
    member = StreamsMember("a", client_tags={"z": "1", "a": "2", "m": "3"})
    tags = [(tag.key, tag.value) for tag in member.metadata_value().client_tags]
    assert tags == [("a", "2"), ("m", "3"), ("z", "1")]


def test_tasks_of_a_member_are_written_in_order():
    tasks = AssignedTasks(EPOCHS, BOTH, BOTH)
    member = StreamsMember("a", epoch=9, assigned=tasks, revoking=tasks)
    value = member.current_value()
    active = [("0", [0, 2], [5, 20]), ("1", [1, 8, 16], [10, 80, 160])]
    assert with_epochs(value.active_tasks) == active
    assert with_epochs(value.active_tasks_pending_revocation) == active
    for entries in (
        value.standby_tasks, value.warmup_tasks,
        value.standby_tasks_pending_revocation, value.warmup_tasks_pending_revocation,
    ):  # fmt: skip
        assert listed(entries) == ORDERED
    again = StreamsMember("a").with_current(value)
    assert (again.assigned, again.revoking) == (tasks, tasks)
    assert again.state is StreamsMemberState.STABLE


def test_targets_are_written_in_order():
    value = RECORDS.target("g", "a", MemberTasks(BOTH, BOTH, BOTH)).value
    for entries in (value.active_tasks, value.standby_tasks, value.warmup_tasks):
        assert listed(entries) == ORDERED


def test_topology_without_subtopologies_has_no_tasks():
    group = StreamsGroup("g")
    group.members = group.members.set("a", StreamsMember("a"))
    for subtopologies in (None, {}):
        run = ConfiguredTopology(1, subtopologies)
        assert done(compute_target(group, run, 0, {})) == {"a": MemberTasks()}


def test_settings_are_written_in_order():
    group = StreamsGroup("g")
    group.assignment_configs = {"z": "1", "a": "2", "m": "3"}
    configs = [(one.key, one.value) for one in epoch_record(group).value.last_assignment_configs]
    assert configs == [("a", "2"), ("m", "3"), ("z", "1")]
