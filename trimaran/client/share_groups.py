"""Share groups (KIP-932): members, and the start offsets of their partitions.

The lag comes from the coordinator (KIP-1226): records after the start offset may be acknowledged already, so it does
not follow from the end of the partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from trimaran.client import changes
from trimaran.client.consumer_groups import described, partitions_of
from trimaran.client.group_offsets import lag_in_records, of_coordinator
from trimaran.errors.refused import Needs, check, check_group
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_OFFSET, Offset, TopicPartition
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from trimaran.wire.messages.share_group_describe import ShareGroupDescribeRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


def share_described(
    client: BlockingClient, group: str, *, with_operations: bool = False
) -> dict[str, Any] | None:
    """Returns a share group; None if there is no such group."""
    return described(
        client, group, ShareGroupDescribeRequest, _member, with_operations=with_operations
    )


def _member(member: Any) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": None,
        "client": member.client_id,
        "host": member.client_host,
        "epoch": member.member_epoch,
        "rack": member.rack_id,
        "topics": list(member.subscribed_topic_names),
        "assignment": partitions_of(member.assignment),
    }


def no_owners(_described: Mapping[str, Any]) -> dict[TopicPartition, Mapping[str, Any]]:
    """Returns nothing: several members read the same partition."""
    return {}


def ensure_idle(described_group: Mapping[str, Any], _topics: Collection[str]) -> None:
    """Raises UserError, as the coordinator would, if the group has members."""
    changes.ensure_idle(described_group)


def start_rows(client: BlockingClient, described_group: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row for each partition of the group. `committed` is its start offset: None if nothing was delivered
    yet, or it cannot be read. The lag is None if it is unknown.
    """
    told = _reported_offsets(client, described_group["group"])
    rows = lag_in_records(
        client, {place: reported.start_offset for place, reported in told.items()}
    )
    for row in rows:
        reported = told[TopicPartition(row["topic"], row["partition"])]
        if reported.start_offset < 0:
            row["committed"] = None
        row["lag"] = reported.lag if reported.lag >= 0 else None
    return rows


def start_offsets(
    client: BlockingClient, described_group: Mapping[str, Any]
) -> dict[TopicPartition, Offset]:
    """Returns the start offsets, `NO_OFFSET` where nothing was delivered yet."""
    return {
        place: max(told.start_offset, NO_OFFSET)
        for place, told in _reported_offsets(client, described_group["group"]).items()
    }


def _reported_offsets(client: BlockingClient, group: str) -> dict[TopicPartition, Any]:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    response = of_coordinator(client, group, DescribeShareGroupOffsetsRequest(groups=[asked]))
    check_group(group, response.error_code, response.error_message)
    return {
        TopicPartition(topic.topic_name, partition.partition_index): partition
        for topic in response.topics
        for partition in topic.partitions
    }


def set_start_offsets(
    client: BlockingClient, group: str, wanted: Mapping[TopicPartition, Offset]
) -> None:
    """Sets start offsets; all records from there on are delivered again. Raises KafkaError, and UserError if the group
    has members.
    """
    if not wanted:
        return
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), offset in sorted(wanted.items()):
        by_topic.setdefault(topic, []).append(
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        )
    request = AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )
    response = client.call(CoordinatorNode(group), request)
    changes.check_idle(group, response.error_code)
    check_group(group, response.error_code, response.error_message, "READ")
    for told in response.responses:
        for partition in told.partitions:
            where = f"{told.topic_name}-{partition.partition_index}"
            needs = Needs("READ", topic=told.topic_name)
            check(partition.error_code, partition.error_message, where, needs)


def delete_positions(
    client: BlockingClient, group: str, partitions: Collection[TopicPartition]
) -> int:
    """Deletes the start offsets of all partitions of the topics, and returns their number. Raises KafkaError, and
    UserError if the group has members.
    """
    topics = sorted({topic for topic, _ in partitions})
    known = _reported_offsets(client, group)
    request = DeleteShareGroupOffsetsRequest(
        group_id=group,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
    )
    response = client.call(CoordinatorNode(group), request)
    changes.check_idle(group, response.error_code)
    check_group(group, response.error_code, response.error_message, "DELETE")
    for told in response.responses:
        if told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise _no_offsets(group, told.topic_name)
        needs = Needs("READ", topic=told.topic_name)
        check(told.error_code, told.error_message, f"topic {told.topic_name}", needs)
    return sum(topic in topics for topic, _ in known)


def _no_offsets(group: str, topic: str) -> UserError:
    return UserError(
        f"group {group} has no offsets in {topic}",
        "no member has subscribed to the topic, or the offsets are deleted already",
        f"trimaran groups describe {group} shows its offsets",
        exit_code=Exit.REFUSED,
    )
