"""Routed calls as transcripts: the requests of the generator, given the outcomes of earlier ones."""

import pytest

from tests.wire.client.test_small_parts import metadata, routing
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.calls import Ask, Pause, error_codes, refresh, routed_call
from trimaran.wire.client.destinations import AnyNode, ControllerNode, CoordinatorNode, LeaderNode
from trimaran.wire.client.errors import ConnectionLost, ConnectRefused
from trimaran.wire.client.routing import Routing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from trimaran.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from trimaran.wire.messages.find_coordinator import FindCoordinatorResponse
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from trimaran.wire.messages.metadata import MetadataRequest

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
LIST = ListOffsetsRequest(replica_id=-1, topics=[])


def offsets(code: int) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, error_code=code)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


def play(steps, *outcomes):
    """Drives `steps`; each Ask gets the next of `outcomes`. Returns the asks (address, request) and the result."""
    asked, left, pauses = [], list(outcomes), 0
    step = next(steps)
    try:
        while True:
            if isinstance(step, Pause):
                pauses += 1
                assert step.seconds > 0
                step = steps.send(None)
                continue
            assert isinstance(step, Ask)
            asked.append((step.address, type(step.request).__name__))
            if not left:
                return asked, None, pauses
            outcome = left.pop(0)
            step = steps.throw(outcome) if isinstance(outcome, Exception) else steps.send(outcome)
    except StopIteration as stop:
        assert not left
        return asked, stop.value, pauses


def call(known, request, to, **options):
    return routed_call(known, request, to, ExponentialBackoff(uniform=lambda: 0.5), **options)


BOOT = ("boot", 1)
N1, N2 = ("n1", 1), ("n2", 2)


def test_leader_is_looked_up_once():
    known = routing()
    asked, result, _ = play(
        call(known, LIST, LeaderNode(TopicPartition("t", 0))), metadata([(1, 1)]), offsets(0)
    )
    assert asked == [(BOOT, "MetadataRequest"), (N1, "ListOffsetsRequest")]
    assert result == offsets(0)
    assert play(call(known, LIST, LeaderNode(TopicPartition("t", 0))), offsets(0))[0] == [
        (N1, "ListOffsetsRequest")
    ]


def test_wrong_leader_is_looked_up_after_pause():
    asked, result, pauses = play(
        call(routing(), LIST, LeaderNode(TopicPartition("t", 0))),
        metadata([(1, 1)]),
        offsets(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        metadata([(-1, 1)]),
        metadata([(2, 2)]),
        offsets(0),
    )
    assert [address for address, _ in asked] == [BOOT, N1, BOOT, BOOT, N2]
    assert pauses == 2
    assert result == offsets(0)


def test_errors_without_retry_are_returned():
    answer = offsets(ErrorCode.OFFSET_OUT_OF_RANGE)
    known = routing()
    known.update_metadata(metadata([(1, 1)]))
    assert play(call(known, LIST, LeaderNode(TopicPartition("t", 0))), answer)[1] == answer
    described = metadata([(-1, 3)], error=ErrorCode.LEADER_NOT_AVAILABLE)
    assert play(call(known, MetadataRequest(topics=[]), AnyNode()), described)[1] == described


def test_response_with_offline_log_directory_is_returned():
    offline = DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/d", topics=[]
    )
    answer = DescribeLogDirsResponse(results=[offline])
    assert (
        play(call(routing(), DescribeLogDirsRequest(topics=None), AnyNode()), answer)[1] == answer
    )


def test_lost_node_is_replaced_by_another():
    known = routing()
    known.update_metadata(metadata([(1, 1)]))
    asked, _, pauses = play(
        call(known, LIST, LeaderNode(TopicPartition("t", 0))),
        ConnectRefused("gone"),
        ConnectionLost("also gone"),
        metadata([(2, 2)]),
        offsets(0),
    )
    assert [address for address, _ in asked] == [N1, BOOT, N1, N2]
    assert pauses == 2


def test_non_idempotent_request_is_sent_once():
    known = routing()
    lost = ConnectionLost("sent, then silence")
    with pytest.raises(ConnectionLost):
        play(call(known, HEARTBEAT, AnyNode(), retry_unknown=False), lost)
    refused = ConnectRefused("never sent")
    _asked, result, _ = play(
        call(known, HEARTBEAT, AnyNode(), retry_unknown=False), refused, HeartbeatResponse()
    )
    assert result == HeartbeatResponse()


@pytest.mark.parametrize(
    ("key_type", "message", "told"),
    [
        (0, None, "group g"),
        (1, "Group authorization failed.", "transactional id g"),
        (0, "Group g is closed.", "Group g is closed."),
    ],
)
def test_missing_coordinator_is_not_requested_again(key_type, message, told):
    """Without the right to describe a group, a client would wait for the coordinator until the deadline."""
    denied = FindCoordinatorResponse(
        error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
        error_message=message,
        node_id=-1,
        host="",
        port=-1,
    )
    with pytest.raises(KafkaError) as caught:
        play(call(routing(), HEARTBEAT, CoordinatorNode("g", key_type)), denied)
    assert str(caught.value) == f"GROUP_AUTHORIZATION_FAILED: {told}"


def test_moved_coordinator_is_looked_up_again():
    where = [FindCoordinatorResponse(node_id=i, host=f"n{i}", port=i) for i in (1, 2)]
    asked, _result, _ = play(
        call(routing(), HEARTBEAT, CoordinatorNode("g")),
        FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
        where[0],
        HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR),
        where[1],
        HeartbeatResponse(),
    )
    assert [address for address, _ in asked] == [BOOT, BOOT, N1, BOOT, N2]
    assert asked[0][1] == "FindCoordinatorRequest"


def test_controllers_are_found_by_describe_cluster():
    known = Routing(routing().bootstrap, of_controllers=True)
    nodes = [DescribeClusterBroker(broker_id=i, host=f"n{i}", port=i) for i in (1, 2)]
    cluster = DescribeClusterResponse(cluster_id="c", controller_id=2, brokers=nodes)
    asked, _, _ = play(call(known, HEARTBEAT, ControllerNode()), cluster, HeartbeatResponse())
    assert asked == [(BOOT, "DescribeClusterRequest"), (N2, "HeartbeatRequest")]


def test_refresh_tries_nodes_until_one_answers():
    known = routing()
    answer = metadata([(1, 1)])
    steps = refresh(known, ["t"], ExponentialBackoff(uniform=lambda: 0.5))
    _asked, result, pauses = play(steps, ConnectionLost("x"), answer)
    assert (result, pauses) == (answer, 1)
    assert known.leader(TopicPartition("t", 0)).leader_id == 1


def test_error_codes_are_found_at_any_depth():
    assert list(error_codes(offsets(3))) == [3]
    assert list(error_codes(HeartbeatResponse(error_code=25))) == [25]
    assert list(error_codes(metadata([(1, 1)], error=5))) == [5]
    assert list(error_codes(metadata([(1, 1)]))) == []
