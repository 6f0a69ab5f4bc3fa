"""Sections 4.2 (mE10) and 4.4 (mA13, mA14, mA16): complete requests that make no sense, sent to a controller."""

import pytest

from tests.badinput.made import made
from tests.badinput.nodes import TOPIC
from tests.badinput.peer import CLOSED, ask, codes
from tests.badinput.test_decoding import served
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from trimaran.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from trimaran.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from trimaran.wire.messages.controller_registration import ControllerRegistrationRequest
from trimaran.wire.messages.default_principal_data import DefaultPrincipalData
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.messages.describe_quorum import DescribeQuorumRequest
from trimaran.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    ReplicaInfo,
)
from trimaran.wire.messages.envelope import EnvelopeRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from trimaran.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
)
from trimaran.wire.messages.header import encode_request
from trimaran.wire.messages.registry import REQUESTS
from trimaran.wire.messages.vote import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData

pytestmark = pytest.mark.cluster

METADATA = "__cluster_metadata"
METADATA_ID = bytes(15) + b"\x01"
INT32_MAX = 2**31 - 1


def epoch_of(controller) -> int:
    (answer,) = ask(controller.address, describe_quorum_request(), 0).topics
    (partition,) = answer.partitions
    assert partition.leader_id == controller.id
    return partition.leader_epoch


@pytest.fixture
def same_epoch(controller):
    """No request of a non-voter ends the leader's epoch."""
    before = epoch_of(controller)
    yield controller
    assert epoch_of(controller) == before


# Quorum


def vote(**given) -> VoteRequest:
    top = {key: given.pop(key) for key in ("cluster_id", "voter_id") if key in given}
    partition = made(VoteRequestPartitionData, 2, **given)
    topic = VoteRequestTopicData(topic_name=METADATA, partitions=[partition])
    return VoteRequest(topics=[topic], **top)


def begin(**given) -> BeginQuorumEpochRequest:
    top = {key: given.pop(key) for key in ("cluster_id",) if key in given}
    partition = made(BeginQuorumEpochRequestPartitionData, 1, **given)
    topic = BeginQuorumEpochRequestTopicData(topic_name=METADATA, partitions=[partition])
    return BeginQuorumEpochRequest(topics=[topic], **top)


def end(**given) -> EndQuorumEpochRequest:
    top = {key: given.pop(key) for key in ("cluster_id",) if key in given}
    partition = made(EndQuorumEpochRequestPartitionData, 1, **given)
    topic = EndQuorumEpochRequestTopicData(topic_name=METADATA, partitions=[partition])
    return EndQuorumEpochRequest(topics=[topic], **top)


def snapshot(cluster_id=None, name=METADATA, **given) -> FetchSnapshotRequest:
    values = {"partition": 0, "current_leader_epoch": 1, "position": 0, **given}
    offset = values.pop("end_offset", 10)
    snapshot_id = FetchSnapshotRequestSnapshotId(end_offset=offset, epoch=1)
    partition = FetchSnapshotRequestPartitionSnapshot(snapshot_id=snapshot_id, **values)
    topic = FetchSnapshotRequestTopicSnapshot(name=name, partitions=[partition])
    return FetchSnapshotRequest(cluster_id=cluster_id, topics=[topic])


def fetch(cluster_id=None, **given) -> FetchRequest:
    partition = made(FetchPartition, 17, **{"partition_max_bytes": 1000, **given})
    topic = FetchTopic(topic_id=METADATA_ID, partitions=[partition])
    request = made(FetchRequest, 17, topics=[topic], max_bytes=1000, cluster_id=cluster_id)
    request.replica_state = ReplicaState(replica_id=77)
    return request


OTHER = {"cluster_id": "AAAAAAAAAAAAAAAAAAAAAA"}


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (vote(**OTHER), 2),
        (begin(**OTHER), 1),
        (end(**OTHER), 1),
        (snapshot(**OTHER), 1),
        (fetch(**OTHER), 17),
    ],
    ids=["vote", "begin", "end", "snapshot", "fetch"],
)
def test_ma14_request_of_another_cluster_is_refused(same_epoch, request_, version):
    assert codes(ask(same_epoch.address, request_, version)) == {"INCONSISTENT_CLUSTER_ID"}


@pytest.mark.parametrize("voter_id", [2, 99, INT32_MAX])
def test_ma14_vote_for_another_voter_is_refused(same_epoch, voter_id):
    """The voter key is not this node's, and the candidate is not a voter, either."""
    asked = vote(
        voter_id=voter_id,
        replica_epoch=epoch_of(same_epoch) + 1,
        replica_id=5,
        last_offset=1,
        last_offset_epoch=1,
        pre_vote=False,
    )
    assert codes(ask(same_epoch.address, asked, 2)) <= {"INVALID_REQUEST", "INVALID_VOTER_KEY"}


@pytest.mark.parametrize("epoch", [-1, -(2**31)])
def test_ma14_vote_without_valid_epoch_is_refused(same_epoch, epoch):
    asked = vote(replica_epoch=epoch, replica_id=5, last_offset=1, last_offset_epoch=0)
    assert codes(ask(same_epoch.address, asked, 2)) & {"INVALID_REQUEST", "FENCED_LEADER_EPOCH"}


def test_ma14_pre_votes_of_last_epoch_change_nothing(same_epoch):
    asked = vote(
        replica_epoch=INT32_MAX, replica_id=5, last_offset=1, last_offset_epoch=1, pre_vote=True
    )
    response = ask(same_epoch.address, asked, 2)
    (partition,) = response.topics[0].partitions
    assert not partition.vote_granted


def test_ma14_unknown_leader_is_refused(same_epoch):
    asked = begin(leader_id=77, leader_epoch=0)
    assert codes(ask(same_epoch.address, asked, 1)) & {"FENCED_LEADER_EPOCH", "INVALID_REQUEST"}
    asked = end(leader_id=77, leader_epoch=0)
    assert codes(ask(same_epoch.address, asked, 1)) & {"FENCED_LEADER_EPOCH", "INVALID_REQUEST"}


@pytest.mark.parametrize("of_leader", [begin, end], ids=["begin", "end"])
def test_ma14_second_leader_of_epoch_is_refused(same_epoch, of_leader):
    """Apache Kafka's controller exits at this request: one packet to each controller stops the quorum."""
    asked = of_leader(leader_id=77, leader_epoch=epoch_of(same_epoch))
    assert codes(ask(same_epoch.address, asked, 1)) == {"INVALID_REQUEST"}


@pytest.mark.parametrize(("count", "answer"), [(990, "INVALID_REQUEST"), (20_000, "closed")])
def test_ma14_number_of_successors_is_bounded(same_epoch, count, answer):
    """A request with more successors than a quorum can have voters closes the connection."""
    epoch = epoch_of(same_epoch)
    successors = [
        ReplicaInfo(candidate_id=number, candidate_directory_id=bytes(16))
        for number in range(count)
    ]
    asked = end(leader_id=77, leader_epoch=epoch, preferred_candidates=successors)
    assert codes(ask(same_epoch.address, asked, 1)) == {answer}


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1, 1 << 40])
def test_ma14_fetch_beyond_log_end_moves_no_watermark(same_epoch, offset):
    """The leader returns the truncation offset to a non-voter; the fetch does not move the watermark."""
    epoch = epoch_of(same_epoch)
    asked = fetch(fetch_offset=offset, last_fetched_epoch=epoch, current_leader_epoch=epoch)
    found = codes(ask(same_epoch.address, asked, 17))
    assert found <= {"NONE", "INVALID_REQUEST"}


@pytest.mark.parametrize("epoch", [INT32_MAX, 1 << 20])
def test_ma14_fetch_in_future_epoch_is_refused(same_epoch, epoch):
    asked = fetch(fetch_offset=0, last_fetched_epoch=0, current_leader_epoch=epoch)
    assert codes(ask(same_epoch.address, asked, 17)) == {"UNKNOWN_LEADER_EPOCH"}


def test_ma14_fetch_of_missing_snapshot_is_refused(same_epoch):
    epoch = epoch_of(same_epoch)
    asked = snapshot(current_leader_epoch=epoch, end_offset=1 << 40)
    assert codes(ask(same_epoch.address, asked, 1)) == {"SNAPSHOT_NOT_FOUND"}
    asked = snapshot(current_leader_epoch=epoch, position=-1)
    assert codes(ask(same_epoch.address, asked, 1)) & {
        "SNAPSHOT_NOT_FOUND",
        "POSITION_OUT_OF_RANGE",
    }
    asked = snapshot(name="orders", current_leader_epoch=epoch)
    assert codes(ask(same_epoch.address, asked, 1)) == {"UNKNOWN_TOPIC_OR_PARTITION"}


EMPTY = {
    "vote": (VoteRequest(topics=[]), 2),
    "vote-no-partitions": (
        VoteRequest(topics=[VoteRequestTopicData(topic_name=METADATA, partitions=[])]),
        2,
    ),
    "begin": (BeginQuorumEpochRequest(topics=[]), 1),
    "end": (EndQuorumEpochRequest(topics=[]), 1),
    "snapshot": (FetchSnapshotRequest(topics=[]), 1),
    "snapshot-no-partitions": (
        FetchSnapshotRequest(
            topics=[FetchSnapshotRequestTopicSnapshot(name=METADATA, partitions=[])]
        ),
        1,
    ),
    "describe": (DescribeQuorumRequest(topics=[]), 2),
    "fetch": (made(FetchRequest, 17), 17),
}


@pytest.mark.parametrize(("request_", "version"), EMPTY.values(), ids=EMPTY)
def test_me10_empty_quorum_requests_are_refused(same_epoch, request_, version):
    """CVE-2026-83525: Apache Kafka's controller exits at an empty FetchSnapshot."""
    assert codes(ask(same_epoch.address, request_, version)) == {"INVALID_REQUEST"}


def test_me10_empty_requests_cause_no_server_error(same_epoch):
    for key, version in served(same_epoch):
        if REQUESTS[key].__name__ == "UnregisterBrokerRequest":
            continue
        found = codes(ask(same_epoch.address, made(REQUESTS[key], version), version))
        assert "UNKNOWN_SERVER_ERROR" not in found, REQUESTS[key].__name__


# Nodes that are not brokers


def registration(cluster, **given) -> BrokerRegistrationRequest:
    features = [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, low, high in given.pop("features", [("metadata.version", 1, 100)])
    ]
    listeners = [Listener(name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0)]
    values = {
        "broker_id": 500,
        "cluster_id": cluster.cluster_id,
        "incarnation_id": b"\x05" * 16,
        "listeners": listeners,
        "log_dirs": [b"\x06" * 16],
        **given,
    }
    return made(BrokerRegistrationRequest, 4, features=features, **values)


REGISTRATIONS = {
    "live-id": ({"broker_id": None}, "DUPLICATE_BROKER_REGISTRATION"),
    "other-cluster": (OTHER, "INCONSISTENT_CLUSTER_ID"),
    "no-metadata-version": ({"features": []}, "INVALID_REGISTRATION"),
    "old-metadata-version": ({"features": [("metadata.version", 1, 2)]}, "UNSUPPORTED_VERSION"),
}


@pytest.mark.parametrize(("given", "expected"), REGISTRATIONS.values(), ids=REGISTRATIONS)
def test_ma16_invalid_registration_is_refused(cluster, same_epoch, given, expected):
    values = {k: cluster.broker.id if v is None else v for k, v in given.items()}
    request = registration(cluster, **values)
    assert codes(ask(same_epoch.address, request, 4)) == {expected}


@pytest.mark.parametrize("broker_id", [-1, -(2**31)])
def test_ma16_negative_broker_ids_are_refused(cluster, same_epoch, broker_id):
    """Apache Kafka registers such ids, although -1 means no node to readers."""
    found = codes(ask(same_epoch.address, registration(cluster, broker_id=broker_id), 4))
    assert found == {"INVALID_REGISTRATION"}


@pytest.mark.parametrize("epoch", [-1, 0, 2**63 - 1])
def test_ma16_heartbeat_of_another_epoch_is_refused(cluster, same_epoch, epoch):
    asked = made(
        BrokerHeartbeatRequest,
        broker_id=cluster.broker.id,
        broker_epoch=epoch,
        want_shut_down=True,
        want_fence=True,
    )
    assert codes(ask(same_epoch.address, asked, 1)) == {"STALE_BROKER_EPOCH"}
    asked.broker_id = 4711
    found = codes(ask(same_epoch.address, asked, 1))
    assert found <= {"BROKER_ID_NOT_REGISTERED", "STALE_BROKER_EPOCH"}


def test_ma16_unregistered_broker_gets_no_producer_ids(same_epoch):
    asked = AllocateProducerIdsRequest(broker_id=4711, broker_epoch=1)
    found = codes(ask(same_epoch.address, asked, 0))
    assert found <= {"BROKER_ID_NOT_REGISTERED", "STALE_BROKER_EPOCH"}


@pytest.mark.parametrize("isr", [[], [99], [11, 11], [-1]], ids=str)
def test_me10_isr_change_with_stale_epoch_is_refused(cluster, same_epoch, isr):
    partition = made(
        AlterPartitionRequestPartitionData,
        3,
        new_isr_with_epochs=[BrokerState(broker_id=replica) for replica in isr],
    )
    topic = AlterPartitionRequestTopicData(
        topic_id=cluster.topic_ids[TOPIC], partitions=[partition]
    )
    asked = AlterPartitionRequest(broker_id=cluster.broker.id, broker_epoch=1 << 40, topics=[topic])
    assert codes(ask(same_epoch.address, asked, 3)) == {"STALE_BROKER_EPOCH"}


def test_registration_of_unknown_controller_causes_no_error(same_epoch):
    asked = made(ControllerRegistrationRequest, controller_id=500, incarnation_id=b"\x01" * 16)
    found = codes(ask(same_epoch.address, asked, 0))
    assert "UNKNOWN_SERVER_ERROR" not in found


# Envelopes

PRINCIPAL = DefaultPrincipalData(type="User", name="ANONYMOUS", token_authenticated=False)


def envelope(inner: bytes, **given) -> EnvelopeRequest:
    values = {
        "request_principal": b"\0\0" + PRINCIPAL.encode(0),
        "client_host_address": bytes([127, 0, 0, 1]),
        **given,
    }
    return EnvelopeRequest(request_data=inner, **values)


def inner(request, version: int) -> bytes:
    return bytes(encode_request(request, version, 1, "x"))


def test_ma13_valid_envelope_is_answered(controller):
    """The envelope of the cases below is valid."""
    asked = envelope(inner(made(DeleteTopicsRequest, 5), 5))
    assert codes(ask(controller.address, asked, 0)) == {"NONE"}


ENVELOPES = {
    "nested": envelope(inner(envelope(b""), 0)),
    "not-forwardable": envelope(inner(made(VoteRequest, 2), 2)),
    "not-served": envelope(b"\x7f\xff\0\0\0\0\0\1\0\1x"),
    "empty": envelope(b""),
    "cut": envelope(inner(made(DeleteTopicsRequest, 5), 5)[:-1]),
    "address-of-no-size": envelope(
        inner(made(DeleteTopicsRequest, 5), 5), client_host_address=b"\x01\x02\x03"
    ),
}


@pytest.mark.parametrize("request_", ENVELOPES.values(), ids=ENVELOPES)
def test_ma13_invalid_envelope_is_refused(same_epoch, request_):
    found = codes(ask(same_epoch.address, request_, 0))
    assert found <= {"INVALID_REQUEST", CLOSED}
    assert found


PRINCIPALS = {
    "null": None,
    "empty": b"",
    "rubbish": b"\xff" * 10,
    "version": b"\0\x09" + PRINCIPAL.encode(0),
    "cut": (b"\0\0" + PRINCIPAL.encode(0))[:-3],
}


@pytest.mark.parametrize("principal", PRINCIPALS.values(), ids=PRINCIPALS)
def test_ma13_invalid_principal_is_refused(same_epoch, principal):
    asked = envelope(inner(made(DeleteTopicsRequest, 5), 5), request_principal=principal)
    assert codes(ask(same_epoch.address, asked, 0)) == {"PRINCIPAL_DESERIALIZATION_FAILURE"}
