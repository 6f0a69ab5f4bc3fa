"""BeginQuorumEpoch: a claim to lead, at a node that leads a later epoch."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.handlers.node_client import LEADER, leader_client, refusal
from trimaran.quorum.handlers.begin_quorum_epoch import begin_quorum_epoch
from trimaran.quorum.raft_log.partition import TOPIC
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)


def beginning(epoch, *, leader=LEADER, cluster_id=CLUSTER_ID):
    partition = BeginQuorumEpochRequestPartitionData(
        partition_index=0, leader_id=leader, leader_epoch=epoch
    )
    topic = BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])
    return BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=LEADER, topics=[topic])


@pytest.mark.parametrize(
    "topics", [[], [BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[])]]
)
def test_request_without_one_partition_is_invalid(topics):
    answer = refusal(begin_quorum_epoch, BeginQuorumEpochRequest(topics=topics))
    assert (answer.error_code, answer.topics) == (ErrorCode.INVALID_REQUEST, [])


async def test_stale_epoch_is_fenced_with_current_leader(tmp_path):
    async with leader_client(tmp_path) as one:
        (partition,) = (await one.call(beginning(one.epoch - 1))).topics[0].partitions
        assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (partition.leader_id, partition.leader_epoch) == (LEADER, one.epoch)
        assert one.member.node.is_leader


async def test_request_of_another_cluster_is_refused(tmp_path):
    async with leader_client(tmp_path) as one:
        answer = await one.call(beginning(one.epoch + 1, cluster_id="another"))
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert one.member.node.is_leader
