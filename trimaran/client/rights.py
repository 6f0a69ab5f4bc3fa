"""The operations that this client may perform (KIP-430), so that a dry run is refused like the real operation.

A broker that does not report them checks only the real request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import Needs, check
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.security.acls import NOT_ASKED

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.security.acls import Operation


def ensure_may_change_group(described: Mapping[str, Any], operation: Operation) -> None:
    """Raises KafkaError as the coordinator would, if this client has no right to the operation on a group, which was
    described with the operations.
    """
    if not _includes(described["operations"], operation):
        check(
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            None,
            needs=Needs(operation.name, group=described["group"]),
        )


def ensure_may_change_topics(
    client: BlockingClient, topics: Iterable[str], operation: Operation
) -> None:
    """Raises KafkaError for the first topic for which this client has no right to the operation."""
    for topic in denied_topics(client, topics, operation):
        check(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, needs=Needs(operation.name, topic=topic))


def denied_topics(client: BlockingClient, topics: Iterable[str], operation: Operation) -> list[str]:
    """Returns the topics for which this client has no right to the operation, by name."""
    names = sorted(set(topics))
    if not names:
        return []
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    return [
        topic.name
        for topic in client.call(None, request).topics
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        or (not topic.error_code and not _includes(topic.topic_authorized_operations, operation))
    ]


def _includes(operations: int, operation: Operation) -> bool:
    return operations == NOT_ASKED or bool(operations >> operation & 1)
