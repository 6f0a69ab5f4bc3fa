"""The request for the state of the quorum: DescribeQuorum of its one partition (KIP-595, KIP-642)."""

from __future__ import annotations

from trimaran.quorum.raft_log.partition import PARTITION, TOPIC
from trimaran.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)


def describe_quorum_request() -> DescribeQuorumRequest:
    """Its leader answers it, and brokers pass it on."""
    partition = DescribeQuorumRequestPartitionData(partition_index=PARTITION)
    topic = DescribeQuorumRequestTopicData(topic_name=TOPIC, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])
