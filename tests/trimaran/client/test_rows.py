"""Rows that commands print from brokers' responses: partitions, brokers, configs, ACLs, directories, quorums,
groups.
"""

import pytest

from tests.trimaran.client.scripted import Client, S, T, partition, told, topic
from trimaran.client import quorum as quorum_rows
from trimaran.client.acls import acl_row, acls_of, parse_pattern
from trimaran.client.brokers import broker_rows
from trimaran.client.configs import config_rows, reported_configs
from trimaran.client.group_members import group_described, owners_of
from trimaran.client.log_dirs import log_dirs_of, replica_sizes
from trimaran.client.offsets import ASIDE_SECONDS
from trimaran.client.partitions import (
    is_at_min_isr,
    is_not_preferred,
    is_offline,
    is_under_min_isr,
    is_under_replicated,
    partitions_of,
    rows_of,
    topics_of,
)
from trimaran.client.topics import add_offsets
from trimaran.errors.user_error import UserError
from trimaran.quorum.metadata.acls import Acl
from trimaran.wire.client.errors import RequestTimedOut, VersionMismatch
from trimaran.wire.client.routing import LeaderOf
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import Address
from trimaran.wire.messages import (
    consumer_group_describe,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_quorum,
    list_groups,
)

NOT_THERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_are_rows_in_order_and_those_wanted():
    client = Client(told(T, S))
    topics = topics_of(client, ["t", "s"])
    assert [topic.name for topic in client.request.topics] == ["t", "s"]
    rows = partitions_of(client, topics, [])
    assert [(row["topic"], row["partition"]) for row in rows] == [("s", 0), ("t", 0), ("t", 1)]
    assert rows[1] == {
        "topic": "t",
        "partition": 0,
        "leader": 1,
        "replicas": [1, 2, 3],
        "isr": [1, 2],
        "min_isr": None,
    }

    def found(*wanted):
        return [(row["topic"], row["partition"]) for row in partitions_of(client, topics, wanted)]

    assert found(is_under_replicated) == [("t", 0), ("t", 1)]
    assert found(is_offline) == [("t", 1)]
    assert found(is_not_preferred) == [("s", 0)]
    assert found(is_not_preferred, is_offline) == [("s", 0), ("t", 1)]
    assert topics_of(Client(told()), None) == []


def test_broker_0_leads_as_any_other():
    topics = [topic("t", partition(0, 0, [0, 1], [0, 1]), partition(1, 0, [1, 0], [0]))]
    assert partitions_of(Client(), topics, [is_offline]) == []
    assert [row["partition"] for row in rows_of(topics, [is_not_preferred])] == [1]
    assert [row["min_isr"] for row in rows_of(topics, [])] == [None, None]
    asked = []
    client = Client(leaders={("t", 0): LeaderOf(0, 0)}, topics=topics)
    client.routing.nodes = {0: Address("a", 1)}
    client.call = lambda *request, **_: (
        asked.append(request) or (_ for _ in ()).throw(RequestTimedOut("late"))
    )
    rows = [{"partition": 0, "leader": 0}]
    add_offsets(client, "t", rows)
    assert [to for to, _ in asked] == [0]
    assert rows == [{"partition": 0, "leader": 0, "begin": None, "end": None, "size": None}]


def described_configs(**values):
    return describe_configs.DescribeConfigsResponse(
        results=[
            describe_configs.DescribeConfigsResult(
                error_code=0,
                error_message=None,
                resource_type=2,
                resource_name=name,
                configs=[config("min.insync.replicas", value)],
            )
            for name, value in values.items()
        ]
    )


def config(name, value, **changes):
    values = {"read_only": False, "config_source": 5, "is_sensitive": False, **changes}
    return describe_configs.DescribeConfigsResourceResult(name=name, value=value, **values)


def test_minimums_are_requested_only_if_relevant():
    client = Client(described_configs(t="2", s="3"), described_configs(t="5", s="1"))
    assert [row["topic"] for row in partitions_of(client, [T, S], [is_at_min_isr])] == ["s", "t"]
    assert [resource.resource_name for resource in client.request.resources] == ["t", "s"]
    rows = partitions_of(client, [T, S], [is_under_min_isr])
    assert [(row["topic"], row["partition"]) for row in rows] == [("t", 0), ("t", 1)]
    assert partitions_of(client, [], [is_under_min_isr]) == []
    with pytest.raises(UserError):
        partitions_of(client, [topic("x", code=NOT_THERE)], [])


def test_brokers_count_leaderships_and_replicas():
    answer = describe_cluster.DescribeClusterResponse(
        cluster_id="c",
        controller_id=1,
        brokers=[
            describe_cluster.DescribeClusterBroker(
                broker_id=3, host="", port=-1, rack="r", is_fenced=True
            ),
            describe_cluster.DescribeClusterBroker(broker_id=1, host="h", port=5),
        ],
    )
    client = Client(answer)
    rows = broker_rows(client, [T, S])
    assert rows == [
        {"id": 1, "address": "h:5", "rack": None, "state": "active", "leaders": 1, "replicas": 3},
        {"id": 3, "address": "-", "rack": "r", "state": "fenced", "leaders": 0, "replicas": 2},
    ]
    assert client.request.include_fenced_brokers is True


def test_configs_are_rows_without_secrets():
    synonyms = [describe_configs.DescribeConfigsSynonym(name="b", value="1", source=4)]
    result = describe_configs.DescribeConfigsResult(
        error_code=0,
        error_message=None,
        resource_type=4,
        resource_name="1",
        configs=[
            config("z", "secret", is_sensitive=True, config_source=2, read_only=True),
            config("a", "1", config_source=5, synonyms=synonyms),
        ],
    )
    client = Client(describe_configs.DescribeConfigsResponse(results=[result]))
    first, second = config_rows(client, 4, "1", 1, ["a", "z"])
    assert (first["name"], first["value"], first["is_set"]) == ("a", "1", False)
    assert first["synonyms"] == [{"source": "STATIC_BROKER_CONFIG", "name": "b", "value": "1"}]
    assert (second["value"], second["is_sensitive"], second["read_only"]) == (
        "(sensitive)",
        True,
        True,
    )
    assert (second["is_set"], second["config_source"]) == (True, "DYNAMIC_BROKER_CONFIG")
    destination, request = client.asked[0]
    assert (destination, request.include_synonyms) == (1, True)
    assert request.resources[0].configuration_keys == ["a", "z"]
    for names in (["2"], ["1", "2"]):
        answer = describe_configs.DescribeConfigsResponse(results=[result])
        with pytest.raises(RemoteProtocolError, match="and nothing else"):
            reported_configs(Client(answer), 4, names)


def test_acls_are_filtered_and_sorted():
    def resource(name, *principals):
        acls = [
            describe_acls.AclDescription(
                principal=principal, host="*", operation=3, permission_type=3
            )
            for principal in principals
        ]
        return describe_acls.DescribeAclsResource(
            resource_type=2, resource_name=name, pattern_type=4, acls=acls
        )

    answer = describe_acls.DescribeAclsResponse(
        error_code=0,
        error_message=None,
        resources=[resource("z", "User:b"), resource("a", "User:c", "User:a")],
    )
    client = Client(answer, answer)
    found = acls_of(client, parse_pattern("topic/orders"), "User:a")
    assert [(acl.resource_name, acl.principal) for acl in found] == [
        ("a", "User:a"),
        ("a", "User:c"),
        ("z", "User:b"),
    ]
    asked = client.request
    assert (asked.resource_type_filter, asked.resource_name_filter) == (2, "orders")
    assert (asked.pattern_type_filter, asked.principal_filter) == (2, "User:a")
    assert (asked.operation, asked.permission_type, asked.host_filter) == (1, 1, None)
    acls_of(client, None, None)
    asked = client.request
    assert (asked.resource_type_filter, asked.pattern_type_filter) == (1, 1)
    assert (asked.resource_name_filter, asked.principal_filter) == (None, None)


@pytest.mark.parametrize(
    ("acl", "resource", "operation", "permission"),
    [
        (Acl(2, "t", 3, "User:a", "h", 3, 3), "topic/t", "read", "allow"),
        (Acl(2, "t", 4, "User:a", "h", 10, 2), "topic/t*", "describe-configs", "deny"),
        (Acl(4, "kafka-cluster", 3, "User:a", "h", 12, 3), "cluster", "idempotent-write", "allow"),
        (Acl(5, "x", 3, "User:a", "h", 2, 3), "transactional-id/x", "all", "allow"),
    ],
)
def test_acl_row_uses_words_of_commands(acl, resource, operation, permission):
    row = acl_row(acl)
    assert (row["resource"], row["operation"], row["permission"]) == (
        resource,
        operation,
        permission,
    )
    assert (row["principal"], row["host"]) == ("User:a", "h")


def log_dirs(*directories):
    return describe_log_dirs.DescribeLogDirsResponse(
        error_code=0,
        results=[
            describe_log_dirs.DescribeLogDirsResult(
                error_code=code,
                log_dir=path,
                topics=[
                    describe_log_dirs.DescribeLogDirsTopic(
                        name="t",
                        partitions=[
                            describe_log_dirs.DescribeLogDirsPartition(
                                partition_index=index,
                                partition_size=size,
                                offset_lag=0,
                                is_future_key=future,
                            )
                            for index, size, future in replicas
                        ],
                    )
                ],
                total_bytes=100,
                usable_bytes=40,
            )
            for path, code, replicas in directories
        ],
    )


def test_log_directories_are_rows_with_their_replicas():
    client = Client(log_dirs(("/a", 0, [(0, 5, False)]), ("/b", 56, [])), topics=[T])
    first, second = log_dirs_of(client, 2, ["t"], timeout=3)
    assert (first["broker"], first["dir"], first["error"]) == (2, "/a", None)
    assert first["replicas"] == [
        {"topic": "t", "partition": 0, "size": 5, "offset_lag": 0, "is_future": False}
    ]
    assert (first["total"], first["usable"]) == (100, 40)
    assert (second["error"], second["error_code"]) == ("KAFKA_STORAGE_ERROR", 56)
    assert (client.asked[0][0], client.options) == (2, [{"timeout": 3}])
    assert [(topic.topic, topic.partitions) for topic in client.request.topics] == [("t", [1, 0])]


def test_replica_sizes_omit_unknown_and_future_ones():
    answers = [
        log_dirs(("/a", 0, [(0, 5, False), (1, 6, True)])),
        RequestTimedOut("late"),
        log_dirs(("/a", 0, [(0, 7, False)]), ("/b", 0, [(1, 8, False)])),
    ]
    client = Client(*answers, topics=[T])
    assert replica_sizes(client, "t", [3, 1, 2]) == {(1, 0): 5, (3, 0): 7, (3, 1): 8}
    assert client.options == [{"timeout": ASIDE_SECONDS}] * 3


def quorum_partition(**changes):
    def replica(number, end, fetched=-1, directory=bytes(16)):
        return describe_quorum.ReplicaState(
            replica_id=number,
            replica_directory_id=directory,
            log_end_offset=end,
            last_fetch_timestamp=fetched,
            last_caught_up_timestamp=fetched,
        )

    values = {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": 2,
        "leader_epoch": 5,
        "high_watermark": 90,
        "current_voters": [replica(1, 80, 1000), replica(2, 100, 3000, bytes(15) + b"\1")],
        "observers": [replica(9, 70, 9000)],
        **changes,
    }
    return describe_quorum.DescribeQuorumResponsePartitionData(**values)


def test_quorum_is_rows_of_voters_and_observers(monkeypatch):
    monkeypatch.setattr(quorum_rows, "now_ms", lambda: 4000)
    listener = describe_quorum.Listener(name="C", host="h", port=9)
    nodes = [describe_quorum.Node(node_id=2, listeners=[listener])]
    rows = quorum_rows.replica_rows(quorum_partition(), nodes)
    assert [(row["id"], row["role"], row["lag"]) for row in rows] == [
        (1, "follower", 20),
        (2, "leader", 0),
        (9, "observer", 30),
    ]
    assert [row["last_fetch_ms_ago"] for row in rows] == [2000, 0, 0]
    assert [row["endpoints"] for row in rows] == [[], ["C://h:9"], []]
    assert [row["directory_id"] is None for row in rows] == [True, False, True]
    assert quorum_rows.quorum_fields(quorum_partition()) == {
        "leader_id": 2,
        "leader_epoch": 5,
        "high_watermark": 90,
    }
    empty = quorum_partition(current_voters=[], observers=[])
    assert quorum_rows.replica_rows(empty, []) == []


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (3000, None),
        (3000 + 4_999, None),
        (3000 - 4_999, None),
        (3000 + 65_000, "the clock of the leader, node 2, is 65 s behind that of this machine"),
        (3000 - 5_000, "the clock of the leader, node 2, is 5 s ahead of that of this machine"),
    ],
)
def test_clocks_that_differ_are_called_that(monkeypatch, now, told):
    """Lags are measured by the leader's clock alone."""
    monkeypatch.setattr(quorum_rows, "now_ms", lambda: now)
    assert quorum_rows.clock_difference(quorum_partition()) == told
    rows = quorum_rows.replica_rows(quorum_partition(), [])
    assert [row["last_caught_up_ms_ago"] for row in rows] == [2000, 0, 0]


def test_leader_without_times_has_no_difference(monkeypatch):
    monkeypatch.setattr(quorum_rows, "now_ms", lambda: 9_000_000)
    silent = describe_quorum.ReplicaState(
        replica_id=2,
        replica_directory_id=bytes(16),
        log_end_offset=1,
        last_fetch_timestamp=-1,
        last_caught_up_timestamp=-1,
    )
    assert quorum_rows.clock_difference(quorum_partition(current_voters=[silent])) is None


def classic(state="Stable", code=0, protocol="consumer", data=b""):
    member = describe_groups.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=b"", member_assignment=data
    )
    group = describe_groups.DescribedGroup(
        error_code=code,
        group_id="g",
        group_state=state,
        protocol_type=protocol,
        protocol_data="range",
        members=[member],
    )
    return describe_groups.DescribeGroupsResponse(groups=[group])


ASSIGNED = bytes.fromhex("0000 00000001 0001 74 00000002 00000000 00000003 ffffffff")


@pytest.mark.parametrize(
    ("protocol", "data", "expected"),
    [
        ("consumer", ASSIGNED, {"t": [0, 3]}),
        ("connect", ASSIGNED, {}),
        ("consumer", b"", {}),
        ("consumer", b"\xff", {}),
    ],
)
def test_classic_group_shows_assignments(protocol, data, expected):
    found = group_described(Client(classic(protocol=protocol, data=data)), "g")
    assert (found["type"], found["state"], found["assignor"]) == ("classic", "Stable", "range")
    assert (found["coordinator"], found["coordinator_address"]) == (2, "b:2")
    (member,) = found["members"]
    assert (member["member"], member["assignment"]) == ("m", expected)
    owned = {("t", index): member for index in expected.get("t", [])}
    assert owners_of(found) == owned


def listed(*groups):
    return list_groups.ListGroupsResponse(
        groups=[
            list_groups.ListedGroup(
                group_id=name, protocol_type="", group_state="Stable", group_type=kind
            )
            for name, kind in groups
        ]
    )


@pytest.mark.parametrize(
    ("kind", "feature"), [("Share", "share.version"), ("Streams", "streams.version")]
)
def test_listed_group_of_disabled_feature_is_explained(kind, feature):
    disabled = [VersionMismatch("old")] * 3
    found = [listed(("other", "Classic")), listed(("g", kind)), listed()]
    with pytest.raises(UserError, match="g cannot be described now") as refusal:
        group_described(Client(classic("Dead"), *disabled, *found), "g")
    assert f"it is a {kind.lower()} group" in refusal.value.why
    assert feature in refusal.value.fix


def test_group_kinds_are_tried_in_turn():
    partitions = consumer_group_describe.TopicPartitions(
        topic_id=bytes(16), topic_name="t", partitions=[1]
    )
    member = consumer_group_describe.Member(
        member_id="m",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=[],
        assignment=consumer_group_describe.Assignment(topic_partitions=[partitions]),
        target_assignment=consumer_group_describe.Assignment(topic_partitions=[]),
    )
    group = consumer_group_describe.DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        group_epoch=7,
        assignment_epoch=7,
        assignor_name="uniform",
        members=[member],
    )
    for dead in (classic("Dead"), classic(code=ErrorCode.GROUP_ID_NOT_FOUND)):
        answer = consumer_group_describe.ConsumerGroupDescribeResponse(groups=[group])
        found = group_described(Client(dead, answer), "g")
        assert (found["type"], found["epoch"], found["assignor"]) == ("consumer", 7, "uniform")
        assert found["members"][0]["epoch"] == 4
        assert owners_of(found) == {("t", 1): found["members"][0]}
    with pytest.raises(UserError, match="there is no group g"):
        group_described(
            Client(classic("Dead"), *[VersionMismatch("old")] * 3, *[listed()] * 3), "g"
        )
    refused = group.replace(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    answer = consumer_group_describe.ConsumerGroupDescribeResponse(groups=[refused])
    with pytest.raises(KafkaError):
        group_described(Client(classic("Dead"), answer), "g")
