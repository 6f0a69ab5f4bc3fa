"""DescribeShareGroupOffsets (90): the start offsets of share groups in partitions, and their lag (KIP-932).

Versions: 1 the lag (KIP-1226): records from the start offset to the high watermark that are neither acknowledged nor
archived; -1 if it is unknown. The positions are read from share coordinators, and the high watermarks from leaders. As
in Kafka, a position that cannot be read is missing, without an error. Source:
`KafkaApis.handleDescribeShareGroupOffsetsRequest`, `GroupCoordinatorService.describeShareGroupOffsets`, `-AllOffsets`
of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from trimaran.broker.fetching.latest_offsets import Latest
from trimaran.broker.groups.share import kind as share
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.broker.share_state.changes import summaries
from trimaran.broker.share_state.states import ShareSummary
from trimaran.node.runtime.long_lived import LongLived
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError, KeptError
from trimaran.wire.identity import NO_OFFSET, LeaderEpoch, Offset, TopicIdPartition, TopicPartition
from trimaran.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import LISTED_A_STEP, Blocking, Handling, listed
from trimaran.wire.transport.scheduling.pauses import pauses

UNKNOWN_LAG = -1

_ResponsePartition = DescribeShareGroupOffsetsResponsePartition


class _DescribedTopic(NamedTuple):
    """A topic to describe; `id` is None if it does not exist."""

    name: str
    id: bytes | None
    partitions: list[int]


def _refused(
    group_id: str, code: ErrorCode, message: str | None = None
) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=[], error_code=code, error_message=message
    )


def _fail(
    request: DescribeShareGroupOffsetsRequest, code: ErrorCode, message: str
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[_refused(group.group_id, code, message) for group in request.groups]
    )


_topics_once = Once("topics.partitions", lambda topic: topic.topic_name)


def _asked_once(request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsRequest:
    """Returns the request with each group, topic and partition named once; null topics in any entry of a group count
    for all.
    """
    asked: dict[str, list[DescribeShareGroupOffsetsRequestTopic] | None] = {}
    for group in request.groups:
        before = asked.setdefault(group.group_id, [])
        if group.topics is None or before is None:
            asked[group.group_id] = None
        else:
            before += group.topics
    groups_ = (
        DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics_)
        for group_id, topics_ in asked.items()
    )
    return request.replace(groups=[_topics_once(group) for group in groups_])


@handles(
    DescribeShareGroupOffsetsRequest,
    versions="0-1",
    access=(
        groups(Operation.DESCRIBE, "groups.group_id", "groups"),
        topics(Operation.DESCRIBE).in_handler("topics of each group"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=_asked_once,
)
def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, ctx: GroupContext, call: Call
) -> Handling[DescribeShareGroupOffsetsResponse]:
    yield from loaded(ctx, [group.group_id for group in request.groups])
    check_served(ctx, share.KIND)
    found = EncodedArray()
    for group in request.groups:
        before = call.room().size
        head = DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=[])
        try:
            described = yield from _described(group, ctx, call)
            call.room().rewind(before)  # the encoded group includes its partitions
            found.append((yield from call.room().encoding_with(head, "topics", described)))
        except KafkaError as error:
            call.room().rewind(before)
            refused = _refused(group.group_id, error.code, error.message or error.code.sentence)
            found.append(call.room().refusal(refused))
        yield None
    return DescribeShareGroupOffsetsResponse(groups=found)


def _described(
    group: DescribeShareGroupOffsetsRequestGroup, ctx: GroupContext, call: Call
) -> Handling[list[DescribeShareGroupOffsetsResponseTopic]]:
    """Returns the topics of one group, with encoded partitions. Raises KafkaError if the request is for all topics, and
    this broker does not coordinate the group; or if the response would be too large.
    """
    is_asked = group.topics is not None
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=is_asked)
    hidden: list[DescribeShareGroupOffsetsResponseTopic] = []
    kept = LongLived()  # the collector would traverse the topics of a large request for 50 ms
    if group.topics is None:
        asked = [topic for topic in _initialized(group.group_id, ctx) if may_see(topic.name)]
    else:
        asked, hidden = yield from _split(group.topics, ctx, call, may_see, kept)
    partitions = yield from listed(
        TopicIdPartition(topic.id, index)
        for topic in asked
        if topic.id is not None
        for index in topic.partitions
    )
    positions: Mapping[TopicIdPartition, ShareSummary | KeptError] = {}
    if partitions:
        positions = yield Blocking(partial(summaries, ctx.share_states, group.group_id, partitions))
    with_lag = yield from _with_lag(asked, positions)
    latest = yield from ctx.latest_offsets.asking(with_lag)
    seen = []
    for topic in _known_first(asked):
        response = _response(topic.name, topic.id or NIL_UUID)
        described = _partitions(topic, positions, latest)
        response.partitions = yield from call.room().encoding(described)
        seen.append(response)
        kept.add(1)
        yield None
    return [*seen, *hidden]


def _initialized(group_id: str, ctx: GroupContext) -> Iterator[_DescribedTopic]:
    """Yields the existing topics with initialized partitions; none if there is no such share group."""
    groups_of_kind = ctx.groups.groups_of(share.KIND, group_id)
    if groups_of_kind.has(group_id):
        existing = ctx.metadata.image.topics.by_id
        for topic_id, topic in groups_of_kind.find(group_id).known_states.initialized.items():
            if topic_id in existing:
                yield _DescribedTopic(existing[topic_id].name, topic_id, sorted(topic.partitions))


def _split(
    asked: Iterable[DescribeShareGroupOffsetsRequestTopic],
    ctx: GroupContext,
    call: Call,
    may_see: Callable[[str], bool],
    kept: LongLived,
) -> Handling[tuple[list[_DescribedTopic], list[DescribeShareGroupOffsetsResponseTopic]]]:
    """Returns the topics to describe, and the responses for topics that the client may not see."""
    seen, hidden = [], []
    existing = ctx.metadata.image.topics.by_name
    for topic in asked:
        found = existing.get(topic.topic_name)
        indexes = list(dict.fromkeys(topic.partitions))
        if may_see(topic.topic_name):
            seen.append(
                _DescribedTopic(topic.topic_name, None if found is None else found.id, indexes)
            )
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response = _response(topic.topic_name, NIL_UUID)
            refused = (_failed(index, code) for index in indexes)
            response.partitions = yield from call.room().encoding(refused)
            hidden.append(response)
        kept.add(1)
        yield None
    return seen, hidden


def _known_first(topics_: Iterable[_DescribedTopic]) -> list[_DescribedTopic]:
    return sorted(topics_, key=lambda topic: topic.id is None)


def _with_lag(
    asked: Iterable[_DescribedTopic],
    positions: Mapping[TopicIdPartition, ShareSummary | KeptError],
) -> Handling[list[TopicPartition]]:
    """Returns the partitions whose lag depends on their high watermark only."""
    found, pause = [], pauses(LISTED_A_STEP)
    for topic in asked:
        for index in topic.partitions:
            if topic.id is not None and _has_lag(positions[TopicIdPartition(topic.id, index)]):
                found.append(TopicPartition(topic.name, index))
            yield from next(pause)
    return found


def _has_lag(position: ShareSummary | KeptError) -> bool:
    return (
        isinstance(position, ShareSummary)
        and position.start_offset is not None
        and position.delivery_complete_count is not None
    )


def _partitions(
    topic: _DescribedTopic,
    positions: Mapping[TopicIdPartition, ShareSummary | KeptError],
    latest: Latest,
) -> Iterator[_ResponsePartition]:
    for index in topic.partitions:
        if topic.id is None:
            yield _at(index, NO_OFFSET, LeaderEpoch(0))
        else:
            position = positions[TopicIdPartition(topic.id, index)]
            yield _partition(TopicPartition(topic.name, index), position, latest)


def _partition(
    key: TopicPartition, position: ShareSummary | KeptError, latest: Latest
) -> _ResponsePartition:
    if isinstance(position, KeptError):
        return _at(key.partition, NO_OFFSET, LeaderEpoch(0))
    start, done = position.start_offset, position.delivery_complete_count
    if start is None or done is None:
        return _at(key.partition, NO_OFFSET if start is None else start, position.leader_epoch)
    end = latest[key]
    if isinstance(end, ErrorCode):
        return _failed(key.partition, end)
    described = _at(key.partition, start, position.leader_epoch)
    described.lag = end - start - done
    return described


def _at(index: int, start: Offset, leader_epoch: LeaderEpoch) -> _ResponsePartition:
    return _ResponsePartition(
        partition_index=index, start_offset=start, leader_epoch=leader_epoch, lag=UNKNOWN_LAG
    )


def _failed(index: int, code: ErrorCode) -> _ResponsePartition:
    failed = _at(index, Offset(0), LeaderEpoch(0))
    failed.error_code, failed.error_message = code, code.sentence
    return failed


def _response(name: str, topic_id: bytes) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic_id, partitions=EncodedArray()
    )
