"""Sections 4.2 (mE9, mE10) and 4.4: requests to a broker that are complete but make no sense."""

import pytest

from tests.badinput.made import made
from tests.badinput.nodes import TOPIC
from tests.badinput.peer import TIMEOUT_MS, ask, codes, connected, frame_of
from tests.badinput.test_records import batch, end_offset, produced
from tests.cluster.processes import until
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from trimaran.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.cluster

OK = {"NONE"}
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


# Fetch


def fetch(*partitions: FetchPartition, topic: str = TOPIC, **given) -> FetchRequest:
    topics = [FetchTopic(topic=topic, partitions=list(partitions))] if partitions else []
    return made(FetchRequest, 12, topics=topics, **{"max_bytes": 1 << 20, **given})


def piece(offset: int = 0, index: int = 0, **given) -> FetchPartition:
    return made(
        FetchPartition,
        12,
        **{
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            **given,
        },
    )


@pytest.mark.parametrize("offset", [-1, -2, -(2**63), 1 << 40, INT64_MAX])
def test_ma1_offset_out_of_range_is_refused(broker, offset):
    assert codes(ask(broker.address, fetch(piece(offset)), 12)) == {"OFFSET_OUT_OF_RANGE"}


@pytest.mark.parametrize("size", [0, -1, -(2**31), INT32_MAX])
def test_ma1_extreme_fetch_limits_take_bounded_memory(broker, size):
    """The response has only complete batches, and does not wait for data that cannot arrive."""
    assert produced(broker, batch()) == OK
    broker.forget_peak()
    before = broker.peak_kib()
    asked = fetch(
        piece(partition_max_bytes=size), max_bytes=size, min_bytes=1, max_wait_ms=min(size, 0)
    )
    assert codes(ask(broker.address, asked, 12)) == OK
    assert broker.peak_kib() - before < 8 << 10


def test_ma1_longest_fetch_ends_with_its_connection(broker):
    end = end_offset(broker)
    asked = fetch(piece(end), min_bytes=INT32_MAX, max_wait_ms=INT32_MAX)
    for _ in range(50):
        with connected(broker.address) as peer:
            peer.send(frame_of(asked, 12))
    broker.assert_serves()


@pytest.mark.parametrize(
    ("session_id", "epoch", "expected"),
    [
        (12345, 1, "FETCH_SESSION_ID_NOT_FOUND"),
        (12345, INT32_MAX, "FETCH_SESSION_ID_NOT_FOUND"),
        (-5, 7, "FETCH_SESSION_ID_NOT_FOUND"),
        (0, 7, "FETCH_SESSION_ID_NOT_FOUND"),
    ],
)
def test_ma2_unknown_fetch_session_is_refused(broker, session_id, epoch, expected):
    asked = fetch(piece(), session_id=session_id, session_epoch=epoch)
    assert codes(ask(broker.address, asked, 12)) == {expected}


def test_ma2_wrong_session_epoch_is_refused(broker):
    with connected(broker.address) as peer:
        session = peer.ask(fetch(piece(), session_epoch=0), 12).session_id
        assert session != 0
        wrong = fetch(session_id=session, session_epoch=9)
        assert codes(peer.ask(wrong, 12)) == {"INVALID_FETCH_SESSION_EPOCH"}
        forgetting = fetch(
            session_id=session,
            session_epoch=1,
            forgotten_topics_data=[ForgottenTopic(topic="never-added", partitions=[0, 7])],
        )
        assert codes(peer.ask(forgetting, 12)) == OK


@pytest.mark.slow
def test_ma2_fetches_beyond_session_limit_are_served(broker):
    with connected(broker.address) as peer:
        for _ in range(3000):
            assert codes(peer.ask(fetch(piece(), session_epoch=0), 12)) == OK


@pytest.mark.parametrize("name", ["fetch", "list offsets", "offset for leader epoch"])
@pytest.mark.parametrize(
    ("epoch", "expected"), [(1 << 20, "UNKNOWN_LEADER_EPOCH"), (INT32_MAX, "UNKNOWN_LEADER_EPOCH")]
)
def test_ma3_future_leader_epoch_is_refused(broker, name, epoch, expected):
    if name == "fetch":
        response = ask(broker.address, fetch(piece(current_leader_epoch=epoch)), 12)
    elif name == "list offsets":
        partition = ListOffsetsPartition(
            partition_index=0, current_leader_epoch=epoch, timestamp=-1
        )
        topics = [ListOffsetsTopic(name=TOPIC, partitions=[partition])]
        response = ask(broker.address, ListOffsetsRequest(replica_id=-1, topics=topics), 5)
    else:
        one = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
        topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[one])]
        response = ask(broker.address, OffsetForLeaderEpochRequest(topics=topics), 3)
    assert codes(response) == {expected}


@pytest.mark.parametrize("replica_id", [11, 12, 99, INT32_MAX])
def test_ma4_client_pretending_to_be_replica_is_refused(cluster, broker, replica_id):
    """CVE-2018-1288: the offsets in its requests move neither the watermark nor the ISR."""
    asked = ProduceRequest(
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=TOPIC, partition_data=[PartitionProduceData(index=1, records=batch())]
            )
        ],
    )
    assert codes(ask(broker.address, asked, 9)) == OK
    end = end_offset(broker, index=1)
    topics = [
        FetchTopic(topic_id=cluster.topic_ids[TOPIC], partitions=[piece(end, 1), piece(end, 0)])
    ]
    fetching = made(FetchRequest, 15, topics=topics, max_bytes=1 << 20)
    fetching.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=1)
    found = codes(ask(broker.address, fetching, 15))
    assert found
    # Apache Kafka without an authorizer treats any client as a replica, and then finds that it is not one of the
    # partition
    assert found <= {"TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"}
    assert end_offset(broker, index=1) == end
    (topic,) = ask(
        broker.address, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 1
    ).topics
    assert [p.isr_nodes for p in topic.partitions] == [[broker.id], [broker.id]]


def test_me9_repeated_partition_is_harmless(broker):
    asked = fetch(*[piece(0, 0) for _ in range(1000)])
    assert codes(ask(broker.address, asked, 12)) - {"INVALID_REQUEST"} <= OK
    twice = ProduceRequest(
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=TOPIC,
                partition_data=[PartitionProduceData(index=0, records=batch()) for _ in range(2)],
            )
        ],
    )
    assert codes(ask(broker.address, twice, 9)) - {"INVALID_REQUEST"} <= OK
    listed = [ListOffsetsPartition(partition_index=0, timestamp=-1) for _ in range(2)]
    topics = [ListOffsetsTopic(name=TOPIC, partitions=listed)]
    response = ask(broker.address, ListOffsetsRequest(replica_id=-1, topics=topics), 4)
    assert codes(response) == {"INVALID_REQUEST"}


def test_me10_empty_requests_are_harmless(broker):
    """Empty arrays in every API that has one: each gets a response or ends the connection, without an internal
    error.
    """
    from tests.badinput.test_decoding import served
    from trimaran.wire.messages.registry import REQUESTS

    for key, version in served(broker):
        given = {"acks": 1} if key == 0 else {}  # with acks 0 there is no response
        found = codes(ask(broker.address, made(REQUESTS[key], version, **given), version))
        assert "UNKNOWN_SERVER_ERROR" not in found, REQUESTS[key].__name__


# Groups


def commit(partition: OffsetCommitRequestPartition, *, topic=TOPIC, group="g", **given):
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return made(OffsetCommitRequest, 2, group_id=group, topics=topics, **given)


def commits(broker, request, version=2) -> set[str]:
    """Sends the request once the group's coordinator serves; the first lookup creates its topic."""
    asked = made(FindCoordinatorRequest, 0, key=request.group_id)

    def answered():
        if codes(peer.ask(asked, 0)) != OK:
            return None
        found = codes(peer.ask(request, version))
        return None if found & {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"} else found

    with connected(broker.address) as peer:
        return until(answered, "an answer of the coordinator")


def test_ma7_too_long_offset_metadata_is_refused(broker):
    good = made(OffsetCommitRequestPartition, 2, committed_offset=5, committed_metadata="x" * 4096)
    assert commits(broker, commit(good)) == OK
    long = made(OffsetCommitRequestPartition, 2, committed_offset=5, committed_metadata="x" * 4097)
    assert commits(broker, commit(long)) == {"OFFSET_METADATA_TOO_LARGE"}


def test_ma7_commit_to_unknown_topic_is_refused(broker):
    one = made(OffsetCommitRequestPartition, 2, committed_offset=5)
    assert commits(broker, commit(one, topic="nowhere")) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    by_id = made(OffsetCommitRequest, 10, group_id="g")
    by_id.topics = [OffsetCommitRequestTopic(topic_id=b"\x09" * 16, partitions=[one])]
    assert commits(broker, by_id, 10) == {"UNKNOWN_TOPIC_ID"}


def test_ma7_commit_of_unknown_member_is_refused(broker):
    one = made(OffsetCommitRequestPartition, 2, committed_offset=5)
    stranger = commit(one, group="g2", member_id="me", generation_id_or_member_epoch=7)
    assert commits(broker, stranger) & {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"}


@pytest.mark.parametrize("retention_ms", [-2, 0, INT64_MAX, -(2**63)])
def test_ma7_extreme_retention_times_are_accepted(broker, retention_ms):
    one = made(OffsetCommitRequestPartition, 2, committed_offset=5)
    assert commits(broker, commit(one, retention_time_ms=retention_ms)) == OK


JOINS = {
    "session-too-short": ({"session_timeout_ms": 1}, "INVALID_SESSION_TIMEOUT"),
    "session-negative": ({"session_timeout_ms": -1}, "INVALID_SESSION_TIMEOUT"),
    "session-too-long": ({"session_timeout_ms": INT32_MAX}, "INVALID_SESSION_TIMEOUT"),
    "empty-group": ({"group_id": ""}, "INVALID_GROUP_ID"),
    "no-protocols": ({"protocols": []}, "INCONSISTENT_GROUP_PROTOCOL"),
    "no-protocol-type": ({"protocol_type": ""}, "INCONSISTENT_GROUP_PROTOCOL"),
    "unknown-member": ({"member_id": "nobody"}, "UNKNOWN_MEMBER_ID"),
}


@pytest.mark.parametrize(("given", "expected"), JOINS.values(), ids=JOINS)
def test_invalid_join_is_refused(broker, given, expected):
    values = {
        "group_id": "joined",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"")],
        **given,
    }
    one = made(OffsetCommitRequestPartition, 2, committed_offset=5)
    commits(broker, commit(one))  # the coordinator serves by now
    assert codes(ask(broker.address, made(JoinGroupRequest, 5, **values), 5)) == {expected}


# Administration


@pytest.mark.parametrize("producer_id", [-2, 5])
def test_ma8_producer_id_without_transaction_is_answered(broker, producer_id):
    asked = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1, producer_id=producer_id, producer_epoch=3
    )
    assert codes(ask(broker.address, asked, 4)) <= {
        "INVALID_REQUEST",
        "INVALID_PRODUCER_EPOCH",
        *OK,
    }


def alter(name: str, value: str | None, resource=TOPIC, kind=2, operation=0):
    configs = [AlterableConfig(name=name, config_operation=operation, value=value)]
    one = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[one], validate_only=False)


ALTERED = {
    "unknown-key": (alter("no.such.key", "1"), "INVALID_CONFIG"),
    "no-number": (alter("retention.ms", "soon"), "INVALID_CONFIG"),
    "out-of-range": (alter("max.message.bytes", "-1"), "INVALID_CONFIG"),
    "newline": (alter("cleanup.policy", "delete\ncompact"), "INVALID_CONFIG"),
    "null-value": (alter("retention.ms", None), "INVALID_REQUEST"),
    "huge-value": (alter("cleanup.policy", "x" * 32767), "INVALID_CONFIG"),
    "append-to-a-number": (alter("retention.ms", "1", operation=2), "INVALID_CONFIG"),
    "unknown-operation": (alter("retention.ms", "1", operation=9), "INVALID_REQUEST"),
    "unknown-topic": (alter("retention.ms", "1", "nowhere"), "UNKNOWN_TOPIC_OR_PARTITION"),
    "unknown-type": (alter("retention.ms", "1", kind=99), "INVALID_REQUEST"),
    "broker-that-is-no-number": (alter("log.cleaner.threads", "1", "x", kind=4), "INVALID_REQUEST"),
}


@pytest.mark.parametrize(("request_", "expected"), ALTERED.values(), ids=ALTERED)
def test_ma11_invalid_config_change_is_refused(broker, request_, expected):
    assert codes(ask(broker.address, request_, 1)) == {expected}


def test_ma11_described_configs_hide_secrets(broker):
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name="nowhere", configuration_keys=None)
    ]
    response = ask(broker.address, DescribeConfigsRequest(resources=resources), 4)
    assert codes(response) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    resources = [
        DescribeConfigsResource(
            resource_type=4, resource_name=str(broker.id), configuration_keys=None
        )
    ]
    (result,) = ask(broker.address, DescribeConfigsRequest(resources=resources), 4).results
    assert result.error_code == 0
    assert not [c.name for c in result.configs if c.is_sensitive and c.value is not None]
    assert not [c.name for c in result.configs if "password" in c.name and c.value is not None]
