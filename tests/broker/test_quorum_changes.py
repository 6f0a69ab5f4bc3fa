"""Voters added and removed through a broker, which forwards the request, and kraft.version in a broker's ApiVersions
(KIP-853).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from tests.cluster.in_process import cluster, connected_to
from tests.cluster.nodes import CLUSTER_ID
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from trimaran.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from trimaran.wire.transport.client.node_connection import NodeConnection

SECONDS = 60.0


async def asked_until(connection: NodeConnection, request: Any, code: ErrorCode) -> None:
    """Retries until the leader has seen the voter's directory id or the voter has caught up."""
    with trio.fail_after(SECONDS):
        while (await connection.call(request, timeout=SECONDS)).error_code != code:  # noqa: ASYNC110
            await trio.sleep(0.05)


async def voters(connection: NodeConnection) -> dict[int, bytes]:
    answer: Any = await connection.call(describe_quorum_request(), timeout=SECONDS)
    found = answer.topics[0].partitions[0].current_voters
    return {voter.replica_id: voter.replica_directory_id for voter in found}


async def kraft_version(connection: NodeConnection) -> tuple[tuple[int, int], int]:
    """Returns (supported, finalized); 0 if there is none."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer: Any = await connection.call(request, timeout=SECONDS)
    supported = {
        supported_feature.name: (supported_feature.min_version, supported_feature.max_version)
        for supported_feature in answer.supported_features
    }
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert finalized["metadata.version"] > 0
    return supported["kraft.version"], finalized.get("kraft.version", 0)


async def test_voters_are_changed_through_a_broker(tmp_path: Path) -> None:
    async with cluster(
        tmp_path, controllers=2, controller_quorum_fetch_timeout_ms="300"
    ) as running:
        (broker,) = running.brokers.values()
        async with connected_to(broker) as connection:
            assert await kraft_version(connection) == ((0, 1), 0)
            update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
            upgrade = UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update])
            await asked_until(connection, upgrade, ErrorCode.NONE)
            with trio.fail_after(SECONDS):
                while await kraft_version(connection) != ((0, 1), 1):  # noqa: ASYNC110
                    await trio.sleep(0.02)
            both = await voters(connection)
            leader = running.controllers[1].node.leader.value.leader_id
            (other,) = set(both) - {leader}

            stranger = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=77, voter_directory_id=both[leader]
            )
            await asked_until(connection, stranger, ErrorCode.VOTER_NOT_FOUND)
            remove = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=other, voter_directory_id=both[other]
            )
            await asked_until(connection, remove, ErrorCode.NONE)
            assert set(await voters(connection)) == {leader}

            port = running.voters[other]
            add = AddRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                timeout_ms=5000,
                voter_id=other,
                voter_directory_id=both[other],
                listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=port)],
            )
            await asked_until(connection, add, ErrorCode.NONE)
            assert await voters(connection) == both
