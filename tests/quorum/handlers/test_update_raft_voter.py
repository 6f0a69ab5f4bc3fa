"""UpdateRaftVoter on a controller: a voter reports its endpoints and supported versions."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.handlers.node_client import LEADER, dynamic_leader_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
)


def update(epoch, **changes):
    request = UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=epoch,
        voter_id=1,
        voter_directory_id=b"\1" * 16,
        listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=4711)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    return request.replace(**changes)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": 7}, ErrorCode.VOTER_NOT_FOUND),
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 77}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        ({}, ErrorCode.INVALID_REQUEST),  # the update names the leader, which never sends one
    ],
)
async def test_invalid_voter_updates_are_refused(tmp_path, changes, code):
    async with dynamic_leader_client(tmp_path) as one:
        answer = await one.call(update(one.epoch, **changes))
        assert ErrorCode(answer.error_code) is code
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            assert answer.current_leader.leader_id == LEADER
