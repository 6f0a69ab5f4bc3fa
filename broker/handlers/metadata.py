"""Metadata (3): brokers, topics, who leads; creates missing topics if that is configured.

Versions: 1 null for all topics, racks, controller; 2 cluster id; 4 may forbid creation; 5 offline replicas; 7 leader
epochs; 8 authorized operations; 10 topic ids in answers, 12 in requests; 13 an error of the whole.
Source: `KafkaApis.handleTopicMetadataRequest`, `KRaftMetadataCache`. As in Kafka the "controller" is a broker that is
alive: clients send it admin requests, and it forwards them.
"""

from __future__ import annotations

from broker.handlers.context import Context
from broker.metadata.endpoints import endpoint_of
from broker.metadata.internal_topics import INTERNAL_TOPICS
from broker.metadata.metadata_cache import BrokerMetadata
from broker.metadata.topic_views import ViewKey
from quorum.metadata.image import MetadataImage, TopicImage
from quorum.metadata.topic_names import why_illegal
from quorum.serving.authorized_operations import (
    NOT_ASKED,
    authorized_operations,
    cluster_operations,
)
from wire.errors import ErrorCode, KafkaError
from wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from wire.primitives import NIL_UUID
from wire.security.acls import Operation, ResourceType
from wire.transport.access import topics
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import PARTITIONS_ELEMENTS_MAX
from wire.transport.registry import handles
from wire.transport.slices import Slices

NO_CONTROLLER = -1


@handles(
    MetadataRequest,
    versions="0-13",
    access=(
        topics(Operation.DESCRIBE, "topics.name", "topics", listed="topics.name"),
        topics(Operation.CREATE).or_cluster(Operation.CREATE).in_handler("topics that it creates"),
    ),
    slices=Slices("topics", "topics"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def metadata(
    request: MetadataRequest, ctx: Context, call: Call
) -> MetadataResponse | DeferredResponse[MetadataResponse]:
    version = call.header.api_version
    if version in (10, 11):
        _check_names_only(request.topics or [])
    missing = _missing(request, ctx, version)
    if not missing:
        return _answer(request, ctx, call, {})

    async def finish() -> MetadataResponse:
        answer = _answer(request, ctx, call, await ctx.topic_creation.create(missing))
        return await answer.finish() if isinstance(answer, DeferredResponse) else answer

    return DeferredResponse(finish)


def _check_names_only(topics: list[MetadataRequestTopic]) -> None:
    if any(topic.name is None or topic.topic_id != NIL_UUID for topic in topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "topic ids are not for versions 10 and 11")


def _wants_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _missing(request: MetadataRequest, ctx: Context, version: int) -> list[str]:
    """Names to create."""
    if (
        _wants_all(request, version)
        or not request.allow_auto_topic_creation
        or not ctx.config["auto.create.topics.enable"]
    ):
        return []
    known = ctx.metadata.image.topics.by_name
    return [
        topic.name
        for topic in request.topics or []
        if topic.name is not None and topic.name not in known and why_illegal(topic.name) is None
    ]


def _answer(
    request: MetadataRequest, ctx: Context, call: Call, created: dict[str, ErrorCode]
) -> MetadataResponse | DeferredResponse[MetadataResponse]:
    image = ctx.metadata.image
    version, listener = call.header.api_version, call.connection.listener
    if _wants_all(request, version):
        topics: list[TopicImage | MetadataResponseTopic] = [*image.topics.by_name.values()]
    else:
        wanted = {(topic.topic_id, topic.name): topic for topic in request.topics or []}
        topics = [_wanted(topic, image, created) for topic in wanted.values()]
    asked = ViewKey(version, listener)
    view = ctx.topic_views.of(image, asked)

    def operations(topic: str) -> int:
        return authorized_operations(ctx, call.connection, ResourceType.TOPIC, topic)

    def response() -> MetadataResponse:
        brokers = _brokers(ctx.metadata, image, listener)
        alive = {one.node_id for one in brokers if not image.cluster.brokers[one.node_id].fenced}
        controller_id = ctx.node_id if ctx.node_id in alive else min(alive, default=NO_CONTROLLER)
        return MetadataResponse(
            brokers=brokers,
            cluster_id=ctx.cluster_id,
            controller_id=controller_id,
            topics=view.encoded(
                topics, operations if request.include_topic_authorized_operations else None
            ),
            cluster_authorized_operations=cluster_operations(ctx, call.connection)
            if request.include_cluster_authorized_operations
            else NOT_ASKED,
        )

    images = [topic for topic in topics if isinstance(topic, TopicImage)]
    if view.is_little_work(images):
        return response()

    async def finish() -> MetadataResponse:
        await view.fill(images)
        return response()

    return DeferredResponse(finish)


def _brokers(
    metadata: BrokerMetadata, image: MetadataImage, listener: str
) -> list[MetadataResponseBroker]:
    """Those that are alive and have the listener."""
    return [
        MetadataResponseBroker(
            node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in sorted(image.cluster.brokers.values(), key=lambda one: one.id)
        if metadata.is_listed(broker) and (endpoint := endpoint_of(broker, listener)) is not None
    ]


def _wanted(
    topic: MetadataRequestTopic, image: MetadataImage, created: dict[str, ErrorCode]
) -> TopicImage | MetadataResponseTopic:
    """The topic, or an error in its place."""
    if topic.topic_id != NIL_UUID:
        by_id = image.topics.by_id.get(topic.topic_id)
        return by_id or _error(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id)
    name = topic.name or ""
    by_name = image.topics.by_name.get(name)
    if by_name is not None:
        return by_name
    if why_illegal(name) is not None:
        return _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    code = created.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _error(code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _error(code: ErrorCode, name: str | None, topic_id: bytes = NIL_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
    )
