"""Changes of a cluster: topics, configs, leaders, groups, committed offsets. Each sends one request, without
retries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, end_offset
from trimaran.errors.refused import Needs, check, check_group, check_resource, check_topic, no_topic
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NodeId, Offset, TopicPartition
from trimaran.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

TIMEOUT_MS = 30_000
SET, DELETE, APPEND, SUBTRACT = range(4)  # Kafka's AlterConfigOp
Change = tuple[str, int, str | None]


def create_topic(
    client: BlockingClient,
    name: str,
    partitions: int = -1,
    replication: int = -1,
    configs: Mapping[str, str] | None = None,
    *,
    validate_only: bool = False,
    timeout_ms: int = TIMEOUT_MS,
) -> Any:
    """Creates a topic; -1 means the default of the brokers. Returns the result for the topic. Raises KafkaError."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
    )
    request = CreateTopicsRequest(
        topics=[topic], timeout_ms=timeout_ms, validate_only=validate_only
    )
    result = single_item(client.call(None, request, retry_unknown=False).topics, "topic")
    check(result.error_code, result.error_message, needs=Needs("CREATE", topic=name))
    return result


def create_partitions(
    client: BlockingClient, name: str, count: int, *, validate_only: bool = False
) -> None:
    """Adds partitions to a topic, up to `count`. Raises KafkaError, and UserError if there is no such topic."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(
        topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    result = single_item(client.call(None, request, retry_unknown=False).results, "topic")
    check_topic(name, result.error_code, result.error_message, "ALTER")


def delete_topic(client: BlockingClient, name: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
    """Deletes a topic with all its records. Raises KafkaError, and UserError if there is no such topic."""
    if not delete_topic_if_known(client, name, timeout_ms=timeout_ms):
        raise no_topic(name)


def delete_topic_if_known(
    client: BlockingClient, name: str, *, timeout_ms: int = TIMEOUT_MS
) -> bool:
    """Deletes a topic with all its records; returns whether there was such a topic. Raises KafkaError."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=NIL_UUID)], timeout_ms=timeout_ms
    )
    result = single_item(client.call(None, request, retry_unknown=False).responses, "topic")
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    check_topic(name, result.error_code, result.error_message, "DELETE")
    return True


def alter_configs(
    client: BlockingClient,
    resource_type: int,
    name: str,
    changes: Sequence[Change],
    *,
    node: NodeId | None = None,
    validate_only: bool = False,
) -> None:
    """Alters configs; changes are names, operations and values; `node` serves the resource, None for any node.

    Raises:
        KafkaError: the change was refused.
        UserError: there is no such topic.
    """
    asked = AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=validate_only)
    result = single_item(client.call(node, request).responses, "resource")
    code, message = result.error_code, result.error_message
    check_resource(resource_type, name, code, message, "ALTER_CONFIGS")


def elect_leaders(
    client: BlockingClient, asked: Mapping[str, Sequence[int]] | None, *, unclean: bool = False
) -> dict[TopicPartition, str | None]:
    """Elects the preferred leaders of the given partitions by topic, None for all; with `unclean` any replica of a
    partition without a leader.

    Returns the partitions that needed an election, with None for success, else the error. Raises KafkaError.
    """
    partitions = None
    if asked is not None:
        partitions = [TopicPartitions(topic=t, partitions=list(p)) for t, p in asked.items()]
    request = ElectLeadersRequest(
        election_type=int(unclean), topic_partitions=partitions, timeout_ms=TIMEOUT_MS
    )
    response = client.call(None, request)
    check(response.error_code, None, needs=Needs("ALTER"))
    told: dict[TopicPartition, str | None] = {}
    for result in response.replica_election_results:
        for partition in result.partition_result:
            code = ErrorCode.of(partition.error_code)
            if code is not ErrorCode.ELECTION_NOT_NEEDED:
                failed = code is not ErrorCode.NONE
                said = partition.error_message or code.name
                told[TopicPartition(result.topic, partition.partition_id)] = (
                    said if failed else None
                )
    return told


def within_log(client: BlockingClient, where: TopicPartition, offset: Offset) -> Offset:
    """Returns the offset, moved to the nearest end of the log if it is outside, as in Kafka's tool."""
    low = end_offset(client, where, EARLIEST_TIMESTAMP)
    high = end_offset(client, where, LATEST_TIMESTAMP)
    return min(max(offset, low), high)


def commit_offsets(
    client: BlockingClient, group: str, wanted: Mapping[TopicPartition, Offset]
) -> None:
    """Commits offsets without being a member: the coordinator refuses while there are members."""
    if not wanted:
        return
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in wanted.items():
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=t, partitions=p) for t, p in by_topic.items()],
    )
    for topic in client.call(CoordinatorNode(group), request, version=8).topics:
        for partition in topic.partitions:
            check_idle(group, partition.error_code)
            where = f"{topic.name}-{partition.partition_index}"
            check(partition.error_code, None, where, Needs("READ", topic=topic.name, group=group))


def delete_group(client: BlockingClient, group: str) -> None:
    """Deletes a group with its offsets. Raises KafkaError, and UserError if it has members, or there is no such
    group.
    """
    response = client.call(CoordinatorNode(group), DeleteGroupsRequest(groups_names=[group]))
    result = single_item(response.results, "group")
    check_idle(group, result.error_code)
    check_group(group, result.error_code, result.error_message, "DELETE")


def ensure_idle(described: Mapping[str, Any]) -> None:
    """Raises UserError, as the coordinator would, if the described group has members."""
    code = ErrorCode.NON_EMPTY_GROUP if described["members"] else ErrorCode.NONE
    check_idle(str(described["group"]), code)


def check_idle(group: str, code: int) -> None:
    busy = {ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
    if code in busy:
        raise UserError(
            f"group {group} has members",
            "its members would overwrite the offsets, or lose their position",
            f"stop its consumers; trimaran groups describe {group} shows them",
            exit_code=Exit.REFUSED,
        )
