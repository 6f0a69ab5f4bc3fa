"""`/admin/delete_topics/TOPIC`: topics that a tool marked for deletion.

Tools write no data. The mirror first stores the topic's id there and then deletes by id, so a topic that was created
again with this name meanwhile stays. Source: `TopicDeletionManager` of Kafka 2.8; the note is ours.
"""

from __future__ import annotations

from typing import Any

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.buffers.primitives import uuid_from_text, uuid_to_text
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.zkcompat.legacy.requests.admin_requests import (
    TIMEOUT_MS,
    AdminRequest,
    QuorumRequest,
    RequestKind,
    refusal,
)
from trimaran.zkcompat.tree.claim import TransactionStep

DELETE_TOPICS = "/admin/delete_topics"


def decide(path: str, data: bytes | None, image: MetadataImage) -> AdminRequest:
    """Returns the request of a child of `/admin/delete_topics`."""
    name = path.rpartition("/")[2]
    noted = _noted(data)
    topic = image.topics.by_name.get(name)
    topic_id = noted or (topic.id if topic is not None else None)
    description = f"delete topic {name}"
    cleanup = (TransactionStep("delete", path),)
    if topic_id is None:
        return AdminRequest(
            RequestKind.DELETION,
            description,
            refused=[f"{description}: no such topic"],
            cleanup=cleanup,
        )
    if noted and noted not in image.topics.by_id:
        return AdminRequest(RequestKind.DELETION, description, cleanup=cleanup)

    def refusals(response: Any) -> list[str]:
        (result,) = response.responses
        gone = ErrorCode.UNKNOWN_TOPIC_ID
        return refusal(description, result.error_code, result.error_message, gone)

    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=TIMEOUT_MS
    )
    return AdminRequest(
        RequestKind.DELETION,
        description,
        quorum_requests=[QuorumRequest(request, refusals)],
        claim=() if noted else (TransactionStep("set", path, uuid_to_text(topic_id).encode()),),
        cleanup=cleanup,
    )


def _noted(data: bytes | None) -> bytes | None:
    try:
        return uuid_from_text((data or b"").decode("ascii"))
    except ValueError:
        return None
