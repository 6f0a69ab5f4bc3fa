"""Vote: malformed requests (mE10), and a leader's response to a vote request."""

from types import SimpleNamespace

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.handlers.node_client import LEADER, leader_client, refusal
from trimaran.node.replicated.pending import PendingResponse
from trimaran.quorum.handlers.vote import vote
from trimaran.quorum.raft_log.partition import TOPIC
from trimaran.quorum.replica.node import QuorumNode
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.vote import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData
from trimaran.wire.transport.scheduling.effects import Wait

CALL = SimpleNamespace(header=SimpleNamespace(api_version=2))


def topics(*names, partitions=1, index=0, epoch=1, last_offset=0):
    partition = VoteRequestPartitionData(
        partition_index=index,
        replica_epoch=epoch,
        replica_id=2,
        last_offset_epoch=0,
        last_offset=last_offset,
        pre_vote=False,
    )
    return [
        VoteRequestTopicData(topic_name=name, partitions=[partition] * partitions) for name in names
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        topics(TOPIC, partitions=0),
        topics(TOPIC, partitions=2),
        topics(TOPIC, TOPIC),
        topics("other"),
        topics(TOPIC, index=1),
    ],
)
def test_vote_without_one_partition_is_invalid(wrong):
    answer = refusal(vote, VoteRequest(topics=wrong))
    assert (answer.error_code, answer.topics) == (ErrorCode.INVALID_REQUEST, [])


def test_stopped_node_refuses_votes():
    stopped = SimpleNamespace(_driver=None)
    context = SimpleNamespace(
        node=SimpleNamespace(handle=lambda request: QuorumNode.handle(stopped, request))
    )
    with pytest.raises(KafkaError, match="does not run"):
        next(vote(VoteRequest(topics=topics(TOPIC)), context, CALL))


def test_vote_is_deferred_until_core_has_it():
    context = SimpleNamespace(node=SimpleNamespace(handle=lambda _request: PendingResponse()))
    effect = next(vote(VoteRequest(topics=topics(TOPIC)), context, CALL))
    assert isinstance(effect, Wait)
    assert not effect.ready()


async def test_leader_grants_no_vote_in_its_epoch(tmp_path):
    async with leader_client(tmp_path) as one:
        request = VoteRequest(
            cluster_id=CLUSTER_ID, voter_id=LEADER, topics=topics(TOPIC, epoch=one.epoch)
        )
        (partition,) = (await one.call(request)).topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch) == (LEADER, one.epoch)
        assert partition.vote_granted is False


async def test_request_of_another_cluster_is_refused(tmp_path):
    async with leader_client(tmp_path) as one:
        answer = await one.call(VoteRequest(cluster_id="another", topics=topics(TOPIC)))
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
