"""Metadata (3): returns brokers, topics and partition leaders; creates missing topics if that is enabled.

Versions: 1 null for all topics, racks, controller; 2 cluster id; 4 may forbid creation; 5 offline replicas; 7 leader
epochs; 8 authorized operations; 10 topic ids in responses, 12 in requests; 13 a top-level error. Source:
`KafkaApis.handleTopicMetadataRequest`, `KRaftMetadataCache`. As in Kafka, the "controller" is any live broker: clients
send it admin requests, and it forwards them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from trimaran.broker.handlers.context import AdminContext
from trimaran.broker.metadata.endpoints import endpoint_of
from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.seen_topics import EVERYBODY, Asker
from trimaran.broker.metadata.topic_views import TopicView, ViewKey
from trimaran.quorum.metadata.image import MetadataImage, TopicImage
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.serving.audit import logs_every_verdict
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.quorum.serving.authorized_operations import (
    authorized_operations,
    cluster_operations,
)
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.identity import INITIAL_ACL_EPOCH, NO_NODE, AclEpoch
from trimaran.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from trimaran.wire.security.acls import NOT_ASKED, Operation, ResourceType
from trimaran.wire.transport.memory.room import FREE_BYTES, Room
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling, Wait

# Errors of topics that the client may not see; the response omits their authorized operations.
_OF_UNSEEN = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID})

MaySee = Callable[[str], bool]
Topics = list[TopicImage | MetadataResponseTopic]


def _fail(request: MetadataRequest, code: ErrorCode, _message: str) -> MetadataResponse:
    if (
        not request.topics
    ):  # a request for all topics; an empty response would mean that there are none
        raise CloseConnection(f"Metadata of all topics failed: {code.name}")
    # The name is null if the request names the topic by id or, wrongly, not at all; before version 12 it must not be
    # null.
    topics = [_error(code, topic.name or "", topic.topic_id) for topic in request.topics]
    return MetadataResponse(brokers=[], topics=topics, error_code=code)


def _named(topic: MetadataRequestTopic) -> bytes | str | None:
    """Returns the topic's id, or its name if it has no id: the id takes precedence."""
    return topic.name if topic.topic_id == NIL_UUID else topic.topic_id


@handles(
    MetadataRequest,
    versions="0-13",
    access=(
        topics(Operation.DESCRIBE, "topics.name", listed="topics.name").in_handler(
            "also topics by id; before the response is encoded"
        ),
        topics(Operation.CREATE).or_cluster(Operation.CREATE).in_handler("topics that it creates"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("topics", _named),
)
def metadata(request: MetadataRequest, ctx: AdminContext, call: Call) -> Handling[MetadataResponse]:
    version = call.header.api_version
    if version in (10, 11):
        _check_names_only(request.topics or [])
    wants_all = _wants_all(request, version)
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=not wants_all)
    if wants_all:
        return (yield from _all_topics(request, ctx, call, may_see))
    created: Mapping[str, ErrorCode] = {}
    if request.allow_auto_topic_creation and ctx.config["auto.create.topics.enable"]:
        missing = yield from _missing(request, ctx, may_see)
        if missing:
            created = yield from _created(missing, ctx, call)
    image, asked, wanted = ctx.metadata.image, request.topics or [], []
    for topic in asked:
        wanted.append(
            _by_name(topic.name or "", image, may_see, created)
            if topic.topic_id == NIL_UUID
            else _by_id(topic.topic_id, image, may_see)
        )
        if len(asked) > 1:
            yield None
    topics = yield from _encoded(request, ctx, call, image, wanted)
    return _response(request, ctx, call, image, topics)


def _all_topics(
    request: MetadataRequest, ctx: AdminContext, call: Call, may_see: MaySee
) -> Handling[MetadataResponse]:
    image, epoch = ctx.metadata.image, _acls_epoch(ctx)
    seen, asker = _view(ctx, call, image).seen, _asker(ctx, call)
    kept = seen.find(asker, image.topics, epoch) if _is_kept(request) else None
    if kept is not None:
        size = sum(map(len, kept))
        if size > FREE_BYTES:
            yield from _taking_room(call, size)
        return _response(request, ctx, call, image, kept)
    visible: Topics = []
    for topic in image.topics.by_name.values():
        if may_see(topic.name):
            visible.append(topic)
        yield None
    try:
        topics = yield from _encoded(request, ctx, call, image, visible)
    except ResponseTooLarge as error:
        topics = yield from _each_refused(visible, error, call.room())
    if _is_kept(request) and _acls_epoch(ctx) == epoch:
        seen.keep(asker, image.topics, epoch, topics)
    return _response(request, ctx, call, image, topics)


def _taking_room(call: Call, size: int) -> Handling[None]:
    """Reserves memory for a large response: its topics are shared, but each connection gets a copy of them."""
    call.room().take(size)
    yield None


def _acls_epoch(ctx: AdminContext) -> AclEpoch:
    return INITIAL_ACL_EPOCH if ctx.authorizer is None else ctx.authorizer.epoch


def _is_kept(request: MetadataRequest) -> bool:
    """Whether the encoded topics may be cached, which requires that the response has no authorized operations and
    allowed access is not logged.
    """
    return not (request.include_topic_authorized_operations or logs_every_verdict())


def _asker(ctx: AdminContext, call: Call) -> Asker:
    """Returns the key of the cache: without an authorizer all clients see the same."""
    if ctx.authorizer is None:
        return EVERYBODY
    connection = call.connection
    return Asker(connection.principal, connection.peer[0])


def _check_names_only(topics: list[MetadataRequestTopic]) -> None:
    if any(topic.name is None or topic.topic_id != NIL_UUID for topic in topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "topic ids are not for versions 10 and 11")


def _wants_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _missing(request: MetadataRequest, ctx: AdminContext, may_see: MaySee) -> Handling[list[str]]:
    """Returns the names to create. Includes illegal names, because only clients that may create topics get the error
    for them.
    """
    known, asked = ctx.metadata.image.topics.by_name, request.topics or []
    missing: dict[str, None] = {}
    for topic in asked:
        name = topic.name
        if name is not None and name not in known and may_see(name):
            missing[name] = None
        if len(asked) > 1:
            yield None
    return [*missing]


def _created(missing: list[str], ctx: AdminContext, call: Call) -> Handling[dict[str, ErrorCode]]:
    """Returns the errors of the missing topics by name. As in Kafka, a topic that was just created is still unknown in
    this response: clients retry, and some rely on the error.
    """
    may_create = may_with_topic(ctx, call, Operation.CREATE, or_cluster=Operation.CREATE)
    codes: dict[str, ErrorCode] = {}
    legal = []
    for name in missing:
        if not may_create(name):
            codes[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif why_illegal(name) is None:
            legal.append(name)
        yield None
    if legal:
        created = yield Wait(partial(ctx.topic_creation.create, legal, call))
        for name, code in created.items():
            codes[name] = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return codes


def _view(ctx: AdminContext, call: Call, image: MetadataImage) -> TopicView:
    return ctx.topic_views.of(image, ViewKey(call.header.api_version, call.connection.listener))


def _encoded(
    request: MetadataRequest, ctx: AdminContext, call: Call, image: MetadataImage, topics: Topics
) -> Handling[EncodedArray]:
    """Returns the topics encoded, in order.

    Raises:
        ResponseTooLarge: the response has no room for them.
    """
    view, found, size = _view(ctx, call, image), EncodedArray(), 0
    for topic in topics:
        if isinstance(topic, TopicImage):
            while (element := view.find(topic)) is None:
                view.encode_some(topic)
                yield None
        else:
            element = view.element(topic)
        if request.include_topic_authorized_operations and _is_shown(topic):
            name = topic.name or ""
            operations = authorized_operations(ctx, call, ResourceType.TOPIC, name)
            element = view.with_operations(element, operations)
        found.append(element)
        size += len(element)
        if size > FREE_BYTES:
            yield from _taking_room(call, size)
            size = 0
        elif len(topics) > 1:
            yield None
    return found


def _is_shown(topic: TopicImage | MetadataResponseTopic) -> bool:
    """Whether the client receives the authorized operations of the topic, which requires that it may see the topic."""
    return isinstance(topic, TopicImage) or topic.error_code not in _OF_UNSEEN


def _each_refused(topics: Topics, error: KafkaError, room: Room) -> Handling[EncodedArray]:
    """Returns the topics with the error in each: versions before 13 have no top-level error, and a response without
    topics would mean that there are none.
    """
    found = EncodedArray()
    room.rewind(0)
    for topic in topics:
        found.append(room.refusal(_error(error.code, topic.name)))
        yield None
    return found


def _response(
    request: MetadataRequest,
    ctx: AdminContext,
    call: Call,
    image: MetadataImage,
    topics: EncodedArray,
) -> MetadataResponse:
    brokers = _brokers(ctx.metadata, image, call.connection.listener)
    alive = {shown.node_id for shown in brokers if not image.cluster.brokers[shown.node_id].fenced}
    operations = (
        cluster_operations(ctx, call)
        if request.include_cluster_authorized_operations
        else NOT_ASKED
    )
    return MetadataResponse(
        brokers=brokers,
        cluster_id=ctx.cluster_id,
        controller_id=ctx.node_id if ctx.node_id in alive else min(alive, default=NO_NODE),
        topics=topics,
        cluster_authorized_operations=operations,
    )


def _brokers(
    metadata: BrokerMetadata, image: MetadataImage, listener: str
) -> list[MetadataResponseBroker]:
    """Returns the live brokers that have the listener."""
    return [
        MetadataResponseBroker(
            node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in sorted(image.cluster.brokers.values(), key=lambda broker: broker.id)
        if metadata.is_listed(broker) and (endpoint := endpoint_of(broker, listener)) is not None
    ]


def _by_id(
    topic_id: bytes, image: MetadataImage, may_see: MaySee
) -> TopicImage | MetadataResponseTopic:
    """Returns the topic, or its error: ids are not secret, but names of topics are."""
    topic = image.topics.by_id.get(topic_id)
    if topic is None:
        return _error(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if not may_see(topic.name):
        return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    return topic


def _by_name(
    name: str, image: MetadataImage, may_see: MaySee, created: Mapping[str, ErrorCode]
) -> TopicImage | MetadataResponseTopic:
    if not may_see(name):
        return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name).replace(is_internal=False)
    topic, code = image.topics.by_name.get(name), created.get(name)
    if topic is not None and code is None:
        return topic
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return _error(code, name)
    if why_illegal(name) is not None:
        return _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    return _error(code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _error(code: ErrorCode, name: str | None, topic_id: bytes = NIL_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
    )
