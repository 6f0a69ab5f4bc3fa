"""StreamsGroupHeartbeat: the checks of its fields, the status of the group, and the tasks of members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.streams.driver import (
    StreamsDriver,
    request,
    subtopology,
    task_ids,
    topic,
    topology,
)
from trimaran.broker.groups.streams import groups
from trimaran.broker.groups.streams.configuring import InternalTopic, Status
from trimaran.broker.groups.streams.group import Described, StreamsGroupState
from trimaran.broker.groups.streams.operation import ReportedOffsets
from trimaran.broker.groups.streams.requests import check_request
from trimaran.broker.groups.streams.settings import (
    MEMBER_ID_CHARACTERS_MAX,
    MEMBER_TEXT_BYTES_MAX,
)
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    KeyValue,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
    TopicPartition,
)
from trimaran.wire.messages.streams_group_heartbeat import Status as ToldStatus


@pytest.fixture
def driver():
    return StreamsDriver()


def told(answer):
    return [(one.status_code, one.status_detail) for one in answer.response.status]


# -- fields


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": "\t"}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": task_ids({"0": [0]})}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": task_ids({"0": [0]})}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup_tasks": task_ids({"0": [0]})}, "WarmupTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"active_tasks": []}, "If one task-type is non-null, all must be non-null."),
        ({"epoch": 1, "topology": topology()}, "Topology can only be provided when (re-)joining."),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (
            {"topology": topology(subtopology(regex=["t.*"]))},
            "Regular expressions for source topics are not supported yet.",
        ),
        ({"member_id": "m" * (MEMBER_ID_CHARACTERS_MAX + 1)}, "MemberId is too long."),
    ],
)
def test_wrong_field_is_refused_as_by_kafka(fields, message):
    with pytest.raises(KafkaError) as raised:
        check_request(request(**fields))
    assert (raised.value.code, raised.value.message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []},
        {"epoch": 1},
        {"epoch": -1},
        {"epoch": -2, "instance_id": "i"},
        {"member_id": "m" * MEMBER_ID_CHARACTERS_MAX},
    ],
)
def test_valid_fields_are_accepted(fields):
    check_request(request(**fields))


@pytest.mark.parametrize("more", [0, 1])
def test_texts_of_a_member_have_a_bound(more):
    left = MEMBER_TEXT_BYTES_MAX - 3 * text_bytes("")
    tag = KeyValue(key="k", value="v" * (left - 1 + more))
    given = request(process_id="", client_tags=[tag])
    if more:
        with pytest.raises(KafkaError, match="too large"):
            check_request(given)
    else:
        check_request(given)


def test_changelog_with_a_partition_count_is_refused():
    given = subtopology()
    given.state_changelog_topics.append(topic("c", 3))
    with pytest.raises(KafkaError) as raised:
        check_request(request(topology=topology(given)))
    assert raised.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


# -- joining


def test_first_member_gets_all_tasks(driver):
    answer = driver.beat("a")
    assert answer.response == StreamsGroupHeartbeatResponse(
        member_id="a",
        member_epoch=2,
        heartbeat_interval_ms=5_000,
        task_offset_interval_ms=60_000,
        acceptable_recovery_lag=10_000,
        status=[],
        active_tasks=[TaskIds(subtopology_id="0", partitions=[0, 1, 2, 3])],
        standby_tasks=[],
        warmup_tasks=[],
        topology_description_required=True,
        endpoint_information_epoch=0,
    )
    assert [type(record.key).__name__ for record in driver.log] == [
        "StreamsGroupMemberMetadataKey",
        "StreamsGroupTopologyKey",
        "StreamsGroupMetadataKey",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupCurrentMemberAssignmentKey",
    ]


def test_idle_heartbeat_writes_and_repeats_nothing(driver):
    driver.beat("a")
    before = len(driver.log)
    answer = driver.beat("a", 2)
    assert len(driver.log) == before
    assert answer.response.active_tasks is None
    assert (answer.response.member_epoch, answer.response.status) == (2, [])


def test_second_member_waits_for_revoked_tasks(driver):
    driver.beat("a")
    joined = driver.beat("b").response
    assert (joined.member_epoch, joined.active_tasks) == (3, [])
    every = {"0": [0, 1, 2, 3]}
    asked = driver.beat("a", 2, owned=(every, {})).response
    assert (asked.member_epoch, asked.active_tasks) == (2, task_ids({"0": [0, 1]}))
    assert driver.beat("b", 3, owned=({}, {})).response.active_tasks is None
    given_up = driver.beat("a", 2, owned=({"0": [0, 1]}, {})).response
    assert (given_up.member_epoch, given_up.active_tasks) == (3, None)
    taken = driver.beat("b", 3, owned=({}, {})).response
    assert taken.active_tasks == task_ids({"0": [2, 3]})
    assert driver.group.state is StreamsGroupState.STABLE


def test_standbys_go_to_other_processes(driver):
    driver.streams_settings = replace(driver.streams_settings, standby_replicas=1)
    driver.topics.set("c", 4)
    stateful = topology(subtopology(changelogs=["c"]))
    for member_id, process in (("a", "p"), ("b", "p"), ("c", "q")):
        driver.beat(member_id, topology=stateful, process_id=process)
    driver.settled_beats("a", "b", "c")
    assert driver.group.state is StreamsGroupState.STABLE
    active, standby = driver.active(), driver.standby()
    there = {one for member_id in "ab" for one in active[member_id].get("0", [])}
    assert sorted(there | set(active["c"]["0"])) == [0, 1, 2, 3]
    assert set(standby["c"]["0"]) == there


@pytest.mark.parametrize(("members", "code"), [(1, None), (2, ErrorCode.GROUP_MAX_SIZE_REACHED)])
def test_group_has_a_maximum_size(driver, members, code):
    driver.streams_settings = replace(driver.streams_settings, members_max=2)
    for number in range(members):
        driver.beat(f"m{number}")
    answer = driver.beat("next")
    assert answer is code if code else len(driver.group.members) == 2
    assert driver.beat("m0", 0) is not ErrorCode.GROUP_MAX_SIZE_REACHED  # a known member


def test_unknown_group_and_member_are_refused(driver):
    assert driver.beat("a", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.beat("a", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    driver.beat("a")
    assert driver.beat("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("b", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_group_of_another_kind_is_refused(driver):
    driver.consumer_heartbeat("m")
    assert driver.beat("a") is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.refusal.message == "Group g is not a streams group."


def test_lost_tasks_are_sent_again(driver):
    driver.beat("a")
    driver.beat("b")
    every = ({"0": [0, 1, 2, 3]}, {})
    for _ in range(2):  # the first response is lost
        asked = driver.beat("a", 2, owned=every).response
        assert (asked.member_epoch, asked.active_tasks) == (2, task_ids({"0": [0, 1]}))
    assert driver.beat("a", 2, owned=({"0": [0, 1]}, {})).response.active_tasks is None
    for _ in range(2):
        taken = driver.beat("b", 3, owned=({}, {})).response
        assert (taken.member_epoch, taken.active_tasks) == (3, task_ids({"0": [2, 3]}))
    assert driver.beat("b", 3).response.active_tasks is None
    assert driver.beat("b", 3, owned=({"0": [2, 3]}, {})).response.active_tasks is None


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_freed_tasks_are_repeated_unless_confirmed(driver, is_confirmed):
    driver.beat("a")
    driver.beat("b")
    driver.beat("a", 2)
    driver.beat("a", 2, owned=({"0": [0, 1]}, {}))
    freed = task_ids({"0": [2, 3]})
    assert (
        driver.beat("b", 3).response.active_tasks == freed
    )  # late: nothing waits for this response
    owned = ({"0": [2, 3]}, {}) if is_confirmed else None
    again = driver.beat("b", 3, owned=owned).response.active_tasks
    assert again == (None if is_confirmed else freed)
    assert driver.beat("b", 3).response.active_tasks is None


# -- epochs


def test_epoch_must_be_current_or_the_previous_one(driver):
    driver.beat("a")
    driver.beat("b")
    driver.settled_beats("a", "b")
    assert driver.group.members["a"].epoch == 3
    assert driver.beat("a", 4) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 1, owned=({"0": [0]}, {})) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 2) is ErrorCode.FENCED_MEMBER_EPOCH  # without reported tasks
    assert driver.beat("a", 2, owned=({"0": [0, 2]}, {})) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 2, owned=({"0": [0]}, {})).response.member_epoch == 3


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"1": [0]}, "Subtopology 1 does not exist in the topology."),
        (
            {"0": [4]},
            "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
        ),
        (
            {"0": [-1]},
            "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
        ),
    ],
)
def test_reported_task_must_exist(driver, tasks, message):
    driver.beat("a")
    assert driver.beat("a", 2, owned=(tasks, {})) is ErrorCode.INVALID_REQUEST
    assert driver.refusal.message == message


# -- topologies


def test_topology_cannot_change(driver):
    driver.beat("a", topology=topology(epoch=2))
    assert driver.beat("b", topology=topology(epoch=3)) is ErrorCode.INVALID_REQUEST
    other = topology(subtopology("0", ["u"]), epoch=2)
    assert driver.beat("b", topology=other) is ErrorCode.INVALID_REQUEST
    assert driver.refusal.message == "Topology updates are not supported yet."


def test_older_topology_is_reported_as_stale(driver):
    driver.beat("a", topology=topology(epoch=2))
    answer = driver.beat("b", topology=topology(epoch=1))
    detail = "The member's topology epoch 1 is behind the group's topology epoch 2."
    assert told(answer) == [(Status.STALE_TOPOLOGY, detail)]
    assert driver.group.topology.epoch == 2


def test_missing_source_topics_delay_the_tasks(driver):
    answer = driver.beat("a", topology=topology(subtopology("0", ["u"])))
    detail = "Source topics u are missing."
    assert told(answer) == [(Status.MISSING_SOURCE_TOPICS, detail)]
    assert answer.response.active_tasks == []
    driver.topics.set("u", 1)
    later = driver.beat("a", answer.response.member_epoch)
    assert (told(later), later.response.active_tasks) == ([], task_ids({"0": [0]}))


def test_missing_internal_topics_are_returned_for_creation(driver):
    answer = driver.beat("a", topology=topology(subtopology(changelogs=["c"])))
    assert answer.missing == {"c": InternalTopic("c", 4)}
    assert told(answer) == [(Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c")]
    assert driver.beat("a", 2).missing == {"c": InternalTopic("c", 4)}
    driver.topics.set("c", 4)
    later = driver.beat("a", 2)
    assert (told(later), later.missing) == ([], {})
    assert later.response.active_tasks == task_ids({"0": [0, 1, 2, 3]})


def test_topology_with_a_loop_makes_no_group(driver):
    loop = topology(subtopology("0"), subtopology("1", [], repartition=[topic("r")], sinks=["r"]))
    assert driver.beat("a", topology=loop) is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert driver.log == []


def test_more_partitions_give_more_tasks(driver):
    driver.beat("a")
    driver.topics.set("t", 5)
    answer = driver.beat("a", 2)
    assert answer.response.active_tasks == task_ids({"0": [0, 1, 2, 3, 4]})


def test_changed_settings_give_another_assignment(driver):
    driver.beat("a")
    driver.streams_settings = replace(driver.streams_settings, standby_replicas=1)
    assert driver.beat("a", 2).response.member_epoch == 3
    assert driver.group.assignment_configs == {"num.standby.replicas": "1"}
    assert driver.beat("a", 3).response.member_epoch == 3


def test_record_of_the_epoch_keeps_the_described_epochs(driver):
    driver.beat("a")
    driver.group.described = Described(4, 5)
    driver.beat("b")
    assert driver.reloaded().group.described == Described(4, 5)


# -- status


def test_shutdown_is_reported_until_group_is_empty(driver):
    driver.beat("a")
    driver.beat("b")
    driver.beat("b", driver.group.members["b"].epoch, shutdown_application=True)
    detail = (
        "Streams group member b encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    assert told(driver.beat("a", 2)) == [(Status.SHUTDOWN_APPLICATION, detail)]
    driver.beat("b", -1)
    assert told(driver.beat("a", 2)) == [(Status.SHUTDOWN_APPLICATION, detail)]
    driver.beat("a", -1)
    assert told(driver.beat("a")) == []


def test_leaving_member_may_shut_the_application_down(driver):
    driver.beat("a")
    driver.beat("b")
    driver.beat("b", -1, shutdown_application=True)
    (status, _) = told(driver.beat("a", 2))[0]
    assert status == Status.SHUTDOWN_APPLICATION


@pytest.mark.parametrize(("version", "statuses"), [(0, []), (1, [Status.MISSING_CLIENT_TAGS])])
def test_missing_tags_are_reported_from_version_1(driver, version, statuses):
    driver.streams_settings = replace(driver.streams_settings, rack_aware_tags=("zone", "rack"))
    answer = driver.beat("a", tags={"zone": "z"}, version=version)
    assert [status for status, _ in told(answer)] == statuses
    if statuses:
        assert answer.response.status == [
            ToldStatus(
                status_code=6,
                status_detail="Missing required client tags for rack-aware standby assignment: [rack]. Configure them "
                "via 'client.tag.<tagKey>' in your Streams config.",
            )
        ]
    assert driver.group.assignment_configs["rack.aware.assignment.tags"] == "zone,rack"


# -- endpoints and offsets


def entry(host, active, standby=()):
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=host, port=80),
        active_partitions=[TopicPartition(topic="t", partitions=list(active))] if active else [],
        standby_partitions=[TopicPartition(topic="t", partitions=list(standby))] if standby else [],
    )


def test_endpoints_are_sent_when_they_change(driver):
    first = driver.beat("a", endpoint=("x", 80)).response
    assert first.endpoint_information_epoch == 1
    assert first.partitions_by_user_endpoint == [entry("x", range(4))]
    same = driver.beat("a", 2, endpoint_information_epoch=1).response
    assert same.partitions_by_user_endpoint is None
    driver.beat("b")  # without an endpoint
    driver.beat("c", endpoint=("y", 80))
    driver.settled_beats("a", "b", "c")
    late = driver.beat("b", driver.group.members["b"].epoch, endpoint_information_epoch=1).response
    active = driver.active()
    assert sorted(late.partitions_by_user_endpoint, key=lambda one: one.user_endpoint.host) == [
        entry("x", active["a"]["0"]),
        entry("y", active["c"]["0"]),
    ]


def test_endpoint_without_topics_has_no_partitions(driver):
    missing = topology(subtopology("0", ["u"]))
    answer = driver.beat("a", topology=missing, endpoint=("x", 80))
    assert answer.response.partitions_by_user_endpoint == [entry("x", ())]


def test_rejoining_member_without_endpoint_loses_it(driver):
    driver.beat("a", endpoint=("x", 80))
    driver.beat("a", 2)
    assert driver.group.members["a"].endpoint == ("x", 80)
    driver.beat("a")
    assert driver.group.members["a"].endpoint is None


def test_member_with_highest_offset_takes_over(driver):
    driver.topics.set("t", 1)
    driver.topics.set("c", 1)
    stateful = topology(subtopology(changelogs=["c"]))
    driver.beat("a", topology=stateful)
    driver.beat("b", topology=stateful)
    driver.beat("c", topology=stateful)
    driver.settled_beats("a", "b", "c")
    holder = next(name for name, tasks in driver.active().items() if tasks)
    others = sorted({"a", "b", "c"} - {holder})
    for number, member_id in enumerate(others):
        epoch = driver.group.members[member_id].epoch
        driver.beat(member_id, epoch, offsets={"0": {0: number}})
    driver.beat(holder, -1)
    driver.settled_beats(*others)
    assert driver.active() == {others[0]: {}, others[1]: {"0": [0]}}


def test_repeated_task_offset_is_refused(driver):
    driver.beat("a")
    answer = driver.beat("a", 2, offsets={"0": {0: 7}})
    assert answer.response.member_epoch == 2
    work = driver.streams._works["g"]
    assert work.offsets == {"a": ReportedOffsets({"0": {0: 7}}, {})}
    twice = [TaskOffset(subtopology_id="0", partition=0, offset=1)] * 2
    assert driver.beat("a", 2, task_offsets=twice) is ErrorCode.INVALID_REQUEST
    assert work.offsets == {"a": ReportedOffsets({"0": {0: 7}}, {})}


def test_memory_of_offsets_is_counted(driver):
    driver.beat("a")
    driver.beat("b")
    before = driver.shard.account.bytes
    driver.beat("a", 2, offsets={"0": {0: 7, 1: 8}})
    assert driver.shard.account.bytes > before
    driver.beat("a", 2, task_offsets=[])
    assert driver.shard.account.bytes == before
    driver.beat("a", 2, offsets={"0": {0: 7, 1: 8}})
    driver.beat("b", -1)
    driver.beat("a", -1)
    assert driver.shard.account.bytes == driver.group.held_bytes


def test_offsets_without_room_are_forgotten(driver, monkeypatch):
    driver.beat("a")
    before = driver.shard.account.bytes
    driver.beat("a", 2, offsets={"0": {0: 7}})
    monkeypatch.setattr(groups, "GROUPS_BYTES_MAX", driver.shard.account.bytes)
    driver.beat("a", 2, offsets={"0": {0: 7, 1: 8}})
    assert (driver.streams._works["g"].offsets, driver.shard.account.bytes) == ({}, before)


# -- static members


def test_static_member_comes_back_to_its_tasks(driver):
    driver.beat("a", instance_id="i")
    driver.beat("b")
    driver.settled_beats("a", "b")
    before = driver.active()["a"]
    epoch = driver.group.epoch
    left = driver.beat("a", -2, instance_id="i").response
    assert (left.member_epoch, left.status) == (-2, [])
    assert driver.group.members["a"].assigned.active == {"0": {0: 0, 1: 0}}
    back = driver.beat("a2", instance_id="i", process_id="process-a").response
    assert back.active_tasks == task_ids(before)
    assert (driver.group.epoch, back.member_epoch) == (epoch, epoch)
    assert sorted(driver.group.members) == ["a2", "b"]
    assert driver.group.target["a2"].active == {"0": frozenset({0, 1})}


def test_static_member_in_new_process_is_reassigned(driver):
    driver.beat("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    driver.beat("a2", instance_id="i", process_id="other")
    assert driver.group.epoch == 3


def test_instance_id_belongs_to_one_member(driver):
    driver.beat("a", instance_id="i")
    assert driver.beat("b", instance_id="i") is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.beat("b", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat("b", -2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat("a", 2, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("a", -1, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_may_leave_for_good(driver):
    driver.beat("a", instance_id="i")
    driver.beat("a", -1, instance_id="i")
    assert driver.group.is_empty
    assert not driver.group.instances
