"""Unauthorized clients of a controller are refused; `tests/test_access.py` lists the permissions of each request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.in_process import cluster, connected_to
from tests.cluster.nodes import SECONDS
from trimaran.node.config.security_keys import STANDARD_AUTHORIZER
from trimaran.quorum.raft_log.partition import TOPIC
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages import (
    broker_heartbeat,
    describe_cluster,
    describe_quorum,
    elect_leaders,
    remove_raft_voter,
    unregister_broker,
    vote,
)

NOBODY = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:admin",
}


def metadata_partition() -> list[describe_quorum.DescribeQuorumRequestTopicData]:
    partition = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
    return [
        describe_quorum.DescribeQuorumRequestTopicData(topic_name=TOPIC, partitions=[partition])
    ]


REQUESTS = (
    vote.VoteRequest(cluster_id=None, topics=[]),
    broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=1,
        current_metadata_offset=1,
        want_fence=False,
        want_shut_down=False,
    ),
    describe_quorum.DescribeQuorumRequest(topics=metadata_partition()),
    remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=None, voter_id=1, voter_directory_id=bytes(16)
    ),
    unregister_broker.UnregisterBrokerRequest(broker_id=1),
    elect_leaders.ElectLeadersRequest(topic_partitions=None, timeout_ms=1),
    describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=2
    ),
)


@pytest.mark.parametrize(
    ("keys", "refused"),
    [(NOBODY, True), (NOBODY | {"super_users": "User:ANONYMOUS"}, False), ({}, False)],
    ids=["nobody", "super user", "no authorizer"],
)
async def test_unauthorized_requests_are_refused(
    tmp_path: Any, keys: dict[str, object], refused: bool
) -> None:
    async with (
        cluster(tmp_path, brokers=0, **keys) as nodes,
        connected_to(await nodes.active()) as connection,
    ):
        for request in REQUESTS:
            answer: Any = await connection.call(request, timeout=SECONDS)
            was_refused = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert was_refused == refused, request


async def test_ordinary_user_waits_until_acls_are_loaded(tmp_path: Any) -> None:
    """Two voters that cannot authenticate to each other learn of no leader, and of no committed records."""
    async with (
        cluster(tmp_path, controllers=2, brokers=0, **NOBODY) as nodes,
        connected_to(nodes.controllers[1]) as connection,
    ):
        answer: Any = await connection.call(REQUESTS[0], timeout=SECONDS)
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
