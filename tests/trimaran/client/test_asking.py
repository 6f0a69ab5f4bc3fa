"""Requests of commands to brokers, and how their responses are used, with more than one of everything."""

from types import SimpleNamespace

import pytest

from tests.trimaran.client.scripted import Client, T, told, topic
from trimaran.client import topic_partitions
from trimaran.client.changes import (
    alter_configs,
    check_idle,
    commit_offsets,
    create_topic,
    delete_topic,
    elect_leaders,
    within_log,
)
from trimaran.client.offsets import ASIDE_SECONDS, end_offset, end_offsets
from trimaran.client.positions import Position
from trimaran.client.topic_partitions import ensure_partitions_exist, leaders_of
from trimaran.errors.refused import (
    Needs,
    all_missing,
    check,
    check_group,
    check_resource,
    check_topic,
    check_transactional_id,
    ensure_brokers_run,
    no_group,
)
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.client.destinations import CoordinatorNode, LeaderNode
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.client.routing import LeaderOf
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages import (
    create_topics,
    delete_topics,
    incremental_alter_configs,
    list_offsets,
    offset_commit,
)
from trimaran.wire.messages import elect_leaders as elections

NOT_THERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leaders_follow_order_of_partitions():
    client = Client(told(T))
    assert leaders_of(client, "t") == [1, -1]
    assert [topic.name for topic in client.request.topics] == ["t"]
    assert client.request.allow_auto_topic_creation is False


@pytest.mark.parametrize("create", [False, True])
def test_missing_topic_is_awaited_only_if_creatable(create, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    unready = [told(topic("t", code=code)) for code in (NOT_THERE, ErrorCode.LEADER_NOT_AVAILABLE)]
    client = Client(*unready, told(T))
    if create:
        assert leaders_of(client, "t", create=True) == [1, -1]
        assert client.request.allow_auto_topic_creation is True
    else:
        now[0] = 1.0
        monkeypatch.setattr("time.monotonic", lambda: now.__setitem__(0, now[0] + 1) or now[0])
        with pytest.raises(UserError, match="there is no topic t"):
            leaders_of(client, "t")


def test_refused_topic_is_not_requested_again():
    client = Client(told(topic("t", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    with pytest.raises(KafkaError, match="topic t") as refused:
        leaders_of(client, "t", create=True)
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("wanted", "wrong"), [([0, 2], None), ([3], 3), ([0, -1], -1)])
def test_partitions_are_numbered_from_0_below_their_number(wanted, wrong):
    if wrong is None:
        ensure_partitions_exist("t", wanted, 3)
        return
    with pytest.raises(UserError, match=f"has no partition {wrong} .it has 3") as refused:
        ensure_partitions_exist("t", wanted, 3)
    assert refused.value.exit_code is Exit.USAGE


@pytest.mark.parametrize(
    ("wanted", "told_"),
    [
        ([1, 2], None),
        ([], None),
        ([4, 1], "broker 4 is not live"),
        ([9, 40], "brokers 9, 40 are not live"),
    ],
)
def test_stopped_brokers_are_named(wanted, told_):
    if told_ is None:
        ensure_brokers_run(wanted, {2, 1})
        return
    with pytest.raises(UserError, match=told_) as refused:
        ensure_brokers_run(wanted, {2, 1})
    assert "the live brokers are 1, 2" in str(refused.value.why)
    assert refused.value.exit_code is Exit.REFUSED


CHECKS = [
    (check_topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic x"),
    (check_group, ErrorCode.GROUP_ID_NOT_FOUND, "there is no group x"),
    (check_transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "no transactional id x"),
]


@pytest.mark.parametrize(("check", "code", "message"), CHECKS)
def test_missing_items_are_explained_other_errors_coded(check, code, message):
    check("x", 0)
    with pytest.raises(UserError, match=message) as unknown:
        check("x", code)
    assert unknown.value.exit_code is Exit.REFUSED
    with pytest.raises(KafkaError, match="x") as refused:
        check("x", ErrorCode.NOT_CONTROLLER)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    both = all_missing([no_group("a"), no_group("b")])
    assert "there are no groups a, b" in str(both)


def test_only_topics_are_reported_missing_among_resources():
    with pytest.raises(UserError):
        check_resource(2, "x", NOT_THERE, "m", "ALTER_CONFIGS")
    with pytest.raises(KafkaError, match="m"):
        check_resource(4, "x", NOT_THERE, "m", "ALTER_CONFIGS")
    for kind in (2, 4):
        check_resource(kind, "x", 0, None, "ALTER_CONFIGS")


@pytest.mark.parametrize(
    ("needs", "kind", "told"),
    [
        (Needs("READ", topic="t", group="g"), "TOPIC", "no READ for topic t"),
        (Needs("READ", topic="t", group="g"), "GROUP", "no READ for group g"),
        (Needs("DESCRIBE", group="g"), "TOPIC", "no DESCRIBE for a topic of group g"),
        (
            Needs("WRITE", transactional_id="x"),
            "TRANSACTIONAL_ID",
            "no WRITE for transactional id x",
        ),
        (Needs("ALTER"), "CLUSTER", "no ALTER for the cluster"),
        (Needs("ALTER"), "DELEGATION_TOKEN", "why"),
        (None, "CLUSTER", "why"),
    ],
)
def test_denials_name_operation_and_resource(needs, kind, told):
    code = ErrorCode[f"{kind}_AUTHORIZATION_FAILED"]
    with pytest.raises(KafkaError) as denied:
        check(code, "why", "about", needs)
    assert (denied.value.code, denied.value.message) == (code, told)
    with pytest.raises(KafkaError, match="why"):
        check(ErrorCode.NOT_CONTROLLER, "why", "about", needs)


def listed(*offsets):
    topics = {}
    for name, index, offset, code in offsets:
        answer = list_offsets.ListOffsetsPartitionResponse(
            partition_index=index, error_code=code, offset=offset, timestamp=-1
        )
        topics.setdefault(name, []).append(answer)
    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(name=name, partitions=parts)
            for name, parts in topics.items()
        ]
    )


def test_offset_is_requested_from_leader():
    client = Client(listed(("t", 3, 42, 0)))
    assert end_offset(client, TopicPartition("t", 3), -2, isolation=1) == 42
    destination, request = client.asked[0]
    assert destination == LeaderNode(TopicPartition("t", 3))
    assert (request.replica_id, request.isolation_level) == (-1, 1)
    (asked,) = request.topics[0].partitions
    assert (request.topics[0].name, asked.partition_index, asked.timestamp) == ("t", 3, -2)
    with pytest.raises(KafkaError):
        end_offset(
            Client(listed(("t", 3, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER))), TopicPartition("t", 3)
        )


def test_end_offsets_are_requested_once_per_leader():
    leaders = {
        ("t", 0): LeaderOf(1, 0),
        ("t", 1): LeaderOf(2, 0),
        ("s", 0): LeaderOf(1, 0),
        ("t", 2): LeaderOf(9, 0),  # the metadata has no broker 9
    }
    wanted = [TopicPartition(*pair) for pair in (*leaders, ("t", 3))]
    answers = [listed(("t", 0, 7, 0), ("s", 0, 8, 3)), listed(("t", 1, 9, 0))]
    client = Client(*answers, leaders=leaders)
    assert end_offsets(client, wanted, -2) == {("t", 0): 7, ("t", 1): 9}
    assert client.refreshed == ["s", "t"]
    assert [destination for destination, _ in client.asked] == [1, 2]
    assert client.options == [{"timeout": ASIDE_SECONDS}] * 2
    first = client.asked[0][1]
    assert [
        (topic.name, [p.partition_index for p in topic.partitions]) for topic in first.topics
    ] == [
        ("s", [0]),
        ("t", [0]),
    ]
    assert {p.timestamp for topic in first.topics for p in topic.partitions} == {-2}
    for error in (ConnectionLost("gone"), RequestTimedOut("late")):
        client = Client(error, listed(("t", 1, 9, 0)), leaders=leaders)
        assert end_offsets(client, wanted) == {("t", 1): 9}
    assert end_offsets(Client(), []) == {}


POSITIONS = [
    (Position(offset=5), [], 5),
    (Position(before_end=3), [0, 10], 7),
    (Position(before_end=30), [4, 10], 4),
    (Position(timestamp_ms=-1), [10], 10),
    (Position(timestamp_ms=0), [0], 0),
    (Position(timestamp_ms=77), [-1, 10], 10),
]


@pytest.mark.parametrize(("position", "offsets", "expected"), POSITIONS)
def test_position_is_an_offset_of_the_partition(position, offsets, expected):
    client = Client(*(listed(("t", 1, offset, 0)) for offset in offsets))
    assert position.offset_in(client, TopicPartition("t", 1), isolation=1) == expected
    assert client.answers == []
    assert {request.isolation_level for _, request in client.asked} <= {1}


@pytest.mark.parametrize(("offset", "expected"), [(2, 3), (3, 3), (5, 5), (9, 9), (10, 9)])
def test_offset_outside_log_becomes_nearest_end(offset, expected):
    client = Client(listed(("t", 1, 3, 0)), listed(("t", 1, 9, 0)))
    assert within_log(client, TopicPartition("t", 1), offset) == expected
    timestamps = [r.topics[0].partitions[0].timestamp for _, r in client.asked]
    assert timestamps == [-2, -1]


def test_topic_is_created_once_as_requested():
    result = create_topics.CreatableTopicResult(name="t", topic_id=bytes(16), error_code=0)
    client = Client(create_topics.CreateTopicsResponse(topics=[result]))
    found = create_topic(client, "t", 3, 2, {"a": "1"}, validate_only=True, timeout_ms=7)
    assert found is result
    (asked,) = client.request.topics
    assert (asked.name, asked.num_partitions, asked.replication_factor) == ("t", 3, 2)
    assert [(config.name, config.value) for config in asked.configs] == [("a", "1")]
    assert (client.request.validate_only, client.request.timeout_ms) == (True, 7)
    assert client.options == [{"retry_unknown": False}]
    refused = result.replace(error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="it is there")
    with pytest.raises(KafkaError, match="it is there"):
        create_topic(Client(create_topics.CreateTopicsResponse(topics=[refused])), "t")


def test_topic_is_deleted_once():
    result = delete_topics.DeletableTopicResult(name="t", error_code=0)
    client = Client(delete_topics.DeleteTopicsResponse(responses=[result]))
    delete_topic(client, "t", timeout_ms=7)
    assert [(topic.name, topic.topic_id) for topic in client.request.topics] == [("t", bytes(16))]
    assert (client.request.timeout_ms, client.options) == (7, [{"retry_unknown": False}])
    gone = result.replace(error_code=NOT_THERE)
    with pytest.raises(UserError, match="there is no topic t"):
        delete_topic(Client(delete_topics.DeleteTopicsResponse(responses=[gone])), "t")


def test_configs_are_changed_at_responsible_node():
    result = incremental_alter_configs.AlterConfigsResourceResponse(
        error_code=0, error_message=None, resource_type=4, resource_name="1"
    )
    client = Client(incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[result]))
    changes = [("a", 0, "1"), ("b", 1, None), ("c", 2, "x")]
    alter_configs(client, 4, "1", changes, node=3, validate_only=True)
    destination, request = client.asked[0]
    (asked,) = request.resources
    assert (destination, request.validate_only) == (3, True)
    assert (asked.resource_type, asked.resource_name) == (4, "1")
    found = [(config.name, config.config_operation, config.value) for config in asked.configs]
    assert found == changes


def test_elections_report_where_held_and_why_not():
    def result(index, code, message=None):
        return elections.PartitionResult(partition_id=index, error_code=code, error_message=message)

    results = [
        result(0, 0),
        result(1, ErrorCode.ELECTION_NOT_NEEDED),
        result(2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is down"),
        result(3, ErrorCode.NOT_CONTROLLER),
    ]
    answer = elections.ElectLeadersResponse(
        replica_election_results=[
            elections.ReplicaElectionResult(topic="t", partition_result=results)
        ]
    )
    client = Client(answer, answer)
    expected = {("t", 0): None, ("t", 2): "it is down", ("t", 3): "NOT_CONTROLLER"}
    assert elect_leaders(client, None) == expected
    assert (client.request.election_type, client.request.topic_partitions) == (0, None)
    elect_leaders(client, {}, unclean=True)
    assert client.request.election_type == 1


def committed(*codes):
    partitions = [
        offset_commit.OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    ]
    topics = [offset_commit.OffsetCommitResponseTopic(name="t", partitions=partitions)]
    return offset_commit.OffsetCommitResponse(topics=topics)


def test_offsets_are_committed_together_refusal_is_reported():
    client = Client(committed(0, 0))
    commit_offsets(client, "g", {("t", 0): 5, ("s", 2): 6, ("t", 1): 7})
    destination, request = client.asked[0]
    assert (destination, request.group_id) == (CoordinatorNode("g"), "g")
    found = {
        (topic.name, part.partition_index): part.committed_offset
        for topic in request.topics
        for part in topic.partitions
    }
    assert found == {("t", 0): 5, ("s", 2): 6, ("t", 1): 7}
    assert len(request.topics) == 2
    with pytest.raises(KafkaError, match="t-1"):
        commit_offsets(Client(committed(0, ErrorCode.NOT_COORDINATOR)), "g", {("t", 0): 1})
    commit_offsets(Client(), "g", {})


@pytest.mark.parametrize(
    ("code", "is_busy"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.NON_EMPTY_GROUP, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.REBALANCE_IN_PROGRESS, True),
        (ErrorCode.NOT_COORDINATOR, False),
    ],
)
def test_group_with_members_is_not_changed(code, is_busy):
    if is_busy:
        with pytest.raises(UserError, match="group g has members"):
            check_idle("g", code)
    else:
        check_idle("g", code)


@pytest.fixture
def clock(monkeypatch):
    """The elapsed seconds, and the pauses, each of which advances the clock immediately."""
    found = SimpleNamespace(now=0.0, pauses=[])

    def sleep(seconds):
        found.pauses.append(seconds)
        found.now += seconds

    time = SimpleNamespace(monotonic=lambda: found.now, sleep=sleep)
    monkeypatch.setattr(topic_partitions, "time", time)
    return found


@pytest.mark.parametrize("code", [NOT_THERE, ErrorCode.LEADER_NOT_AVAILABLE])
def test_topic_being_created_is_retried_five_seconds(clock, code):
    client = Client(*[told(topic("t", code=code))] * 200)
    with pytest.raises((UserError, KafkaError)) as refused:
        leaders_of(client, "t", create=True)
    assert set(clock.pauses) == {0.05}
    assert 4.99 < clock.now < 5.06
    if code is NOT_THERE:
        assert refused.value.why == "no broker knows it, and the brokers do not create it"


def test_uncreated_topic_is_retried_briefly(clock):
    client = Client(*[told(topic("t", code=NOT_THERE))] * 3)
    with pytest.raises(UserError) as refused:
        leaders_of(client, "t")
    assert clock.pauses == [0.05]
    assert refused.value.why == "no broker knows it, reading does not create it"
