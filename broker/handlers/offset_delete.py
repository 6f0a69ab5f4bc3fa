"""OffsetDelete (47): deletes a group's offsets for topics to which no member is subscribed (KIP-496)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from trimaran.broker.handlers.batches import PARTITIONS_PER_BATCH
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.node.replicated.pending import settled
from trimaran.node.runtime.steps import pieces
from trimaran.wire.codec.declarations import EncodedArray
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
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

Codes = Mapping[TopicPartition, ErrorCode]


def _fail(request: OffsetDeleteRequest, code: ErrorCode, _message: str) -> OffsetDeleteResponse:
    """Returns the error: in each partition if topics are refused, otherwise at the top level of the response."""
    if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return _refuse(code)
    by_name: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in filter(attrgetter("partitions"), request.topics):
        response = by_name.setdefault(
            topic.name, OffsetDeleteResponseTopic(name=topic.name, partitions=[])
        )
        response.partitions += [
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ]
    return OffsetDeleteResponse(topics=list(by_name.values()))


@handles(
    OffsetDeleteRequest,
    versions="0",
    access=(
        groups(Operation.DELETE, "group_id"),
        topics(Operation.READ, "topics.name", "topics").with_error_of_whole(),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def offset_delete(
    request: OffsetDeleteRequest, ctx: GroupContext, call: Call
) -> Handling[OffsetDeleteResponse]:
    yield from loaded(ctx, (request.group_id,))
    codes: dict[TopicPartition, ErrorCode] = {}
    try:
        yield from _deleted(request, ctx, codes)
    except KafkaError as error:
        return _refuse(error.code)
    room = call.room()
    by_name: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in filter(attrgetter("partitions"), request.topics):
        response = by_name.setdefault(
            topic.name, OffsetDeleteResponseTopic(name=topic.name, partitions=EncodedArray())
        )
        keys = (TopicPartition(topic.name, each.partition_index) for each in topic.partitions)
        response.partitions += yield from room.encoding(_response(key, codes) for key in keys)
        yield None
    return OffsetDeleteResponse(topics=list(by_name.values()))


def _deleted(
    request: OffsetDeleteRequest, ctx: GroupContext, codes: dict[TopicPartition, ErrorCode]
) -> Handling[None]:
    """Deletes the offsets of existing partitions, and fills `codes`. Raises KafkaError if nothing can be deleted."""
    topics = ctx.metadata.image.topics.by_name
    known: list[TopicPartition] = []
    for topic in request.topics:
        partitions = topics[topic.name].partitions if topic.name in topics else {}
        for partition in topic.partitions:
            if partition.partition_index in partitions:
                known.append(TopicPartition(topic.name, partition.partition_index))
            yield None
        yield None
    decided = []
    for some in [*pieces(known, PARTITIONS_PER_BATCH)] or [[]]:
        decided.append(ctx.groups.delete_offsets(request.group_id, some))
        yield None
    for pending in decided:
        codes.update((yield from settled(pending)))


def _refuse(code: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code, topics=[])


def _response(key: TopicPartition, codes: Codes) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(
        partition_index=key.partition,
        error_code=codes.get(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )
