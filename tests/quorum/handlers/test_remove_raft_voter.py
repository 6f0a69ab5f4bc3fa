"""RemoveRaftVoter on a controller: `tests/quorum/test_dynamic_node.py` removes real voters."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.handlers.node_client import dynamic_leader_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.remove_raft_voter import RemoveRaftVoterRequest


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": 7}, ErrorCode.VOTER_NOT_FOUND),
        ({"voter_directory_id": b"d" * 16}, ErrorCode.VOTER_NOT_FOUND),
    ],
)
async def test_unknown_voters_are_not_removed(tmp_path, changes, code):
    async with dynamic_leader_client(tmp_path) as one:
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=1, voter_directory_id=b"\1" * 16
        )
        answer = await one.call(request.replace(**changes))
        assert ErrorCode(answer.error_code) is code
        assert one.member.node.voters.ids == (1,)
