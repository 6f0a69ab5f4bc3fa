"""Groups, their lag, and all data of a topic, with more than one of each, and responses with errors."""

import pytest

from tests.trimaran.client.scripted import Client, T, told
from trimaran.client import group_offsets, record_ages
from trimaran.client.changes import alter_configs
from trimaran.client.group_offsets import committed_offsets, lag_in_records
from trimaran.client.groups import group_rows
from trimaran.client.topics import moves_of, set_configs_of, topic_described
from trimaran.client.transactional_producer import TransactionalProducer
from trimaran.errors.connecting import (
    no_conversation,
    no_quorum,
    not_authenticated,
    wants_login,
)
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    ConnectRefused,
    VersionMismatch,
)
from trimaran.wire.client.routing import LeaderOf
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Address, TopicPartition
from trimaran.wire.messages import (
    add_partitions_to_txn,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    end_txn,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    offset_fetch,
)
from trimaran.wire.messages import produce as producing


def listed(*names, code=0):
    return list_groups.ListGroupsResponse(
        error_code=code,
        groups=[
            list_groups.ListedGroup(
                group_id=name, protocol_type="", group_state="Stable", group_type="classic"
            )
            for name in names
        ],
    )


def test_groups_of_all_coordinators_are_rows_by_name():
    client = Client(listed("z", "b"), listed(), listed("a"))
    rows = group_rows(client)
    assert [(row["group"], row["coordinator"]) for row in rows] == [("a", 3), ("b", 1), ("z", 1)]
    assert rows[0] == {
        "group": "a",
        "type": "classic",
        "protocol": "",
        "state": "Stable",
        "coordinator": 3,
    }
    assert [destination for destination, _ in client.asked] == [1, 2, 3]
    with pytest.raises(KafkaError):
        group_rows(Client(listed(), listed(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), listed()))


def fetched_offsets(*offsets, code=0):
    partitions = [
        offset_fetch.OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=offset, metadata="", error_code=0
        )
        for index, offset in enumerate(offsets)
    ]
    topics = [offset_fetch.OffsetFetchResponseTopics(name="t", partitions=partitions)]
    group = offset_fetch.OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=code)
    return offset_fetch.OffsetFetchResponse(groups=[group])


def test_committed_offsets_come_from_the_coordinator():
    client = Client(fetched_offsets(0, -1, 7))
    assert committed_offsets(client, "g") == {("t", 0): 0, ("t", 2): 7}
    assert client.asked[0][0] == CoordinatorNode("g")
    assert client.request.groups[0].topics is None
    with pytest.raises(KafkaError):
        committed_offsets(Client(fetched_offsets(code=ErrorCode.NOT_COORDINATOR)), "g")


def test_lag_is_distance_to_end_never_negative(monkeypatch):
    ends = {("t", 0): 10, ("t", 1): 3, ("s", 0): 5}
    monkeypatch.setattr(group_offsets, "end_offsets", lambda _client, wanted: ends)
    committed = {("t", 1): 9, ("t", 0): 4, ("s", 0): -1, ("u", 0): 2}
    rows = lag_in_records(Client(), committed)
    assert [tuple(row.values()) for row in rows] == [
        ("s", 0, -1, 5, 5),
        ("t", 0, 4, 10, 6),
        ("t", 1, 9, 3, 0),
        ("u", 0, 2, None, None),
    ]
    assert list(rows[0]) == ["topic", "partition", "committed", "end", "lag"]


@pytest.mark.parametrize(("now_ms", "age"), [(3500, 2.5), (1000, 0), (500, 0)])
def test_record_age_is_in_seconds_never_negative(monkeypatch, now_ms, age):
    from trimaran.log.batches.records import NewRecord, build_batch

    monkeypatch.setattr(record_ages, "now_ms", lambda: now_ms)
    records = build_batch([NewRecord(None, b"v", 1000)])
    part = fetch.PartitionData(
        partition_index=1, high_watermark=1, aborted_transactions=None, records=records
    )
    topics = [fetch.FetchableTopicResponse(topic="t", partitions=[part])]
    client = Client(fetch.FetchResponse(responses=topics))
    assert record_ages.age_seconds(client, TopicPartition("t", 1), -5) == age
    assert client.request.topics[0].partitions[0].fetch_offset == 0
    assert (
        record_ages.age_seconds(
            Client(fetch.FetchResponse(responses=[])), TopicPartition("t", 1), 0
        )
        is None
    )


def page(indexes, *, cursor=None, code=0):
    partitions = [
        describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=index if index < 3 else -1,
            leader_epoch=10 + index,
            replica_nodes=[1, 2],
            isr_nodes=[1],
            eligible_leader_replicas=[2],
            last_known_elr=[3],
            offline_replicas=[2],
        )
        for index in indexes
    ]
    topic = describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name="t",
        topic_id=bytes(15) + b"\1",
        partitions=partitions,
    )
    following = None
    if cursor is not None:
        following = describe_topic_partitions.Cursor(topic_name="t", partition_index=cursor)
    return describe_topic_partitions.DescribeTopicPartitionsResponse(
        topics=[topic], next_cursor=following
    )


def offsets_of(*pairs):
    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                name="t",
                partitions=[
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=index, offset=offset, timestamp=-1
                    )
                    for index, offset in pairs
                ],
            )
        ]
    )


def sized(*pairs):
    partitions = [
        describe_log_dirs.DescribeLogDirsPartition(
            partition_index=index, partition_size=size, offset_lag=0, is_future_key=False
        )
        for index, size in pairs
    ]
    topics = [describe_log_dirs.DescribeLogDirsTopic(name="t", partitions=partitions)]
    return describe_log_dirs.DescribeLogDirsResponse(
        results=[describe_log_dirs.DescribeLogDirsResult(error_code=0, log_dir="/a", topics=topics)]
    )


def configs_of(**values):
    """Returns value and source by name."""
    return describe_configs.DescribeConfigsResponse(
        results=[
            describe_configs.DescribeConfigsResult(
                error_code=0,
                error_message=None,
                resource_type=2,
                resource_name="t",
                configs=[
                    describe_configs.DescribeConfigsResourceResult(
                        name=name,
                        value=value,
                        read_only=False,
                        config_source=source,
                        is_sensitive=False,
                    )
                    for name, (value, source) in values.items()
                ],
            )
        ]
    )


def test_topic_is_described_with_offsets_and_sizes():
    client = Client(
        page([2, 1], cursor=3),
        page([3]),
        offsets_of((1, 5)),  # start offsets from leaders 1 and 2
        offsets_of((2, 6)),
        offsets_of((1, 50)),
        offsets_of((2, 60)),
        sized((1, 100), (2, 101)),
        sized((1, 200), (2, 201)),
        configs_of(a=("1", 5), b=("2", 1), c=(None, 4)),
        leaders={("t", 1): LeaderOf(1, 0), ("t", 2): LeaderOf(2, 0)},
        topics=[T],
    )
    found = topic_described(client, "t")
    assert (found["topic"], found["topic_id"]) == ("t", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert (found["replication_factor"], found["configs"]) == (2, {"b": "2", "c": None})
    rows = found["partitions"]
    assert [(r["partition"], r["begin"], r["end"], r["size"]) for r in rows] == [
        (1, 5, 50, 100),
        (2, 6, 60, 201),
        (3, None, None, None),
    ]
    assert {name: rows[0][name] for name in ("leader", "leader_epoch", "replicas", "isr")} == {
        "leader": 1,
        "leader_epoch": 11,
        "replicas": [1, 2],
        "isr": [1],
    }
    assert (rows[0]["elr"], rows[0]["last_known_elr"], rows[0]["offline"]) == ([2], [3], [2])
    assert client.asked[1][1].cursor.partition_index == 3
    with pytest.raises(UserError, match="there is no topic t"):
        topic_described(Client(page([], code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), "t")


def test_old_brokers_are_asked_without_eligible_leaders():
    client = Client(VersionMismatch("old"), told(T), configs_of())
    found = topic_described(client, "t")
    assert [(row["partition"], row["elr"]) for row in found["partitions"]] == [(0, None), (1, None)]
    assert set_configs_of(Client(configs_of(a=("1", 5))), "t") == {}


def test_moves_are_keyed_by_partition_unless_unauthorized():
    moving = list_partition_reassignments.OngoingPartitionReassignment(
        partition_index=2, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
    )
    answer = list_partition_reassignments.ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            list_partition_reassignments.OngoingTopicReassignment(name="t", partitions=[moving])
        ],
    )
    topic = {"topic": "t", "partitions": [{"partition": 0}, {"partition": 2}]}
    client = Client(answer)
    assert moves_of(client, topic) == {2: {"adding": [3], "removing": [1]}}
    (asked,) = client.request.topics
    assert (asked.name, asked.partition_indexes) == ("t", [0, 2])
    refused = answer.replace(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert moves_of(Client(refused), topic) == {}


def test_refused_change_of_configs_is_reported():
    for code, error in ((NOT_THERE, UserError), (ErrorCode.INVALID_CONFIG, KafkaError)):
        result = incremental_alter_configs.AlterConfigsResourceResponse(
            error_code=code, error_message="no", resource_type=2, resource_name="t"
        )
        answer = incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[result])
        with pytest.raises(error):
            alter_configs(Client(answer), 2, "t", [])


NOT_THERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def added(code=0):
    result = add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
        partition_index=1, partition_error_code=code
    )
    topic = add_partitions_to_txn.AddPartitionsToTxnTopicResult(
        name="t", results_by_partition=[result]
    )
    return add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def produced():
    result = producing.PartitionProduceResponse(index=1, error_code=0, base_offset=0)
    topic = producing.TopicProduceResponse(name="t", partition_responses=[result])
    return producing.ProduceResponse(responses=[topic])


IDENTITY = init_producer_id.InitProducerIdResponse(producer_id=7, producer_epoch=3)
LINES = [(None, b"v")]


@pytest.mark.parametrize("is_commit", [True, False])
def test_transaction_adds_partitions_once_and_ends(is_commit):
    client = Client(IDENTITY, added(), produced(), produced(), end_txn.EndTxnResponse())
    producer = TransactionalProducer(client, "t", "tx")
    producer.send(1, LINES)
    producer.send(1, LINES)
    producer.end(is_commit=is_commit)
    init, add, first, second, end = [request for _, request in client.asked]
    assert init.transactional_id == "tx"
    (topic,) = add.v3_and_below_topics
    assert (topic.name, topic.partitions) == ("t", [1])
    assert (add.v3_and_below_producer_id, add.v3_and_below_producer_epoch) == (7, 3)
    assert first.transactional_id == second.transactional_id == "tx"
    assert (end.transactional_id, end.producer_id, end.producer_epoch) == ("tx", 7, 3)
    assert end.committed is is_commit
    assert client.asked[1][0] == CoordinatorNode("tx", key_type=1)


def test_empty_transaction_has_no_end():
    client = Client()
    TransactionalProducer(client, "t", "tx").end(is_commit=True)
    assert client.asked == []


def test_refused_partition_prevents_writing():
    client = Client(IDENTITY, added(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match="no WRITE for topic t"):
        TransactionalProducer(client, "t", "tx").send(1, LINES)
    assert len(client.asked) == 2


HERE = Address("127.0.0.1", 1)


@pytest.mark.parametrize(
    ("error", "message", "fix"),
    [
        (AuthenticationRefused("wrong password"), "authentication failed", "sasl.mechanism"),
        (
            AuthenticationRefused("TLS: certificate required"),
            "requires a client certificate",
            "ssl.keystore.location",
        ),
        (
            AuthenticationRefused("TLS: CERTIFICATE_VERIFY_FAILED"),
            "TLS verification failed",
            "truststore",
        ),
        (AuthenticationRefused("TLS: else"), "TLS verification failed", "truststore"),
        (ConnectRefused("refused"), "nothing listens", "trimaran ps"),
    ],
)
def test_failed_conversation_is_explained_with_fix(error, message, fix):
    found = no_conversation(HERE, error, None)
    assert message in str(found)
    assert "127.0.0.1:1" in str(found)
    assert fix in found.fix
    if isinstance(error, AuthenticationRefused):
        assert str(not_authenticated("127.0.0.1:1", error)) == str(found)
        assert found.exit_code is Exit.REFUSED


def test_unreachable_host_differs_from_silent_kafka():
    lost = ConnectionLost("no route")
    lost.__cause__ = OSError("no route")
    assert "cannot connect to 127.0.0.1:1" in str(no_conversation(HERE, lost, None))
    assert "does not speak Kafka" in str(no_conversation(HERE, ConnectionLost("broke"), None))


def test_leaderless_quorum_names_missing_controllers():
    all_answer, some = no_quorum([], 3), no_quorum(["a:1", "b:2"], 3, Exit.REFUSED)
    assert "have no leader" in str(all_answer)
    assert all_answer.exit_code is Exit.TIMEOUT
    assert "2 of 3 controllers unreachable (a:1, b:2)" in str(some)
    assert some.exit_code is Exit.REFUSED
    assert "accepts PLAIN, X" in wants_login(HERE, ["PLAIN", "X"]).why
