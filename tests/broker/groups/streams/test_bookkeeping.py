"""The sizes, orders, times and memory of streams groups, with bounds and two items of each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import FakeTopics
from tests.broker.groups.streams.driver import StreamsDriver, request, subtopology, topic, topology
from trimaran.broker.groups import memory
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.kinds import Due
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.streams import assigning
from trimaran.broker.groups.streams.configuring import (
    TASKS_MAX,
    ConfiguredSubtopology,
    ConfiguredTopology,
    GroupProblem,
    InternalTopic,
    Status,
    configured,
)
from trimaran.broker.groups.streams.describe import described, refused
from trimaran.broker.groups.streams.descriptions import NODE_BYTES, description_bytes
from trimaran.broker.groups.streams.endpoints import Endpoints, entry_of
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import StreamsMember, StreamsMemberState
from trimaran.broker.groups.streams.offsets import check_commit
from trimaran.broker.groups.streams.operation import ReportedOffsets, StreamsGroupWork
from trimaran.broker.groups.streams.records import RECORDS
from trimaran.broker.groups.streams.requests import reported_offsets, reported_tasks
from trimaran.broker.groups.streams.tasks import AssignedTasks, MemberTasks, united
from trimaran.broker.groups.streams.topology import Topology, check_topology, topology_value
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Address
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
)
from trimaran.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    StreamsGroupHeartbeatResponse,
    TopicPartition,
)
from trimaran.wire.messages.streams_group_heartbeat import TaskOffset as ReportedOffset
from trimaran.wire.messages.streams_group_topology_description_update import (
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

E = ErrorCode
# The order of these in a set is not that of the numbers.
MIXED = frozenset({8, 1, 16})


@pytest.fixture
def driver():
    return StreamsDriver()


# -- descriptions


def info(name, partitions=0, replicas=0, configs=()):
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[KeyValue(key=key, value=value) for key, value in configs],
    )


def test_given_topology_is_described_in_order():
    group = StreamsGroup("g")
    group.topology = Topology(
        topology_value(
            topology(
                subtopology(
                    "1", ["u", "t"], sinks=["s", "r"], changelogs=["d", "c"],
                    repartition=[topic("q", 3, 2, k="v"), topic("p")],
                ),
                subtopology("0", ["z", "y"]),
                epoch=7,
            )
        )
    )  # fmt: skip
    head, members = described(group, StreamsGroupWork(), "sticky")
    plain = {"state_changelog_topics": [], "repartition_source_topics": []}
    assert list(members) == []
    assert head.topology.epoch == 7
    assert head.topology.subtopologies == [
        Subtopology(
            subtopology_id="0", source_topics=["y", "z"], repartition_sink_topics=[], **plain
        ),
        Subtopology(
            subtopology_id="1",
            source_topics=["t", "u"],
            repartition_sink_topics=["r", "s"],
            state_changelog_topics=[info("c"), info("d")],
            repartition_source_topics=[info("p"), info("q", 3, 2, [("k", "v")])],
        ),
    ]


def test_configured_topology_is_described_in_order():
    def internal(*names):
        return {name: InternalTopic(name, 4, 2, {"k": "v"}) for name in names}

    given = ConfiguredSubtopology(
        4, frozenset("tu"), internal("q", "p"), frozenset("rs"), internal("d", "c")
    )
    work = StreamsGroupWork()
    work.configured = ConfiguredTopology(3, {"0": given})
    head, _ = described(StreamsGroup("g"), work, "sticky")
    assert (head.topology.epoch, head.topology.subtopologies) == (
        3,
        [
            Subtopology(
                subtopology_id="0",
                source_topics=["t", "u"],
                repartition_sink_topics=["r", "s"],
                state_changelog_topics=[info(name, 4, 2, [("k", "v")]) for name in "cd"],
                repartition_source_topics=[info(name, 4, 2, [("k", "v")]) for name in "pq"],
            )
        ],
    )
    work.configured = ConfiguredTopology(3, None, problem=GroupProblem(Status.STALE_TOPOLOGY, ""))
    assert described(StreamsGroup("g"), work, "sticky")[0].topology is None


def test_members_are_described_in_order():
    group, work = StreamsGroup("g"), StreamsGroupWork()
    member = StreamsMember(
        "a",
        client_tags={"z": "1", "a": "2"},
        assigned=AssignedTasks(
            {"1": dict.fromkeys(MIXED, 5), "0": {0: 5}}, {"0": MIXED}, {"0": frozenset({2})}
        ),
    )
    group.members = group.members.set("a", member)
    target = MemberTasks({"0": MIXED}, {"1": frozenset({3})}, {"1": frozenset({4})})
    group.target = group.target.set("a", target)
    work.offsets["a"] = ReportedOffsets({"1": {8: 80, 1: 10}, "0": {3: 30}}, {"0": {2: 20}})
    _, members = described(group, work, "sticky")
    found = next(members)
    ordered = [1, 8, 16]

    def ids(**tasks):
        return [TaskIds(subtopology_id=one[1:], partitions=mine) for one, mine in tasks.items()]

    assert found.client_tags == [KeyValue(key="a", value="2"), KeyValue(key="z", value="1")]
    assert found.user_endpoint is None
    assert found.assignment == Assignment(
        active_tasks=ids(_0=[0], _1=ordered),
        standby_tasks=ids(_0=ordered),
        warmup_tasks=ids(_0=[2]),
    )
    assert found.target_assignment == Assignment(
        active_tasks=ids(_0=ordered), standby_tasks=ids(_1=[3]), warmup_tasks=ids(_1=[4])
    )
    assert [(one.subtopology_id, one.partition, one.offset) for one in found.task_offsets] == [
        ("0", 3, 30), ("1", 1, 10), ("1", 8, 80)
    ]  # fmt: skip
    assert found.task_end_offsets == [TaskOffset(subtopology_id="0", partition=2, offset=20)]


def test_refused_group_has_only_its_error():
    assert refused("g", E.NOT_COORDINATOR, "why") == DescribedGroup(
        error_code=E.NOT_COORDINATOR,
        error_message="why",
        group_id="g",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
    )


def test_description_takes_its_texts_and_nodes():
    def node(name, **texts):
        fields = {"source_topics": [], "stores": [], "successors": [], **texts}
        return TopologyDescriptionNode(name=name, node_type=1, **fields)

    given = TopologyDescription(
        subtopologies=[
            TopologyDescriptionSubtopology(
                subtopology_id="00",
                nodes=[
                    node("first", source_topics=["aa", "bbb"], stores=["cccc"], successors=["d"])
                ],
            ),
            TopologyDescriptionSubtopology(subtopology_id="111", nodes=[]),
        ],
        global_stores=[
            TopologyDescriptionGlobalStore(source=node("gs", sink_topic="ee"), processor=node("gp"))
        ],
    )
    texts = ["first", "aa", "bbb", "cccc", "d", "", "gs", "ee", "gp", "", "00", "111"]
    assert description_bytes(given) == 5 * NODE_BYTES + sum(map(text_bytes, texts))


def test_description_of_older_topology_is_omitted(driver):
    driver.beat("a")
    work = driver.streams._works["g"]
    work.description = TopologyDescription(subtopologies=[], global_stores=[])
    for epoch, status in ((1, 3), (2, 1), (0, 1)):
        work.described_epoch = epoch
        head, _ = driver.streams.described_with_members("g", with_description=True)
        assert (head.topology_description_status, head.topology_description is None) == (
            status, status == 1
        )  # fmt: skip
    work.description, work.described_epoch = None, 1
    head, _ = driver.streams.described_with_members("g", with_description=True)
    assert head.topology_description_status == 1


# -- endpoints


def test_roles_of_an_endpoint_are_in_order():
    found = ConfiguredSubtopology(17, frozenset("ut"), {}, frozenset(), {})
    run = ConfiguredTopology(1, {"1": found, "0": found})
    assigned = AssignedTasks(
        {"1": dict.fromkeys(MIXED, 1), "0": {0: 1}, "9": {0: 1}},
        {"0": frozenset({16, 0})},
        {"0": frozenset({8}), "1": frozenset({3})},
    )
    member = StreamsMember("a", endpoint=Address("x", 80), assigned=assigned)
    topics = FakeTopics(t=17, u=9)

    def told(*given):
        return [TopicPartition(topic=name, partitions=list(mine)) for name, *mine in given]

    assert entry_of(member, Address("y", 81), run, topics) == EndpointToPartitions(
        user_endpoint=Endpoint(host="y", port=81),
        active_partitions=told(("t", 0), ("u", 0), ("t", 1, 8, 16), ("u", 1, 8)),
        standby_partitions=told(("t", 0, 8, 16), ("u", 0, 8), ("t", 3), ("u", 3)),
    )
    topics.set("t", 0)
    gone = entry_of(member, Address("y", 81), run, topics)
    assert gone.active_partitions == told(("u", 0), ("u", 1, 8))


@pytest.mark.parametrize(("more", "count"), [(0, 1), (1, 0)])
def test_endpoints_take_a_megabyte(more, count):
    run = ConfiguredTopology(
        1, {"0": ConfiguredSubtopology(4, frozenset("t"), {}, frozenset(), {})}
    )
    host = "x" * ((1 << 20) - 16 - (1 + 16 + 4) + more)
    assigned = AssignedTasks({"0": {0: 1}}, {}, {})
    member = StreamsMember("a", endpoint=Address(host, 80), assigned=assigned)
    assert len(Endpoints().of([member], run, FakeTopics(t=4))) == count


# -- the topology


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("ab", "Source topics a, b are missing."),
        ("abc", "Source topics a, b, c are missing."),
        ("abcd", "Source topics a, b, c and 1 additional topics are missing."),
    ],
)
def test_message_names_first_three_missing_topics(names, told):
    given = Topology(topology_value(topology(subtopology("0", list(names)))))
    assert configured(given, FakeTopics(z=1)).problem.detail == told


# -- targets


@pytest.mark.parametrize(("limit", "inline"), [(6, True), (5, False)])
def test_large_streams_group_is_assigned_in_pieces(monkeypatch, limit, inline):
    monkeypatch.setattr(assigning, "INLINE_SIZE_MAX", limit)
    driver = StreamsDriver()
    driver.beat("a")
    driver.beat("b")
    work = driver.streams._works["g"]
    assert assigning.size_of(driver.group, work.configured) == 2 + 4
    assert (work.target is None) is inline


def test_standbys_add_to_the_size(driver):
    driver.beat("a")
    group, run = driver.group.draft(), driver.streams._works["g"].configured
    group.assignment_configs = {"num.standby.replicas": "2"}
    assert assigning.size_of(group, run) == 1 + 4 * 3
    assert assigning.size_of(group, ConfiguredTopology(1, None)) == 1


def test_emptied_group_has_a_target_without_time(driver):
    driver.now = 5.0
    driver.beat("a")
    assert driver.group.assignment_timestamp_ms == driver.at.now_ms
    driver.beat("a", -1)
    group = driver.group
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (group.epoch, 0)


def test_due_streams_timer_lets_other_groups_continue(driver):
    driver.beat("a")
    due = driver.streams.timer_due
    assert due(TimerKey(HeartbeatTimer.TARGET, "g"), driver.at) is Due.NONE
    assert due(TimerKey(Timer.SESSION, "h", "a"), driver.at) is Due.ALL
    assert due(TimerKey(Timer.SESSION, "g", "a"), driver.at) is Due.OTHER_GROUPS
    driver.settle()
    assert driver.group.is_empty


# -- members


def test_member_of_streams_without_room_is_refused(driver, monkeypatch):
    monkeypatch.setattr(memory, "PRINCIPAL_BYTES_MAX", 5_000)
    assert driver.beat("a").response.error_code == 0
    assert driver.beat("b", rack_id="r" * 2_000) is E.GROUP_MAX_SIZE_REACHED
    assert driver.beat("b", rack_id="r", principal="User:b").response.error_code == 0


def test_dynamic_member_becomes_static_with_its_tasks(driver):
    driver.beat("a", rack_id="r", tags={"k": "v"})
    before = driver.group.members["a"]
    answer = driver.beat("a", instance_id="i")
    member = driver.group.members["a"]
    assert driver.group.static_member("i") == member
    assert member == replace(
        before, instance_id="i", epoch=member.epoch, previous_epoch=member.previous_epoch
    )
    assert answer.response.member_epoch == member.epoch


# -- heartbeats


def names(tasks):
    return [(one.subtopology_id, one.partitions) for one in tasks]


def test_tasks_are_reported_in_order():
    driver = StreamsDriver(topics=FakeTopics(t=17, u=2))
    given = topology(subtopology("1", ["t"]), subtopology("0", ["u"]))
    joined = driver.beat("a", topology=given).response
    assert names(joined.active_tasks) == [("0", [0, 1]), ("1", list(range(17)))]
    driver.beat("b", topology=given)
    driver.settled_beats("a", "b")
    rejoined = driver.beat("a", topology=given).response
    assert names(rejoined.active_tasks) == [
        (one, sorted(mine)) for one, mine in driver.active()["a"].items()
    ]
    written = driver.group.members["a"].current_value()
    assert [one.subtopology_id for one in written.active_tasks] == ["0", "1"]
    assert all(one.partitions == sorted(one.partitions) for one in written.active_tasks)


def test_leaving_member_gets_only_its_epoch(driver):
    driver.beat("a", instance_id="i")
    for epoch in (-2, -1):
        assert driver.beat("a", epoch, instance_id="i").response == StreamsGroupHeartbeatResponse(
            member_id="a",
            member_epoch=epoch,
            heartbeat_interval_ms=0,
            task_offset_interval_ms=0,
            status=[],
            endpoint_information_epoch=0,
        )


@pytest.mark.parametrize("instance", [None, "i"])
@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({"endpoint": ("x", 80)}, False),
        ({"rebalance_timeout_ms": 7_000}, False),
        ({"rack_id": "r"}, True),
        ({"tags": {"zone": "z"}}, True),
        ({"process_id": "p"}, True),
    ],
)
def test_changed_details_of_static_member_move_nothing(driver, instance, fields, is_told):
    driver.beat("a", instance_id=instance)
    driver.beat("a", 2, instance_id=instance, **fields)
    assert driver.group.epoch == (3 if is_told or instance is None else 2)


def test_endpoint_epoch_follows_endpoints_and_their_tasks(driver):
    def epoch():
        return driver.streams._works["g"].endpoint_information_epoch

    driver.beat("a", endpoint=("x", 80))
    assert epoch() == 1
    driver.beat("a", 2, endpoint=("x", 80))
    assert epoch() == 1
    driver.beat("b")
    driver.settled_beats("a", "b", rounds=1)
    assert epoch() == 2  # the tasks of `a`
    before = epoch()
    driver.settled_beats("a", "b")
    assert epoch() == before
    driver.beat("a", driver.group.members["a"].epoch, endpoint=("y", 80))
    assert epoch() == before + 1


def test_changed_topics_change_the_epoch_once(driver):
    driver.beat("a")
    driver.topics.set("t", 5)
    driver.beat("a", 2)
    hash_ = driver.group.metadata_hash
    epoch = driver.group.epoch
    driver.settled_beats("a")
    driver.topics.set("other", 5)
    driver.settled_beats("a")
    assert (driver.group.epoch, driver.group.metadata_hash) == (epoch, hash_)
    assert epoch == 3
    later = driver.reloaded()
    later.settled_beats("a")
    assert (later.group.epoch, later.group.metadata_hash) == (epoch, hash_)


def test_member_in_an_unknown_state_must_rejoin(driver):
    driver.beat("a")
    unknown = replace(driver.group.members["a"], state=StreamsMemberState.UNKNOWN)
    assert not unknown.is_reconciled_to(unknown.epoch)
    assert driver.group.members["a"].is_reconciled_to(2)
    assert not driver.group.members["a"].is_reconciled_to(3)
    driver.append([RECORDS.current("g", unknown)])
    assert driver.beat("a", 2) is E.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 2, owned=({"0": [0]}, {})) is E.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 2, owned=({}, {})).response.error_code == 0


@pytest.mark.parametrize("missing", ["active_tasks", "standby_tasks", "warmup_tasks"])
def test_member_reports_all_roles_or_none(missing):
    given = request("a", 2, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    assert reported_tasks(given) == MemberTasks()
    setattr(given, missing, None)
    assert reported_tasks(given) is None


@pytest.mark.parametrize(("more", "accepted"), [(0, True), (1, False)])
def test_reported_offsets_are_bounded(more, accepted):
    offsets = [
        ReportedOffset(subtopology_id="0", partition=partition, offset=1)
        for partition in range(TASKS_MAX + more)
    ]
    given = request("a", 2, task_end_offsets=offsets)
    before = ReportedOffsets({"0": {0: 5}}, {})
    if accepted:
        found = reported_offsets(given, before)
        assert (found.reached, len(found.ends["0"])) == ({"0": {0: 5}}, TASKS_MAX)
        return
    with pytest.raises(KafkaError, match="Offsets of more than 40000 tasks") as refusal:
        reported_offsets(given, before)
    assert refusal.value.code is E.INVALID_REQUEST


def test_commit_without_a_topology_needs_the_epoch():
    group = StreamsGroup("g")
    group.members = group.members.set("a", StreamsMember("a", epoch=5))
    commit = OffsetCommitRequest(
        group_id="g", member_id="a", generation_id_or_member_epoch=4, topics=[]
    )
    with pytest.raises(KafkaError) as refusal:
        check_commit(group, lambda _id: None, commit, 9)
    assert refusal.value.code is E.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("some", "more", "both"),
    [
        ({}, {}, {}),
        ({"0": {1}}, {}, {"0": {1}}),
        ({}, {"0": {1}}, {"0": {1}}),
        ({"0": {1}}, {"0": {2}, "1": {3}}, {"0": {1, 2}, "1": {3}}),
    ],
)
def test_union_has_the_tasks_of_both(some, more, both):
    frozen = [{one: frozenset(mine) for one, mine in each.items()} for each in (some, more)]
    assert united(*frozen) == both


def test_topology_may_have_epoch_zero():
    check_topology(topology(epoch=0))
