"""Classic groups and those of KIP-848 (consumer) as their coordinators describe them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import check_group
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from trimaran.wire.messages.consumer_protocol import decode_assignment, decode_topics
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.schema import Message

_CONSUMER = "consumer"


def classic_described(
    client: BlockingClient, group: str, *, with_operations: bool = False
) -> dict[str, Any] | None:
    """Returns a classic group; None for a dead group, since Kafka describes a missing group as dead. `topics` of a
    member are those that it subscribes to, which are not reported during a rebalance; None if the member is not a
    consumer, or its subscription is malformed.
    """
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=with_operations)
    response = client.call(CoordinatorNode(group), request)
    found = single_item(response.groups, "group")
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or found.group_state == "Dead":
        return None
    check_group(group, found.error_code, found.error_message)
    return {
        **operations_of(found, asked=with_operations),
        "state": found.group_state,
        "protocol_type": found.protocol_type,
        "epoch": None,
        "assignment_epoch": None,
        "assignor": found.protocol_data,
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "epoch": None,
                "topics": _subscribed(found.protocol_type, member.member_metadata),
                "assignment": _classic_assignment(found.protocol_type, member.member_assignment),
            }
            for member in found.members
        ],
    }


def _classic_assignment(protocol_type: str, data: bytes) -> dict[str, list[int]]:
    """Returns the assignment of a consumer; other protocols have formats of their own in these bytes."""
    if protocol_type != _CONSUMER:
        return {}
    try:
        assigned = decode_assignment(data).assigned_partitions
    except RemoteProtocolError:
        return {}
    return {topic.topic: list(topic.partitions) for topic in assigned}


def _subscribed(protocol_type: str, data: bytes) -> list[str] | None:
    """Returns the topics with which a consumer joined; None for other protocols, or if they cannot be read."""
    if protocol_type != _CONSUMER:
        return None
    try:
        return sorted(decode_topics(data)) if data else []
    except RemoteProtocolError:
        return None


def consumer_described(
    client: BlockingClient, group: str, *, with_operations: bool = False
) -> dict[str, Any] | None:
    """Returns a group of the consumer protocol; None if there is no such group. `topics` of a member are those that it
    subscribes to by their names.
    """
    return described(
        client, group, ConsumerGroupDescribeRequest, _consumer, with_operations=with_operations
    )


def described(
    client: BlockingClient,
    group: str,
    request: type[Message],
    member_row: Callable[[Any], dict[str, Any]],
    *,
    with_operations: bool,
) -> dict[str, Any] | None:
    """Returns the group from one of the describing requests of KIP-848, KIP-932 and KIP-1071, with a row for each
    member; None if there is no group of that kind, or the brokers do not support it.
    """
    found = found_group(client, group, request, include_authorized_operations=with_operations)
    if found is None:
        return None
    return {
        **operations_of(found, asked=with_operations),
        "state": found.group_state,
        "epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "assignor": found.assignor_name,
        "members": [member_row(member) for member in found.members],
    }


def found_group(
    client: BlockingClient, group: str, request: type[Message], **options: bool
) -> Any | None:
    """Returns the `DescribedGroup`; None if there is no group of that kind, or the brokers do not support it."""
    asked = request(group_ids=[group], **{"include_authorized_operations": False, **options})
    try:
        found = single_item(client.call(CoordinatorNode(group), asked).groups, "group")
    except VersionMismatch:
        return None
    if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check_group(group, found.error_code, found.error_message)
    return found


def operations_of(found: Any, *, asked: bool) -> dict[str, int]:
    """Returns the operations on a group that this client may perform (`rights`), if the request was for them."""
    return {"operations": int(found.authorized_operations)} if asked else {}


def _consumer(member: Any) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "epoch": member.member_epoch,
        "topics": sorted(member.subscribed_topic_names),
        "assignment": partitions_of(member.assignment),
    }


def partitions_of(assignment: Any) -> dict[str, list[int]]:
    """Returns the partitions of an assignment by topic."""
    return {topic.topic_name: list(topic.partitions) for topic in assignment.topic_partitions}


def owners(described_group: Mapping[str, Any]) -> dict[TopicPartition, Mapping[str, Any]]:
    """Returns the member by topic and partition."""
    return {
        TopicPartition(topic, partition): member
        for member in described_group["members"]
        for topic, partitions in member["assignment"].items()
        for partition in partitions
    }


def ensure_not_consumed(described_group: Mapping[str, Any], topics: Collection[str]) -> None:
    """Raises KafkaError, as OffsetDelete would, if members subscribe to one of the topics, or are not consumers. A
    member with a malformed subscription may subscribe to any topic (`ClassicGroup.isSubscribedToTopic` of Kafka). While
    a classic group rebalances, only its coordinator knows the topics.
    """
    members = described_group["members"]
    if any(member["topics"] is None for member in members):
        if described_group["protocol_type"] != _CONSUMER:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {described_group['group']}")
        refuse_consumed(topics, topics)
    consumed = {topic for member in members for topic in member["topics"]}
    consumed |= {
        topic for member in members for topic in member["assignment"]
    }  # also topics that match a pattern
    refuse_consumed(topics, consumed)


def refuse_consumed(topics: Collection[str], consumed: Collection[str]) -> None:
    """Raises KafkaError GROUP_SUBSCRIBED_TO_TOPIC for the first of the topics that is consumed."""
    for topic in sorted(set(topics) & set(consumed)):
        raise KafkaError(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, f"topic {topic}")
