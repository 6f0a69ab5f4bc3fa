"""OffsetCommit (8): stores a group's offsets; answered when they are on the disks of the ISR.

Versions: 0 commits to ZooKeeper (`zookeeper_offsets.py`; a broker without it refuses with UNSUPPORTED_VERSION, as Kafka
3.9's do in KRaft mode), 1 has a time of commit for each partition, 2 to 4 a retention time of their own, 6 leader
epochs, 7 static members, 10 topics by id.
"""

from __future__ import annotations

from collections.abc import Callable

from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.loaded_groups import when_loaded
from trimaran.broker.handlers.zookeeper_offsets import ZOOKEEPER_VERSION, commit_to_zookeeper
from trimaran.node.replicated.pending import respond
from trimaran.quorum.metadata.image import TopicImage
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.slices import COMMITS_PER_SLICE, Slices

TOPIC_ID_VERSION = 10


def _fail(request: OffsetCommitRequest, code: ErrorCode, _message: str) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            _answered(topic, [p.partition_index for p in topic.partitions], code)
            for topic in request.topics
        ]
    )


@handles(
    OffsetCommitRequest,
    versions="0-10",
    access=(
        groups(Operation.READ, "group_id"),
        topics(Operation.READ, "topics.name").in_handler("topics by id, too"),
    ),
    on_error=_fail,
    slices=Slices("topics.partitions", "topics.partitions", COMMITS_PER_SLICE),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
@when_loaded(lambda request: (request.group_id,), _fail)
def offset_commit(
    request: OffsetCommitRequest, ctx: Context, call: Call
) -> OffsetCommitResponse | DeferredResponse[OffsetCommitResponse]:
    version = call.header.api_version
    in_zookeeper = version == ZOOKEEPER_VERSION
    if in_zookeeper and ctx.zookeeper_offsets is None:
        return _fail(request, ErrorCode.UNSUPPORTED_VERSION, "")
    admitted: list[OffsetCommitRequestTopic] = []
    # For each topic of the request its answer, to which the coordinator adds what was admitted.
    answers: list[OffsetCommitResponseTopic] = []
    places: list[OffsetCommitResponseTopic] = []
    may_read = may_with_topic(ctx, call, Operation.READ)
    for topic in request.topics:
        answer, rest = _admit(topic, ctx, version, may_read)
        answers.append(answer)
        if rest.partitions:
            admitted.append(rest)
            places.append(answer)
    if not admitted:
        return OffsetCommitResponse(topics=answers)
    request.topics = admitted

    def merge(response: OffsetCommitResponse) -> OffsetCommitResponse:
        for place, topic in zip(places, response.topics, strict=True):
            place.partitions += topic.partitions
        return OffsetCommitResponse(topics=answers)

    def refuse(code: ErrorCode) -> OffsetCommitResponse:
        return merge(_fail(request, code, ""))

    if in_zookeeper:
        return DeferredResponse(lambda: commit_to_zookeeper(request, ctx, merge))
    try:
        pending = ctx.groups.commit_offsets(request, version)
    except KafkaError as error:
        return refuse(error.code)
    return respond(pending, merge, refuse)


def _admit(
    topic: OffsetCommitRequestTopic, ctx: Context, version: int, may_read: Callable[[str], bool]
) -> tuple[OffsetCommitResponseTopic, OffsetCommitRequestTopic]:
    """Splits a topic into what is not there or may not be read, answered, and what may, with name and id filled in."""
    topics = ctx.metadata.image.topics
    found: TopicImage | None
    if version >= TOPIC_ID_VERSION:
        found = topics.by_id.get(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = topics.by_name.get(topic.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = [p.partition_index for p in topic.partitions]
    nothing = OffsetCommitRequestTopic(partitions=[])
    # An id that is unknown has no name to judge; of a name nothing is told to who may not read it.
    if (found is not None or version < TOPIC_ID_VERSION) and not may_read(
        topic.name if found is None else found.name
    ):
        return _answered(topic, asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED), nothing
    if found is None:
        return _answered(topic, asked, unknown), nothing
    missing = [index for index in asked if index not in found.partitions]
    known = OffsetCommitRequestTopic(
        name=found.name,
        topic_id=found.id,
        partitions=[p for p in topic.partitions if p.partition_index in found.partitions],
    )
    return _answered(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), known


def _answered(
    topic: OffsetCommitRequestTopic, indexes: list[int], code: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index in indexes
        ],
    )
