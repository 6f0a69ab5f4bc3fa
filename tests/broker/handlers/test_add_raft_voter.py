"""AddRaftVoter through a broker; for a voter that returns see `tests/broker/test_quorum_changes.py`."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from tests.cluster.nodes import CLUSTER_ID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener

ADDITION = AddRaftVoterRequest(
    cluster_id=CLUSTER_ID,
    timeout_ms=1000,
    voter_id=2,
    voter_directory_id=b"d" * 16,
    listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
)


async def test_static_quorum_refuses_to_add_voters(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(ADDITION)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_voter_of_another_cluster_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(ADDITION.replace(cluster_id="another"))
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


async def test_refusal_is_returned(tmp_path):
    answer = await refusal_by_controller(tmp_path, ADDITION, 1)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
