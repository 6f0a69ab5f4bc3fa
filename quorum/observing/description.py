"""The state of a running quorum, ours or Apache Kafka's, as its leader describes it (DescribeQuorum: KIP-595, KIP-642).

Commands import this module at their start, because importing `live_quorum` costs more.
"""

from __future__ import annotations

from typing import Any

from trimaran.quorum.raft_log.partition import PARTITION, TOPIC
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.destinations import ControllerNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponsePartitionData,
    Node,
)


def describe_quorum(
    client: BlockingClient, *, timeout: float | None = None
) -> DescribeQuorumResponsePartitionData:
    """Returns the leader's description of the quorum; a partition with an error code if there is no leader.

    Raises:
        KafkaError: the request was refused.
        RemoteProtocolError: the response is not about the metadata partition.
    """
    return describe_quorum_and_nodes(client, timeout=timeout)[0]


def describe_quorum_and_nodes(
    client: BlockingClient, *, timeout: float | None = None
) -> tuple[DescribeQuorumResponsePartitionData, list[Node]]:
    """Returns the result of `describe_quorum`, and the voters' listeners if the leader names them (KIP-853)."""
    response = client.call(ControllerNode(), describe_quorum_request(), timeout=timeout)
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code), response.error_message or "")
    found: DescribeQuorumResponsePartitionData = metadata_partition_of(response.topics)
    return found, list(response.nodes)


def metadata_partition_of(topics: Any) -> Any:
    """Returns the metadata partition of a response; raises RemoteProtocolError if there is none."""
    return single_item(single_item(topics, "topic").partitions, "partition")


def describe_quorum_request() -> DescribeQuorumRequest:
    """Returns a DescribeQuorum request for the metadata partition (KIP-595, KIP-642). The leader answers it; brokers
    forward it.
    """
    partition = DescribeQuorumRequestPartitionData(partition_index=PARTITION)
    topic = DescribeQuorumRequestTopicData(topic_name=TOPIC, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])
