"""DescribeQuorum on a controller: the progress of all replicas, as the leader knows it."""

import pytest

from tests.quorum.handlers.node_client import leader_client
from trimaran.quorum.handlers.describe_quorum import describe_quorum
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.quorum.raft_log.partition import TOPIC
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)


@pytest.mark.parametrize(
    "topics", [[], [DescribeQuorumRequestTopicData(topic_name=TOPIC, partitions=[])]]
)
def test_request_without_one_partition_is_invalid(topics):
    answer = describe_quorum(DescribeQuorumRequest(topics=topics), None, None)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_quorum_of_other_topic_is_unknown():
    partition = DescribeQuorumRequestPartitionData(partition_index=3)
    topic = DescribeQuorumRequestTopicData(topic_name="orders", partitions=[partition])
    answer = describe_quorum(DescribeQuorumRequest(topics=[topic]), None, None)
    found = answer.topics[0].partitions[0]
    assert (found.partition_index, found.error_code) == (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_leader_describes_progress_of_all(tmp_path, version):
    async with leader_client(tmp_path) as one:
        answer = await one.call(describe_quorum_request(), version)
        (found,) = answer.topics[0].partitions
        assert (found.leader_id, found.leader_epoch, found.high_watermark) == (1, 1, 2)
        assert [(voter.replica_id, voter.log_end_offset) for voter in found.current_voters] == [
            (1, 2)
        ]
        assert [node.node_id for node in answer.nodes] == ([1] if version >= 2 else [])
