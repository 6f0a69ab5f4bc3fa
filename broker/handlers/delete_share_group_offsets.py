"""DeleteShareGroupOffsets (92): deletes the offsets of an empty share group in whole topics (KIP-932).

Answered when share coordinators have deleted the states. The group then begins in these topics as in new ones. Source:
`KafkaApis.handleDeleteShareGroupOffsetsRequest`, `GroupCoordinatorService.deleteShareGroupOffsets` of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain

from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.offsets import Deletion
from trimaran.broker.handlers import share_group_states
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.broker.share_state.changes import Outcomes
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import LISTED_A_STEP, Blocking, Handling
from trimaran.wire.transport.scheduling.pauses import pauses


def _fail(
    _request: DeleteShareGroupOffsetsRequest, code: ErrorCode, message: str
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        error_code=code, error_message=message or code.sentence, responses=[]
    )


@handles(
    DeleteShareGroupOffsetsRequest,
    versions="0",
    access=(
        groups(Operation.DELETE, "group_id"),
        topics(Operation.READ, "topics.topic_name").in_handler("each topic has its own error"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, ctx: GroupContext, call: Call
) -> Handling[DeleteShareGroupOffsetsResponse]:
    yield from loaded(ctx, (request.group_id,))
    check_served(ctx, share.KIND)
    may_read = may_with_topic(ctx, call, Operation.READ)
    names, forbidden = [], []
    for topic in request.topics:
        if may_read(topic.topic_name):
            names.append(topic.topic_name)
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            forbidden.append(_deleted(topic.topic_name, bytes(16), code))
        yield None
    pending = ctx.groups.decide(
        share.KIND,
        request.group_id,
        lambda found, at: found.delete_offsets(request.group_id, names, at),
    )
    deletion: Deletion = yield Blocking(pending.wait)
    outcomes: Outcomes = {}
    if deletion.states.topics:
        outcomes = yield Blocking(
            partial(share_group_states.delete, ctx, request.group_id, deletion.states)
        )
    codes = yield from _codes(deletion, outcomes)
    found = chain(forbidden, _responses(deletion, codes), deletion.refused)
    encoded = yield from call.room().encoding(found)
    return DeleteShareGroupOffsetsResponse(responses=encoded)


def _codes(deletion: Deletion, outcomes: Outcomes) -> Handling[dict[bytes, ErrorCode]]:
    """Returns the code of each topic: the error of one of its partitions, if any."""
    codes = dict.fromkeys(deletion.states.topics, ErrorCode.NONE)
    pause = pauses(LISTED_A_STEP)
    for partition, error in outcomes.items():
        if error is not None:
            codes[partition.topic_id] = error.code
        yield from next(pause)
    return codes


def _responses(
    deletion: Deletion, codes: Mapping[bytes, ErrorCode]
) -> Iterator[DeleteShareGroupOffsetsResponseTopic]:
    for topic_id, topic in deletion.states.topics.items():
        yield _deleted(topic.name, topic_id, codes[topic_id])


def _deleted(name: str, topic_id: bytes, code: ErrorCode) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=code,
        error_message=code.sentence if code else None,
    )
