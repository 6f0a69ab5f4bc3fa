"""AlterShareGroupOffsets (91): sets the offsets at which an empty share group begins in partitions (KIP-932).

Answered when share coordinators have stored the new states. A share group that does not exist is created. Source:
`KafkaApis.handleAlterShareGroupOffsetsRequest`, `GroupCoordinatorService.alterShareGroupOffsets` of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.offsets import CheckedTopic, altered, checked
from trimaran.broker.groups.topics import ImageTopics
from trimaran.broker.handlers import share_group_states
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.broker.share_state.changes import Outcomes
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Handling


def _fail(
    _request: AlterShareGroupOffsetsRequest, code: ErrorCode, message: str
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        error_code=code, error_message=message or code.sentence, responses=[]
    )


@handles(
    AlterShareGroupOffsetsRequest,
    versions="0",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.READ, "topics.topic_name").in_handler("each topic has its own error"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, ctx: GroupContext, call: Call
) -> Handling[AlterShareGroupOffsetsResponse]:
    yield from loaded(ctx, (request.group_id,))
    check_served(ctx, share.KIND)
    asked, refused = yield from _split(request, ctx, call)
    alteration = yield from checked(ImageTopics(ctx.metadata.image), asked)
    pending = ctx.groups.decide(
        share.KIND,
        request.group_id,
        lambda found, at: found.alter_offsets(request.group_id, alteration, at),
    )
    begun = yield Blocking(pending.wait)
    outcomes: Outcomes = {}
    if begun is not None:
        outcomes = yield Blocking(
            partial(share_group_states.initialize, ctx, request.group_id, begun)
        )
    responses = yield from _responses([*refused, *alteration.topics], outcomes, call)
    return AlterShareGroupOffsetsResponse(responses=responses)


def _split(
    request: AlterShareGroupOffsetsRequest, ctx: GroupContext, call: Call
) -> Handling[tuple[list[AlterShareGroupOffsetsRequestTopic], list[CheckedTopic]]]:
    """Returns the topics to alter, and those that are unknown or forbidden."""
    may_read = may_with_topic(ctx, call, Operation.READ)
    known = ctx.metadata.image.topics.by_name
    asked, refused = [], []
    for topic in request.topics:
        code = ErrorCode.NONE
        if not may_read(topic.topic_name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic.topic_name not in known:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code:
            found = known.get(topic.topic_name)
            topic_id = NIL_UUID if found is None else found.id
            codes = [(partition.partition_index, code) for partition in topic.partitions]
            refused.append(CheckedTopic(topic.topic_name, topic_id, codes))
        else:
            asked.append(topic)
        yield None
    return asked, refused


def _responses(
    topics_: Iterable[CheckedTopic], outcomes: Outcomes, call: Call
) -> Handling[EncodedArray]:
    """Returns the responses for topics, with errors of share coordinators in `outcomes`."""
    found, room = EncodedArray(), call.room()
    for topic in topics_:
        head = AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.name, topic_id=topic.id, partitions=[]
        )
        partitions = _partitions(topic, outcomes)
        found.append((yield from room.encoding_with(head, "partitions", partitions)))
        yield None
    return found


def _partitions(
    topic: CheckedTopic, outcomes: Outcomes
) -> Iterator[AlterShareGroupOffsetsResponsePartition]:
    for index, code in topic.codes:
        error = None if code else outcomes.get(TopicIdPartition(topic.id, index))
        yield altered(index, code if error is None else error.code)
