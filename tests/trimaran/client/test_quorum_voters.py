"""Dry runs of changes of voters are refused as the changes would be, and what was done is reported."""

from contextlib import nullcontext

import pytest

from tests.trimaran.client.scripted import Client
from trimaran.cli import quorum_voters as cli
from trimaran.cli.connect import Controllers
from trimaran.client import quorum_voters
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey
from trimaran.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from trimaran.wire.messages.describe_quorum import (
    DescribeQuorumResponsePartitionData,
    ReplicaState,
)
from trimaran.wire.messages.unregister_controller import UnregisterControllerResponse

E = ErrorCode
CLUSTER, ONE, TWO, THREE = "cluster", b"1" * 16, b"2" * 16, b"3" * 16


def replica(node_id, directory_id, caught_up=5):
    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=directory_id,
        log_end_offset=5,
        last_fetch_timestamp=5,
        last_caught_up_timestamp=caught_up,
    )


def quorum(*observers, voters=((1, ONE), (2, TWO))):
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=1,
        leader_epoch=3,
        high_watermark=5,
        current_voters=[replica(*voter) for voter in voters],
        observers=list(observers),
    )


def client(*, code=0, kraft_version=1):
    """Returns a client of a cluster that describes itself unless `code` is the error."""
    key = FinalizedFeatureKey(
        name="kraft.version", max_version_level=kraft_version, min_version_level=0
    )
    return Client(
        DescribeClusterResponse(error_code=code, cluster_id=CLUSTER, brokers=[]),
        ApiVersionsResponse(api_keys=[], finalized_features=[key] if kraft_version else []),
    )


def refusal(call, *arguments):
    try:
        call(*arguments)
    except KafkaError as error:
        return error.code
    return E.NONE


@pytest.mark.parametrize(
    ("node", "observer", "code"),
    [
        ((CLUSTER, 3, THREE), replica(3, THREE), E.NONE),
        (("other", 3, THREE), replica(3, THREE), E.INCONSISTENT_CLUSTER_ID),
        ((CLUSTER, 2, THREE), replica(2, THREE), E.DUPLICATE_VOTER),
        ((CLUSTER, 3, THREE), replica(3, THREE, caught_up=0), E.REQUEST_TIMED_OUT),
        ((CLUSTER, 3, THREE), replica(3, TWO), E.REQUEST_TIMED_OUT),
        ((CLUSTER, 3, THREE), replica(4, THREE), E.REQUEST_TIMED_OUT),
    ],
)
def test_added_node_must_follow_the_quorum(node, observer, code):
    assert refusal(quorum_voters.ensure_addable, client(), quorum(observer), *node) is code


@pytest.mark.parametrize(
    ("voters", "node", "code"),
    [
        (((1, ONE), (2, TWO)), (2, TWO), E.NONE),
        (((1, ONE), (2, TWO)), (2, THREE), E.VOTER_NOT_FOUND),
        (((1, ONE), (2, TWO)), (3, TWO), E.VOTER_NOT_FOUND),
        (((1, ONE),), (1, ONE), E.VOTER_NOT_FOUND),
    ],
)
def test_removed_node_must_be_another_voter(voters, node, code):
    assert refusal(quorum_voters.ensure_removable, client(), quorum(voters=voters), *node) is code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"code": E.CLUSTER_AUTHORIZATION_FAILED}, E.CLUSTER_AUTHORIZATION_FAILED),
        ({"kraft_version": 0}, E.UNSUPPORTED_VERSION),
    ],
)
def test_voters_stay_without_right_or_feature(options, code):
    found = quorum(replica(3, THREE))
    asked = client(**options), found, CLUSTER, 3, THREE
    assert refusal(quorum_voters.ensure_addable, *asked) is code
    assert refusal(quorum_voters.ensure_removable, client(**options), found, 2, TWO) is code


@pytest.mark.parametrize(
    ("node_id", "code"),
    [(1, E.INVALID_REQUEST), (2, E.NONE), (3, E.CONTROLLER_ID_NOT_REGISTERED)],
)
def test_dry_run_refuses_what_the_controller_would(node_id, code):
    described = DescribeClusterResponse(
        cluster_id=CLUSTER,
        controller_id=1,
        brokers=[
            DescribeClusterBroker(broker_id=each, host="h", port=1, rack=None, is_fenced=False)
            for each in (1, 2)
        ],
    )
    assert refusal(quorum_voters.ensure_registered, Client(described), node_id) is code


def test_completed_change_is_reported_before_later_failures(monkeypatch, capsys):
    """After the removal, the quorum is described only for a hint."""
    later = KafkaError(E.REQUEST_TIMED_OUT, "no leader")
    answers = Client(UnregisterControllerResponse(error_message=None), later)
    monkeypatch.setattr(Controllers, "connected", lambda _: nullcontext(answers))
    with pytest.raises(KafkaError, match="no leader"):
        cli.unregister(4)
    assert capsys.readouterr().err == "done: unregister controller 4\n"
