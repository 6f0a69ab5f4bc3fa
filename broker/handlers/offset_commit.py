"""OffsetCommit (8): stores a group's offsets; answered when the whole ISR has them on disk.

Versions: 0 commits to ZooKeeper (`zookeeper_offsets.py`; a broker without ZooKeeper returns UNSUPPORTED_VERSION, as
Kafka 3.9 does in KRaft mode), 1 a commit time for each partition, 2 to 4 a retention time, 6 leader epochs, 7 static
members, 10 topics by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trimaran.broker.handlers.batches import in_batches
from trimaran.broker.handlers.committed_topics import find_topic
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.zookeeper_offsets import ZOOKEEPER_VERSION, committed_to_zookeeper
from trimaran.node.replicated.pending import PendingResponse, settled
from trimaran.quorum.metadata.image import TopicImage
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

TOPIC_ID_VERSION = 10
# The size of a topic in the response, without its name and its partitions.
TOPIC_BYTES = 24


class _Topic(NamedTuple):
    """An existing topic and its entry in the response."""

    image: TopicImage
    response: OffsetCommitResponseTopic


_Batch = Sequence[tuple[_Topic, Sequence[OffsetCommitRequestPartition]]]


def _fail(request: OffsetCommitRequest, code: ErrorCode, _message: str) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _refused(partition.partition_index, code) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refused(index: int, code: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=index, error_code=code)


@handles(
    OffsetCommitRequest,
    versions="0-10",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.READ, "topics.name").in_handler("topics by id, too"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def offset_commit(
    request: OffsetCommitRequest, ctx: GroupContext, call: Call
) -> Handling[OffsetCommitResponse]:
    yield from loaded(ctx, (request.group_id,))
    version = call.header.api_version
    in_zookeeper = version == ZOOKEEPER_VERSION
    if in_zookeeper and ctx.zookeeper_offsets is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    responses: list[OffsetCommitResponseTopic] = []
    admitted = yield from _admitted(request, ctx, call, responses)
    decided: list[tuple[_Batch, OffsetCommitRequest, PendingResponse[OffsetCommitResponse]]] = []
    for batch in in_batches(admitted):
        part = request.replace(
            topics=[
                OffsetCommitRequestTopic(
                    name=topic.image.name, topic_id=topic.image.id, partitions=list(partitions)
                )
                for topic, partitions in batch
            ]
        )
        if in_zookeeper:
            yield from _add(batch, (yield from committed_to_zookeeper(part, ctx)), call)
        else:
            decided.append((batch, part, _decided(part, ctx, version)))
        yield None
    for answered, part, pending in decided:
        try:
            response = yield from settled(pending)
        except KafkaError as error:
            response = _fail(part, error.code, "")
        yield from _add(answered, response, call)
    return OffsetCommitResponse(topics=responses)


def _decided(
    request: OffsetCommitRequest, ctx: GroupContext, version: int
) -> PendingResponse[OffsetCommitResponse]:
    try:
        return ctx.groups.commit_offsets(request, version)
    except KafkaError as error:
        refused = PendingResponse[OffsetCommitResponse]()
        refused.fail(error)
        return refused


def _add(batch: _Batch, response: OffsetCommitResponse, call: Call) -> Handling[None]:
    """Adds the coordinator's results to the topics of the response."""
    for (topic, _), answered in zip(batch, response.topics, strict=True):
        topic.response.partitions += yield from call.room().encoding(answered.partitions)


def _admitted(
    request: OffsetCommitRequest,
    ctx: GroupContext,
    call: Call,
    responses: list[OffsetCommitResponseTopic],
) -> Handling[list[tuple[_Topic, list[OffsetCommitRequestPartition]]]]:
    """Returns the partitions that exist and may be read. Adds each topic to `answers`, with the results of refused
    partitions.
    """
    version, room, topics = call.header.api_version, call.room(), ctx.metadata.image.topics
    may_read = may_with_topic(ctx, call, Operation.READ)
    found: list[tuple[_Topic, list[OffsetCommitRequestPartition]]] = []
    for topic in request.topics:
        room.take(TOPIC_BYTES + len(topic.name))
        partitions = EncodedArray()
        response = OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=partitions
        )
        responses.append(response)
        image, refused = find_topic(topic, topics, may_read, by_id=version >= TOPIC_ID_VERSION)
        known: list[OffsetCommitRequestPartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            if image is not None and index in image.partitions:
                known.append(partition)
            else:
                partitions.append(room.encoded(_refused(index, refused)))
            yield None
        if image is not None and known:
            found.append((_Topic(image, response), known))
        yield None
    return found
