"""Metadata (3): brokers, topics, who leads; creates missing topics if that is configured.

Versions: 1 null for all topics, racks, controller; 2 cluster id; 4 may forbid creation; 5 offline replicas; 7 leader epochs;
8 authorized operations; 10 topic ids in answers, 12 in requests; 13 an error of the whole.
Source: `KafkaApis.handleTopicMetadataRequest`, `KRaftMetadataCache`. As in Kafka the "controller" is a broker that is alive:
clients send it admin requests, and it forwards them.
"""

from __future__ import annotations

from broker.context import Context
from broker.endpoints import endpoint_of
from broker.internal_topics import INTERNAL_TOPICS
from broker.metadata import BrokerMetadata
from broker.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from quorum.metadata.image import MetadataImage, PartitionImage, TopicImage
from quorum.metadata.topic_names import why_illegal
from wire.errors import ErrorCode, KafkaError
from wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.primitives import NIL_UUID
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles

NO_CONTROLLER = -1


@handles(MetadataRequest, versions="0-13")
def metadata(
    request: MetadataRequest, ctx: Context, call: Call
) -> MetadataResponse | Parked[MetadataResponse]:
    version = call.header.api_version
    if version in (10, 11):
        _check_names_only(request.topics or [])
    missing = _missing(request, ctx, version)
    if not missing:
        return _answer(request, ctx, call, {})

    async def finish() -> MetadataResponse:
        return _answer(request, ctx, call, await ctx.topic_creation.create(missing))

    return Parked(finish)


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
) -> MetadataResponse:
    image = ctx.metadata.image
    version = call.header.api_version
    brokers = _brokers(ctx.metadata, call.connection.listener)
    alive = {one.node_id for one in brokers if not image.cluster.brokers[one.node_id].fenced}
    writer = _TopicWriter(image, alive, version)
    if _wants_all(request, version):
        topics = [writer.known(topic) for topic in image.topics.by_name.values()]
    else:
        wanted = {(topic.topic_id, topic.name): topic for topic in request.topics or []}
        topics = [writer.wanted(topic, created) for topic in wanted.values()]
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    cluster_operations = request.include_cluster_authorized_operations and 8 <= version <= 10
    return MetadataResponse(
        brokers=brokers,
        cluster_id=ctx.cluster_id,
        controller_id=ctx.node_id if ctx.node_id in alive else min(alive, default=NO_CONTROLLER),
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if cluster_operations else NOT_ASKED,
    )


def _brokers(metadata: BrokerMetadata, listener: str) -> list[MetadataResponseBroker]:
    """Those that are alive and have the listener."""
    return [
        MetadataResponseBroker(
            node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in sorted(metadata.image.cluster.brokers.values(), key=lambda one: one.id)
        if metadata.is_listed(broker) and (endpoint := endpoint_of(broker, listener)) is not None
    ]


class _TopicWriter:
    """Writes topics as seen on one listener: brokers not in `alive` cannot be reached there."""

    def __init__(self, image: MetadataImage, alive: set[int], version: int) -> None:
        self._image = image
        self._alive = alive
        self._version = version

    def wanted(
        self, topic: MetadataRequestTopic, created: dict[str, ErrorCode]
    ) -> MetadataResponseTopic:
        if topic.topic_id != NIL_UUID:
            by_id = self._image.topics.by_id.get(topic.topic_id)
            if by_id is None:
                return _error(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id)
            return self.known(by_id)
        name = topic.name or ""
        by_name = self._image.topics.by_name.get(name)
        if by_name is not None:
            return self.known(by_name)
        if why_illegal(name) is not None:
            return _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
        code = created.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _error(code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)

    def known(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                self._partition(index, state) for index, state in sorted(topic.partitions.items())
            ],
        )

    def _partition(self, index: int, state: PartitionImage) -> MetadataResponsePartition:
        alive = self._alive
        reachable = state.leader in alive
        replicas, isr = list(state.replicas), list(state.isr)
        code = ErrorCode.NONE if reachable else self._unreachable(state.leader)
        if self._version == 0:  # which cannot say that a replica is offline
            replicas = [replica for replica in replicas if replica in alive]
            isr = [replica for replica in isr if replica in alive]
            if code is ErrorCode.NONE and len(replicas) < len(state.replicas):
                code = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=code,
            partition_index=index,
            leader_id=state.leader if reachable else -1,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=[replica for replica in state.replicas if replica not in alive],
        )

    def _unreachable(self, leader: int) -> ErrorCode:
        broker = self._image.cluster.brokers.get(leader)
        if broker is None or broker.fenced or self._version < 6:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.LISTENER_NOT_FOUND


def _error(code: ErrorCode, name: str | None, topic_id: bytes = NIL_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
    )
