"""The whole outcome of one input to a streams group: members, records, timers, and the topology in use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import FakeTopics
from tests.broker.groups.streams.driver import (
    StreamsDriver,
    request,
    statuses,
    subtopology,
    task_ids,
    topic,
    topology,
)
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.memory import GroupAccount
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.streams import groups, requests
from trimaran.broker.groups.streams.configuring import Status
from trimaran.broker.groups.streams.member import StreamsMember, StreamsMemberState
from trimaran.broker.groups.streams.operation import ReportedOffsets, StreamsTimer
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.broker.groups.streams.tasks import AssignedTasks
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from trimaran.wire.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskOffset
from trimaran.wire.records.streams_groups import StreamsGroupTopologyKey

E = ErrorCode
INITIAL = TimerKey(StreamsTimer.INITIAL, "g")


@pytest.fixture
def driver():
    return StreamsDriver()


def timers(driver):
    """Returns the deadlines of the group by kind and member."""
    found = driver.streams._timers._deadlines
    return {(key.kind, key.member_id): at for key, at in found.items() if key.group_id == "g"}


def written(driver, before):
    """Returns the records since `before`: type of the key, member, and whether it is a tombstone."""
    return [
        (
            type(record.key).__name__.removeprefix("StreamsGroup").removesuffix("Key"),
            getattr(record.key, "member_id", ""),
            record.value is None,
        )
        for record in driver.log[before:]
    ]


# -- members


def test_omitted_fields_of_a_member_stay(driver):
    driver.beat(
        "a", instance_id="i", rack_id="r", rebalance_timeout_ms=7_000, process_id="p",
        endpoint=("x", 80), tags={"k": "v"}, topology=topology(epoch=3),
    )  # fmt: skip
    expected = StreamsMember(
        "a",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=7_000,
        topology_epoch=3,
        process_id="p",
        endpoint=("x", 80),
        client_tags={"k": "v"},
        epoch=2,
        previous_epoch=0,
        assigned=AssignedTasks({"0": dict.fromkeys(range(4), 2)}, {}, {}),
    )
    assert driver.group.members["a"] == expected
    driver.beat("a", 2)
    assert driver.group.members["a"] == expected
    driver.beat(
        "a", 2, instance_id="i", rack_id="s", rebalance_timeout_ms=8_000, process_id="q",
        endpoint=("y", 81), tags={},
    )  # fmt: skip
    assert driver.group.members["a"] == replace(
        expected,
        rack_id="s",
        rebalance_timeout_ms=8_000,
        process_id="q",
        endpoint=("y", 81),
        client_tags={},
        epoch=3,
        previous_epoch=2,
    )


def test_growth_of_member_is_charged_to_principal(driver, monkeypatch):
    asked = []
    monkeypatch.setattr(
        GroupAccount, "member_fits", lambda _self, *given: asked.append(given) or True
    )
    driver.beat("a", principal="User:x")
    first = replace(driver.group.members["a"], assigned=AssignedTasks({}, {}, {})).held_bytes
    driver.beat("a", 2, rack_id="r" * 100, principal="User:y")
    driver.beat("a", 3, principal="User:y")
    before = replace(driver.group.members["a"], rack_id=None).held_bytes
    more = driver.group.members["a"].held_bytes - before
    assert asked == [("User:x", first), ("User:y", more)]


def test_waiting_member_writes_its_epoch_once(driver):
    driver.beat("a")
    driver.beat("b")
    driver.beat("b", 3)
    before = len(driver.log)
    driver.beat("b", 3)
    assert driver.group.members["b"].state is StreamsMemberState.UNRELEASED_TASKS
    assert len(driver.log) == before


def test_returning_static_member_writes_these_records(driver):
    driver.beat("a", instance_id="i")
    driver.advance(1)
    driver.beat("a", -2, instance_id="i")
    assert timers(driver) == {(Timer.SESSION, "a"): 45.0}
    driver.advance(1)
    target, before = driver.group.target["a"], len(driver.log)
    driver.beat("b", instance_id="i", process_id="process-a")
    assert written(driver, before) == [
        ("CurrentMemberAssignment", "a", True),
        ("TargetAssignmentMember", "a", True),
        ("MemberMetadata", "a", True),
        ("MemberMetadata", "b", False),
        ("TargetAssignmentMember", "b", False),
        ("CurrentMemberAssignment", "b", False),
        ("CurrentMemberAssignment", "b", False),
    ]
    assert dict(driver.group.target) == {"b": target}
    assert timers(driver) == {(Timer.SESSION, "b"): 47.0}


def test_absent_static_member_keeps_only_its_tasks(driver):
    driver.beat("a", instance_id="i", rebalance_timeout_ms=10_000)
    driver.beat("b")
    driver.beat("a", 2, instance_id="i")
    revoking = driver.group.members["a"]
    assert revoking.revoking.active == {"0": {2: 2, 3: 2}}
    before = len(driver.log)
    driver.beat("a", -2, instance_id="i")
    assert written(driver, before) == [("CurrentMemberAssignment", "a", False)]
    assert driver.group.members["a"] == replace(
        revoking,
        epoch=-2,
        assigned=AssignedTasks({"0": {0: 0, 1: 0}}, {}, {}),
        revoking=AssignedTasks({}, {}, {}),
    )


def test_leaving_member_writes_these_records(driver):
    driver.beat("a", rebalance_timeout_ms=10_000)
    driver.beat("b")
    driver.beat("a", 2)
    assert timers(driver) == {
        (Timer.SESSION, "a"): 45.0,
        (Timer.SESSION, "b"): 45.0,
        (HeartbeatTimer.REVOCATION, "a"): 10.0,
    }
    before = len(driver.log)
    driver.beat("a", -1)
    gone = [
        ("CurrentMemberAssignment", "a", True),
        ("TargetAssignmentMember", "a", True),
        ("MemberMetadata", "a", True),
        ("Metadata", "", False),
    ]
    assert written(driver, before) == gone
    assert timers(driver) == {(Timer.SESSION, "b"): 45.0}
    before = len(driver.log)
    driver.beat("b", -1)
    last = [(kind, "b" if member else "", is_gone) for kind, member, is_gone in gone]
    assert written(driver, before) == [*last, ("TargetAssignmentMetadata", "", False)]
    assert timers(driver) == {}


def test_first_shutdown_request_names_the_member(driver):
    for member_id in "abc":
        driver.beat(member_id)
    work = driver.streams._works["g"]
    driver.beat("b", driver.group.members["b"].epoch, shutdown_application=True)
    driver.beat("a", driver.group.members["a"].epoch, shutdown_application=True)
    assert work.shutdown_by == "b"
    driver.beat("c", -1, shutdown_application=True)
    assert work.shutdown_by == "b"


# -- topologies


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metadata_hash", 1),
        ("validated_topology_epoch", -1),
        ("assignment_configs", {"num.standby.replicas": "2"}),
    ],
)
def test_each_part_of_the_epoch_is_compared(driver, name, value):
    driver.beat("a")
    driver.topics.set("other", 1)
    right = getattr(driver.group, name)
    setattr(driver.group, name, value)
    assert driver.beat("a", 2).response.member_epoch == 3
    assert (driver.group.epoch, getattr(driver.group, name)) == (3, right)
    assert getattr(driver.reloaded().group, name) == right
    assert driver.beat("a", 3).response.member_epoch == 3


def test_topology_is_reconfigured_only_for_its_topics(driver):
    driver.beat("a")
    work = driver.streams._works["g"]
    first = work.configured
    assert work.checked_topics is driver.topics.version
    driver.beat("a", 2)
    assert work.configured is first
    driver.topics.set("other", 5)
    driver.beat("a", 2)
    assert (work.configured is first, work.checked_topics is driver.topics.version) == (True, True)
    driver.topics.set("t", 5)
    driver.beat("a", 2)
    assert work.configured.subtopologies["0"].task_count == 5
    assert work.metadata_hash == driver.group.metadata_hash


def test_topic_that_changes_back_restores_its_tasks(driver):
    driver.beat("a")
    driver.topics.set("t", 6)
    driver.failing = E.COORDINATOR_NOT_AVAILABLE
    driver.beat("a", 2)
    driver.failing = None
    driver.topics.set("t", 4)
    assert driver.beat("a", 2, owned=({"0": [4]}, {})) is E.INVALID_REQUEST
    driver.beat("a", 2)
    assert driver.streams._works["g"].configured.subtopologies["0"].task_count == 4
    assert driver.group.epoch == 2


def test_topology_that_cannot_run_is_not_validated(driver):
    driver.beat("a", topology=topology(subtopology("0", ["u"]), epoch=5))
    assert driver.group.validated_topology_epoch == -1
    # The tasks of the topology are unknown, so any reported task is accepted.
    assert driver.beat("a", 2, owned=({"9": [7]}, {})).response.error_code == 0
    driver.topics.set("u", 1)
    driver.beat("a", 2)
    assert driver.group.validated_topology_epoch == 5


def test_lost_topology_is_restored_by_rejoining_member(driver):
    driver.beat("a")
    driver.append([GroupRecord(StreamsGroupTopologyKey(group_id="g"), None)])
    assert driver.beat("a", 2) is E.FENCED_MEMBER_EPOCH
    driver.topics.set("u", 2)
    given = topology(subtopology("5", ["u"]), epoch=9)
    back = driver.beat("a", topology=given, owned=({}, {})).response
    assert back.active_tasks == task_ids({"5": [0, 1]})
    assert (driver.group.topology_epoch, driver.group.validated_topology_epoch) == (9, 9)


@pytest.mark.parametrize(
    ("tasks", "wrong"), [([0, 3], None), ([3, 4], 4), ([6, 5, 0], 5), ([0, -1], -1)]
)
@pytest.mark.parametrize("role", [0, 1])
def test_first_wrong_task_is_named(driver, role, tasks, wrong):
    driver.beat("a")
    owned = [{}, {}]
    owned[role] = {"0": tasks}
    answer = driver.beat("a", 2, owned=tuple(owned))
    if wrong is None:
        assert answer.response.error_code == 0
    else:
        assert (answer, driver.refusal.message.split()[1]) == (E.INVALID_REQUEST, str(wrong))


# -- delays


@pytest.mark.parametrize(("delay_ms", "is_delayed"), [(0, False), (1, True)])
def test_delay_of_one_millisecond_delays_the_target(delay_ms, is_delayed):
    driver = StreamsDriver(
        StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=delay_ms)
    )
    assert (statuses(driver.beat("a")) == [Status.ASSIGNMENT_DELAYED]) is is_delayed
    assert timers(driver).get((StreamsTimer.INITIAL, "")) == (0.001 if is_delayed else None)


def test_delay_of_the_first_target_is_not_prolonged():
    driver = StreamsDriver(
        StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=3_000)
    )
    driver.beat("a")
    driver.advance(1)
    driver.beat("a", -1)
    driver.beat("b")
    assert timers(driver) == {(StreamsTimer.INITIAL, ""): 3.0, (Timer.SESSION, "b"): 46.0}
    driver.advance(3)
    driver.beat("b", -1)
    driver.beat("c")  # the first member after the group was empty
    assert timers(driver) == {(StreamsTimer.INITIAL, ""): 7.0, (Timer.SESSION, "c"): 49.0}


# -- memory and failed writes


@pytest.mark.parametrize(("less", "kept"), [(0, True), (1, False)])
def test_offsets_without_room_are_forgotten(driver, monkeypatch, less, kept):
    driver.beat("a")
    driver.beat("a", 2, offsets={"0": {0: 1}})
    account, work = driver.shard.account, driver.streams._works["g"]
    held = account.bytes
    monkeypatch.setattr(groups, "GROUPS_BYTES_MAX", held + 2 * groups.PARTITION_BYTES - less)
    driver.beat("a", 2, offsets={"0": {0: 1, 1: 2, 2: 3}})
    assert set(work.offsets) == ({"a"} if kept else set())
    assert account.bytes == held + (2 if kept else -1) * groups.PARTITION_BYTES


def test_failed_heartbeat_keeps_offsets_of_members_only(driver):
    driver.beat("a", offsets={"0": {0: 1}})
    held, work = driver.shard.account.bytes, driver.streams._works["g"]
    driver.failing = E.COORDINATOR_NOT_AVAILABLE
    driver.beat("b", offsets={"0": {1: 1, 2: 2}})
    assert (set(work.offsets), driver.shard.account.bytes) == ({"a"}, held)
    assert timers(driver) == {(Timer.SESSION, "a"): 45.0, (Timer.SESSION, "b"): 45.0}
    driver.beat("a", 2, rack_id="r")
    assert (set(work.offsets), driver.shard.account.bytes) == ({"a"}, held)
    assert (work.target, work.checked_topics) == (None, None)


def test_failed_target_is_computed_again(monkeypatch):
    driver = StreamsDriver(topics=FakeTopics(t=2_000))
    driver.beat("a")
    assert timers(driver) == {(Timer.SESSION, "a"): 45.0, (HeartbeatTimer.TARGET, ""): 0.0}
    assert driver.streams._works["g"].target is not None
    driver.failing = E.COORDINATOR_NOT_AVAILABLE
    driver.beat("a", 1, rack_id="r")
    assert timers(driver) == {(Timer.SESSION, "a"): 45.0}
    assert driver.streams._works["g"].target is None
    driver.failing = None
    driver.beat("a", 1)
    driver.advance(0)
    assert len(driver.beat("a", 1).response.active_tasks[0].partitions) == 2_000


# -- kinds


def emptied_classic(driver):
    driver.join("t1", "")
    member_id = driver.answers.pop("t1").member_id
    driver.join("t2", member_id)
    driver.advance(3)
    leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    driver.shard.leave(leaving, 3, driver.at)
    driver.settle()


def test_replaced_classic_group_leaves_its_tombstones(driver):
    emptied_classic(driver)
    driver.join("t3", "")  # has only got an id, with a timer
    assert driver.answers.pop("t3").error_code == E.MEMBER_ID_REQUIRED
    before = len(driver.log)
    driver.beat("a")
    found = written(driver, before)
    assert found[0] == ("GroupMetadata", "", True)
    assert [kind for kind, _, _ in found[1:]] == [
        "MemberMetadata",
        "Topology",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    assert timers(driver) == {(Timer.SESSION, "a"): 48.0}
    assert not driver.groups


def test_empty_classic_group_stays_after_a_failed_write(driver):
    emptied_classic(driver)
    driver.join("t3", "")
    pending, before = timers(driver), len(driver.log)
    driver.answers.clear()
    driver.failing = E.COORDINATOR_NOT_AVAILABLE
    driver.beat("a", offsets={"0": {0: 1}})
    driver.failing = None
    assert (list(driver.groups), driver.streams._works, len(driver.log)) == (["g"], {}, before)
    assert driver.beat("a").response.member_epoch == 2
    assert len(pending) == 1
    assert timers(driver) == {(Timer.SESSION, "a"): 48.0}


# -- requests


@pytest.mark.parametrize("more", [0, 1])
def test_every_text_of_a_member_counts(monkeypatch, more):
    texts = ["ii", "rrr", "pppp", "kk", "v", "tag", "value", "host"]
    monkeypatch.setattr(requests, "MEMBER_TEXT_BYTES_MAX", sum(map(text_bytes, texts)) - more)
    given = request(
        instance_id="ii",
        rack_id="rrr",
        process_id="pppp",
        client_tags=[KeyValue(key="kk", value="v"), KeyValue(key="tag", value="value")],
        user_endpoint=Endpoint(host="host", port=1),
    )
    if more:
        with pytest.raises(KafkaError, match="too large"):
            requests.check_request(given)
    else:
        requests.check_request(given)


def test_changelogs_are_checked_before_the_topology():
    given = subtopology("0", [])
    given.state_changelog_topics.append(topic("c", 3))
    with pytest.raises(KafkaError, match="must have an undefined partition count"):
        requests.check_request(request(topology=topology(given)))


def test_offsets_of_both_kinds_are_kept_apart():
    def told(*tasks):
        return [
            TaskOffset(subtopology_id=one, partition=partition, offset=offset)
            for one, partition, offset in tasks
        ]

    reached = told(("0", 1, 10), ("0", 2, 20), ("1", 1, 30))
    first = requests.reported_offsets(
        request("a", 2, task_offsets=reached, task_end_offsets=told(("0", 1, 11))),
        ReportedOffsets({"9": {9: 9}}, {"8": {8: 8}}),
    )
    assert first == ReportedOffsets({"0": {1: 10, 2: 20}, "1": {1: 30}}, {"0": {1: 11}})
    assert first.count == 4
    ends = requests.reported_offsets(request("a", 2, task_end_offsets=told(("1", 0, 5))), first)
    assert ends == ReportedOffsets(first.reached, {"1": {0: 5}})
    none = requests.reported_offsets(request("a", 2, task_offsets=[]), first)
    assert none == ReportedOffsets({}, first.ends)


def test_absent_static_member_has_no_earlier_epoch(driver):
    driver.beat("a", instance_id="i")
    driver.beat("b")
    driver.settled_beats("a", "b")
    assert driver.group.members["a"].previous_epoch == 2
    nothing = ({}, {})
    assert driver.beat("a", 2, instance_id="i", owned=nothing).response.error_code == 0
    driver.beat("a", -2, instance_id="i")
    assert driver.beat("a", 2, instance_id="i", owned=nothing) is E.FENCED_MEMBER_EPOCH
