"""OffsetDelete (47): deletes a group's offsets of topics that none of its members reads (KIP-496)."""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.loaded_groups import when_loaded
from trimaran.node.replicated.pending import respond
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.slices import Slices

Codes = Mapping[TopicPartition, ErrorCode]


def _fail(request: OffsetDeleteRequest, code: ErrorCode, _message: str) -> OffsetDeleteResponse:
    """Of topics it is told at each partition, else once for all."""
    if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return _refuse(code)
    asked = _asked(request)
    return OffsetDeleteResponse(topics=_topics(asked, dict.fromkeys(asked, code)))


@handles(
    OffsetDeleteRequest,
    versions="0",
    access=(
        groups(Operation.DELETE, "group_id"),
        topics(Operation.READ, "topics.name", "topics").with_error_of_whole(),
    ),
    on_error=_fail,
    slices=Slices("topics.partitions", "topics.partitions"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
@when_loaded(lambda request: (request.group_id,), _fail)
def offset_delete(
    request: OffsetDeleteRequest, ctx: Context, _call: Call
) -> OffsetDeleteResponse | DeferredResponse[OffsetDeleteResponse]:
    topics = ctx.metadata.image.topics.by_name
    asked = _asked(request)
    known = [
        key
        for key in asked
        if key.topic in topics and key.partition in topics[key.topic].partitions
    ]

    def to_response(codes: Codes) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(topics=_topics(asked, codes))

    try:
        pending = ctx.groups.delete_offsets(request.group_id, known)
    except KafkaError as error:
        return _refuse(error.code)
    return respond(pending, to_response, _refuse)


def _refuse(code: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code, topics=[])


def _asked(request: OffsetDeleteRequest) -> list[TopicPartition]:
    return [TopicPartition(t.name, p.partition_index) for t in request.topics for p in t.partitions]


def _topics(asked: list[TopicPartition], codes: Codes) -> list[OffsetDeleteResponseTopic]:
    by_name: dict[str, OffsetDeleteResponseTopic] = {}
    for key in asked:
        name, index = key
        topic = by_name.setdefault(name, OffsetDeleteResponseTopic(name=name, partitions=[]))
        code = codes.get(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic.partitions.append(
            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
        )
    return list(by_name.values())
