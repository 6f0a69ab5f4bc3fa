"""A streams group by its records: every order gives the same group, and its holders are those of its members."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.broker.groups.streams.driver import StreamsDriver, subtopology, topology
from trimaran.broker.groups.registry import serde_of
from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.group import StreamsGroup, StreamsGroupState
from trimaran.broker.groups.streams.member import StreamsMember, StreamsMemberState
from trimaran.broker.groups.streams.records import RECORDS, group_tombstones
from trimaran.broker.groups.streams.tasks import AssignedTasks, Task

MEMBER = StreamsMember(
    "a",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=7,
    topology_epoch=3,
    process_id="p",
    endpoint=("host", 80),
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
    assert group.active_process(Task("0", 1)) == ""  # its process is not known yet
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


def test_draft_changes_alone():
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
def test_compacted_records_give_the_group_in_any_order(records):
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
