"""Groups of every kind in one form: state, epoch, assignor, and the members with their assignments.

Classic groups and those of KIP-848 (consumer), KIP-932 (share) and KIP-1071 (streams) each have their own request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import check, no_group
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from trimaran.wire.messages.consumer_protocol import decode_assignment
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.share_group_describe import ShareGroupDescribeRequest
from trimaran.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.schema import Message


def group_described(client: BlockingClient, group: str) -> dict[str, Any]:
    """Returns kind, state, epoch, assignor, coordinator and members of a group. Raises UserError if there is no such
    group.

    Each member has its `assignment`: partitions by topic, or for Streams tasks by subtopology.
    """
    for kind, describe in _KINDS.items():
        found = describe(client, group)
        if found is not None:
            address = client.routing.locate(CoordinatorNode(group))
            nodes = {where: node for node, where in client.routing.nodes.items()}
            return {
                "group": group,
                "type": kind,
                **found,
                "coordinator": None if address is None else nodes.get(address),
                "coordinator_address": None if address is None else f"{address[0]}:{address[1]}",
            }
    raise no_group(group)


def owners_of(described: Mapping[str, Any]) -> dict[TopicPartition, Mapping[str, Any]]:
    """Returns the member by topic and partition; empty if partitions have no single member (share), or are tasks
    (streams).
    """
    if described["type"] not in ("classic", "consumer"):
        return {}
    return {
        TopicPartition(topic, partition): member
        for member in described["members"]
        for topic, partitions in member["assignment"].items()
        for partition in partitions
    }


def _classic(client: BlockingClient, group: str) -> dict[str, Any] | None:
    """Returns a classic group; None for a dead group, since Kafka describes a missing group as dead."""
    response = client.call(CoordinatorNode(group), DescribeGroupsRequest(groups=[group]))
    found = single_item(response.groups, "group")
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or found.group_state == "Dead":
        return None
    check(found.error_code, found.error_message)
    return {
        "state": found.group_state,
        "epoch": None,
        "assignor": found.protocol_data,
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "epoch": None,
                "assignment": _classic_assignment(found.protocol_type, member.member_assignment),
            }
            for member in found.members
        ],
    }


def _classic_assignment(protocol_type: str, data: bytes) -> dict[str, list[int]]:
    """Returns the assignment of a consumer; other protocols have formats of their own in these bytes."""
    if protocol_type != "consumer" or not data:
        return {}
    try:
        assigned = decode_assignment(data).assigned_partitions
    except RemoteProtocolError:
        return {}
    return {topic.topic: list(topic.partitions) for topic in assigned}


def _modern(client: BlockingClient, group: str, request: type[Message]) -> dict[str, Any] | None:
    """Returns the group from one of the describing requests; None if there is no group of that kind, or the brokers do
    not support it.
    """
    asked = request(group_ids=[group], include_authorized_operations=False)
    try:
        found = single_item(client.call(CoordinatorNode(group), asked).groups, "group")
    except VersionMismatch:
        return None
    if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(found.error_code, found.error_message)
    return {
        "state": found.group_state,
        "epoch": found.group_epoch,
        "assignor": getattr(found, "assignor_name", None),
        "members": [
            {
                "member": member.member_id,
                "instance": getattr(member, "instance_id", None),
                "client": member.client_id,
                "host": member.client_host,
                "epoch": member.member_epoch,
                "assignment": _assignment(member.assignment),
            }
            for member in found.members
        ],
    }


def _assignment(given: Any) -> dict[str, list[int]]:
    """Returns partitions by topic, or the tasks of a Streams member by subtopology."""
    if hasattr(given, "active_tasks"):
        return {task.subtopology_id: list(task.partitions) for task in given.active_tasks}
    return {topic.topic_name: list(topic.partitions) for topic in given.topic_partitions}


def _consumer(client: BlockingClient, group: str) -> dict[str, Any] | None:
    return _modern(client, group, ConsumerGroupDescribeRequest)


def _share(client: BlockingClient, group: str) -> dict[str, Any] | None:
    return _modern(client, group, ShareGroupDescribeRequest)


def _streams(client: BlockingClient, group: str) -> dict[str, Any] | None:
    return _modern(client, group, StreamsGroupDescribeRequest)


_KINDS = {"classic": _classic, "consumer": _consumer, "share": _share, "streams": _streams}
