"""DescribeQuorum through a broker: answered by the quorum's leader."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.wire.errors import ErrorCode


async def test_leader_describes_voters_and_observer_broker(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(describe_quorum_request())
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (0, 1)
        assert [voter.replica_id for voter in partition.current_voters] == [1]
        assert [observer.replica_id for observer in partition.observers] == [11]
        assert [node.node_id for node in answer.nodes] == [1]


async def test_refusal_is_returned_at_top(tmp_path):
    answer = await refusal_by_controller(tmp_path, describe_quorum_request(), 2)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
