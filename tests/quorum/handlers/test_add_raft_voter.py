"""AddRaftVoter on a controller: `tests/quorum/test_dynamic_node.py` adds real voters."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.handlers.node_client import dynamic_leader_client
from trimaran.wire.errors import MESSAGE_CHARS_MAX, ErrorCode
from trimaran.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener


def addition(**changes):
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=1000,
        voter_id=7,
        voter_directory_id=b"d" * 16,
        listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
    )
    return request.replace(**changes)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": 1, "voter_directory_id": b"\1" * 16}, ErrorCode.DUPLICATE_VOTER),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        ({}, ErrorCode.REQUEST_TIMED_OUT),  # the port refuses connections
    ],
)
async def test_invalid_voters_are_not_added(tmp_path, changes, code):
    async with dynamic_leader_client(tmp_path) as one:
        answer = await one.call(addition(**changes))
        assert ErrorCode(answer.error_code) is code
        assert one.member.node.voters.ids == (1,)


async def test_refusal_with_long_name_is_truncated(tmp_path):
    """That number of names of the maximum size is allowed, but not with other text around them."""
    listeners = [
        Listener(name=f"{n:02}".ljust(255, "n"), host="127.0.0.1", port=1) for n in range(32)
    ]
    async with dynamic_leader_client(tmp_path) as one:
        answer = await one.call(addition(listeners=listeners))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert len(answer.error_message) == MESSAGE_CHARS_MAX + 1
