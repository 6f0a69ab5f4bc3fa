"""Metadata (3): brokers, topics, who leads; creates missing topics if that is configured.

Versions: 1 null for all topics, racks, controller; 2 cluster id; 4 may forbid creation; 5 offline replicas; 7 leader
epochs; 8 authorized operations; 10 topic ids in answers, 12 in requests; 13 an error of the whole.
Source: `KafkaApis.handleTopicMetadataRequest`, `KRaftMetadataCache`. As in Kafka the "controller" is a broker that is
alive: clients send it admin requests, and it forwards them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from trimaran.broker.handlers.context import AdminContext
from trimaran.broker.metadata.endpoints import endpoint_of
from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.seen_topics import EVERYBODY, Asker
from trimaran.broker.metadata.topic_views import TopicView, ViewKey
from trimaran.node.runtime.steps import pieces
from trimaran.quorum.metadata.image import MetadataImage, TopicImage
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.serving.audit import tells_what_is_allowed
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.quorum.serving.authorized_operations import (
    NOT_ASKED,
    authorized_operations,
    cluster_operations,
)
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.memory.room import FREE_BYTES, Room
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call, CloseConnection, DeferredResponse, finished
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.guard import JUDGED_PER_TURN
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.requests.slices import Slices
from trimaran.wire.transport.scheduling.events import yield_to_loop

NO_CONTROLLER = -1
# Topics whose operations are judged between two checkpoints, eight each: 5 ms of work.
TOLD_PER_TURN = 200
# Of topics that who asks may not see no operations are told.
_OF_UNSEEN = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID})

MaySee = Callable[[str], bool]
Topics = list[TopicImage | MetadataResponseTopic]


def _fail(request: MetadataRequest, code: ErrorCode, _message: str) -> MetadataResponse:
    if not request.topics:  # of all topics: none and no error would say that there are none
        raise CloseConnection(f"Metadata of all topics failed: {code.name}")
    # The name is none where a request names ids, or wrongly nothing; answers below version 12 cannot say so.
    topics = [_error(code, one.name or "", one.topic_id) for one in request.topics]
    return MetadataResponse(brokers=[], topics=topics, error_code=code)


def _named(topic: MetadataRequestTopic) -> bytes | str | None:
    """Beside an id a name says nothing."""
    return topic.name if topic.topic_id == NIL_UUID else topic.topic_id


@handles(
    MetadataRequest,
    versions="0-13",
    access=(
        topics(Operation.DESCRIBE, "topics.name", listed="topics.name").in_handler(
            "topics by id, too, and before the answer is encoded"
        ),
        topics(Operation.CREATE).or_cluster(Operation.CREATE).in_handler("topics that it creates"),
    ),
    on_error=_fail,
    slices=Slices("topics", "topics"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("topics", _named),
)
def metadata(
    request: MetadataRequest, ctx: AdminContext, call: Call
) -> MetadataResponse | DeferredResponse[MetadataResponse]:
    version = call.header.api_version
    if version in (10, 11):
        _check_names_only(request.topics or [])
    wants_all = _wants_all(request, version)
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=not wants_all)
    if wants_all:
        return _of_all(request, ctx, call, may_see)
    missing = _missing(request, ctx, may_see)
    if not missing:
        image = ctx.metadata.image
        return _answer(request, ctx, call, image, _wanted(request, image, may_see, {}))

    async def finish() -> MetadataResponse:
        codes = await _created(missing, ctx, call)
        image = ctx.metadata.image
        wanted = _wanted(request, image, may_see, codes)
        return await finished(_answer(request, ctx, call, image, wanted))

    return DeferredResponse(finish, on_error=partial(_fail, request))


def _of_all(
    request: MetadataRequest, ctx: AdminContext, call: Call, may_see: MaySee
) -> MetadataResponse | DeferredResponse[MetadataResponse]:
    image = ctx.metadata.image
    if _is_kept(request):
        seen = _view(ctx, call, image).seen
        kept = seen.find(_asker(ctx, call), image.topics, _acls_epoch(ctx))
        if kept is not None:
            return _within_room(request, ctx, call, image, kept)
    judging = partial(_judged, request, ctx, call, may_see)
    return DeferredResponse(judging, on_error=partial(_fail, request))


def _acls_epoch(ctx: AdminContext) -> int:
    return 0 if ctx.authorizer is None else ctx.authorizer.epoch


def _is_kept(request: MetadataRequest) -> bool:
    """Not where each verdict is to be told or logged."""
    return not (request.include_topic_authorized_operations or tells_what_is_allowed())


def _asker(ctx: AdminContext, call: Call) -> Asker:
    """Without an authorizer all see the same."""
    if ctx.authorizer is None:
        return EVERYBODY
    connection = call.connection
    return Asker(connection.principal, connection.peer[0])


async def _judged(
    request: MetadataRequest, ctx: AdminContext, call: Call, may_see: MaySee
) -> MetadataResponse:
    """The topics that who asks may see, judged some at a time."""
    image, epoch = ctx.metadata.image, _acls_epoch(ctx)
    seen: Topics = []
    for some in pieces([*image.topics.by_name.values()], JUDGED_PER_TURN):
        seen += [topic for topic in some if may_see(topic.name)]
        await yield_to_loop()
    answer = await finished(_answer(request, ctx, call, image, seen))
    if _is_kept(request) and _acls_epoch(ctx) == epoch:
        topics = cast(EncodedArray, answer.topics)
        _view(ctx, call, image).seen.keep(_asker(ctx, call), image.topics, epoch, topics)
    return answer


def _check_names_only(topics: list[MetadataRequestTopic]) -> None:
    if any(topic.name is None or topic.topic_id != NIL_UUID for topic in topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "topic ids are not for versions 10 and 11")


def _wants_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _missing(request: MetadataRequest, ctx: AdminContext, may_see: MaySee) -> list[str]:
    """Names to create; illegal ones, too, of which only who may create them is told more."""
    if not request.allow_auto_topic_creation or not ctx.config["auto.create.topics.enable"]:
        return []
    known = ctx.metadata.image.topics.by_name
    names = dict.fromkeys(topic.name for topic in request.topics or [] if topic.name is not None)
    return [name for name in names if name not in known and may_see(name)]


async def _created(missing: list[str], ctx: AdminContext, call: Call) -> dict[str, ErrorCode]:
    """What is told of the missing topics, by name. As in Kafka one that was created just now is unknown in this answer:
    clients ask again, and some rely on that.
    """
    may_create = may_with_topic(ctx, call, Operation.CREATE, or_cluster=Operation.CREATE)
    codes = {name: ErrorCode.TOPIC_AUTHORIZATION_FAILED for name in missing if not may_create(name)}
    left = [name for name in missing if name not in codes and why_illegal(name) is None]
    created = await ctx.topic_creation.create(left, call) if left else {}
    return codes | {
        name: code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for name, code in created.items()
    }


def _view(ctx: AdminContext, call: Call, image: MetadataImage) -> TopicView:
    return ctx.topic_views.of(image, ViewKey(call.header.api_version, call.connection.listener))


def _answer(
    request: MetadataRequest, ctx: AdminContext, call: Call, image: MetadataImage, topics: Topics
) -> MetadataResponse | DeferredResponse[MetadataResponse]:
    view = _view(ctx, call, image)
    told: dict[str, int] | None = None
    if request.include_topic_authorized_operations:
        told = {}

    def tell(some: Topics) -> None:
        if told is not None:
            for topic in some:
                if isinstance(topic, TopicImage) or topic.error_code not in _OF_UNSEEN:
                    name = topic.name or ""
                    told[name] = authorized_operations(ctx, call, ResourceType.TOPIC, name)

    images = [topic for topic in topics if isinstance(topic, TopicImage)]
    if view.is_little_work(images) and (told is None or len(topics) <= TOLD_PER_TURN):
        tell(topics)
        return _within_room(request, ctx, call, image, view.encoded(topics, told))

    async def finish() -> MetadataResponse:
        for some in pieces(topics, TOLD_PER_TURN) if told is not None else ():
            tell(some)
            await yield_to_loop()
        await view.fill(images)
        found = _within_room(request, ctx, call, image, view.encoded(topics, told))
        try:
            return await finished(found)
        except ResponseTooLarge as error:
            if request.topics:
                raise
            return _response(request, ctx, call, image, _each_refused(topics, error, call.room()))

    return DeferredResponse(finish, on_error=partial(_fail, request))


def _each_refused(topics: Topics, error: KafkaError, room: Room) -> EncodedArray:
    """Before version 13 an error of the whole cannot be said; that there are no topics must not be."""
    return EncodedArray(room.refusal(_error(error.code, topic.name)) for topic in topics)


def _within_room(
    request: MetadataRequest,
    ctx: AdminContext,
    call: Call,
    image: MetadataImage,
    topics: EncodedArray,
) -> MetadataResponse | DeferredResponse[MetadataResponse]:
    """A large response waits for memory, although its topics are shared: peers take copies."""
    size = sum(map(len, topics))

    async def finish() -> MetadataResponse:
        room = call.room()
        room.take(size)
        await room.pause()
        return _response(request, ctx, call, image, topics)

    if size > FREE_BYTES or call.heavy:
        return DeferredResponse(finish, on_error=partial(_fail, request))
    return _response(request, ctx, call, image, topics)


def _response(
    request: MetadataRequest,
    ctx: AdminContext,
    call: Call,
    image: MetadataImage,
    topics: EncodedArray,
) -> MetadataResponse:
    brokers = _brokers(ctx.metadata, image, call.connection.listener)
    alive = {one.node_id for one in brokers if not image.cluster.brokers[one.node_id].fenced}
    operations = (
        cluster_operations(ctx, call)
        if request.include_cluster_authorized_operations
        else NOT_ASKED
    )
    return MetadataResponse(
        brokers=brokers,
        cluster_id=ctx.cluster_id,
        controller_id=ctx.node_id if ctx.node_id in alive else min(alive, default=NO_CONTROLLER),
        topics=topics,
        cluster_authorized_operations=operations,
    )


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
    request: MetadataRequest,
    image: MetadataImage,
    may_see: MaySee,
    created: Mapping[str, ErrorCode],
) -> Topics:
    """The topics asked for, or an error in the place of one."""
    return [
        _by_name(topic.name or "", image, may_see, created)
        if topic.topic_id == NIL_UUID
        else _by_id(topic.topic_id, image, may_see)
        for topic in request.topics or []
    ]


def _by_id(
    topic_id: bytes, image: MetadataImage, may_see: MaySee
) -> TopicImage | MetadataResponseTopic:
    """Ids are no secret, the names of topics are."""
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
