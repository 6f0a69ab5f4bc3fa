"""EndQuorumEpoch: a leader resigns."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.handlers.node_client import LEADER, leader_client, refusal
from trimaran.quorum.handlers.end_quorum_epoch import end_quorum_epoch
from trimaran.quorum.raft_log.partition import TOPIC
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
)


def end(epoch, *, leader=2, cluster_id=CLUSTER_ID):
    partition = EndQuorumEpochRequestPartitionData(
        partition_index=0, leader_id=leader, leader_epoch=epoch
    )
    topic = EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


@pytest.mark.parametrize(
    "topics", [[], [EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[])]]
)
def test_request_without_one_partition_is_invalid(topics):
    answer = refusal(end_quorum_epoch, EndQuorumEpochRequest(topics=topics))
    assert (answer.error_code, answer.topics) == (ErrorCode.INVALID_REQUEST, [])


async def test_end_of_past_epoch_changes_nothing(tmp_path):
    async with leader_client(tmp_path) as one:
        (partition,) = (await one.call(end(one.epoch - 1))).topics[0].partitions
        assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (partition.leader_id, partition.leader_epoch) == (LEADER, one.epoch)
        assert one.member.node.is_leader


async def test_request_of_another_cluster_is_refused(tmp_path):
    async with leader_client(tmp_path) as one:
        answer = await one.call(end(one.epoch, cluster_id="another"))
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
