"""AlterShareGroupOffsets (91): sets the offsets at which an empty share group begins in partitions (KIP-932).

Answered when share coordinators have stored the new states. A share group that does not exist is created. Source:
`KafkaApis.handleAlterShareGroupOffsetsRequest`, `GroupCoordinatorService.alterShareGroupOffsets` of Kafka 4.4.
"""

from __future__ import annotations

from functools import partial

from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.offsets import altered
from trimaran.broker.handlers import share_group_states
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.broker.share_state.changes import Outcomes
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
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
    asked, responses = yield from _split(request, ctx, call)
    pending = ctx.groups.decide(
        share.KIND,
        request.group_id,
        lambda found, at: found.alter_offsets(request.group_id, asked, at),
    )
    decided, begun = yield Blocking(pending.wait)
    responses += decided
    if begun is not None:
        outcomes = yield Blocking(
            partial(share_group_states.initialize, ctx, request.group_id, begun)
        )
        _note_failures(decided, outcomes)
    encoded = yield from call.room().encoding(responses)
    return AlterShareGroupOffsetsResponse(responses=encoded)


def _split(
    request: AlterShareGroupOffsetsRequest, ctx: GroupContext, call: Call
) -> Handling[
    tuple[list[AlterShareGroupOffsetsRequestTopic], list[AlterShareGroupOffsetsResponseTopic]]
]:
    """Returns the topics to alter, and the responses for topics that are unknown or forbidden."""
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
            response = AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=bytes(16) if found is None else found.id,
                partitions=[altered(part.partition_index, code) for part in topic.partitions],
            )
            refused.append(response)
        else:
            asked.append(topic)
        yield None
    return asked, refused


def _note_failures(
    responses: list[AlterShareGroupOffsetsResponseTopic], outcomes: Outcomes
) -> None:
    for topic in responses:
        for number, partition in enumerate(topic.partitions):
            index = partition.partition_index
            error = outcomes.get(TopicIdPartition(topic.topic_id, index))
            if error is not None and not partition.error_code:
                topic.partitions[number] = altered(index, error.code)
