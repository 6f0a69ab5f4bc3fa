"""OffsetFetch (9): reads groups' offsets; what was written last is waited for until it is committed.

Versions: 0 reads from ZooKeeper (`zookeeper_offsets.py`; a broker without it refuses with UNSUPPORTED_VERSION, as Kafka
3.9's do in KRaft mode), 2 null topics mean all, and errors of the group; 7 stable offsets only (KIP-447); 8 many
groups (KIP-709); 10 topics by id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from trimaran.broker.groups.offsets import NO_OFFSET, not_found
from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.loaded_groups import when_loaded
from trimaran.broker.handlers.zookeeper_offsets import ZOOKEEPER_VERSION, fetch_from_zookeeper
from trimaran.node.replicated.pending import PendingResponse
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.serving.authorization import may, may_with_topic
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.codec.declarations import EncodedArray, Struct
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.requests.slices import Slices

# Offsets answered in one step, 5 ms; with the longest metadata that Kafka's default allows they take 2 MiB.
OFFSETS_AT_ONCE_MAX = 500
TOPICS = Slices("topics.partition_indexes", "topics.partitions", OFFSETS_AT_ONCE_MAX)
GROUP_ERROR_VERSION = 2
MANY_GROUPS_VERSION = 8
TOPIC_ID_VERSION = 10

MaySee = Callable[[str], bool]


def _fail(request: OffsetFetchRequest, code: ErrorCode, _message: str) -> OffsetFetchResponse:
    groups = [
        OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
        for group in request.groups
    ]
    if groups:
        return OffsetFetchResponse(groups=groups)
    # Versions 0 and 1 can say it of partitions only.
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[_plain(not_found(i, code)) for i in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]
    return OffsetFetchResponse(error_code=code, topics=topics)


_topics_once = Once(
    "topics.partition_indexes", lambda topic: (topic.name, getattr(topic, "topic_id", NIL_UUID))
)


def _asked_once(request: OffsetFetchRequest) -> OffsetFetchRequest:
    """Each group, topic and partition once; a group of which all offsets are asked for anywhere is asked for all."""
    first: dict[str, OffsetFetchRequestGroup] = {}
    topics: dict[str, list[OffsetFetchRequestTopics] | None] = {}
    for group in request.groups:
        first.setdefault(group.group_id, group)
        before = topics.setdefault(group.group_id, [])
        if group.topics is None or before is None:
            topics[group.group_id] = None
        else:
            before += group.topics
    groups = [
        _topics_once(group.replace(topics=topics[group_id])) for group_id, group in first.items()
    ]
    whole: OffsetFetchRequest = _topics_once(request.replace(groups=groups))
    return whole


@handles(
    OffsetFetchRequest,
    versions="0-10",
    access=(
        groups(Operation.DESCRIBE, "group_id").in_handler("the one group of versions below 8"),
        groups(Operation.DESCRIBE, "groups.group_id", "groups"),
        topics(Operation.DESCRIBE).in_handler("topics of each group"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=_asked_once,
)
@when_loaded(lambda request: [one.group_id for one in request.groups] or [request.group_id], _fail)
def offset_fetch(
    request: OffsetFetchRequest, ctx: Context, call: Call
) -> OffsetFetchResponse | DeferredResponse[OffsetFetchResponse]:
    version = call.header.api_version
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE)
    own_group = Action(Operation.DESCRIBE, ResourceType.GROUP, request.group_id)
    if version < MANY_GROUPS_VERSION and not may(ctx, call, own_group):
        (group,) = _groups(request, version)
        refused = _group_error(group, ErrorCode.GROUP_AUTHORIZATION_FAILED, version)
        return _respond([refused], version)
    if version == ZOOKEEPER_VERSION:
        if ctx.zookeeper_offsets is not None:
            return DeferredResponse(lambda: fetch_from_zookeeper(request, ctx, may_see))
        groups = [
            _group_error(group, ErrorCode.UNSUPPORTED_VERSION, version)
            for group in _groups(request, version)
        ]
        return _respond(groups, version)
    if call.heavy or _count(request, ctx, version) > OFFSETS_AT_ONCE_MAX:
        return DeferredResponse(
            lambda: _of_many(request, ctx, call, may_see), on_error=partial(_fail, request)
        )
    stable = request.require_stable
    fetches = [
        _GroupFetch(group, ctx, version, may_see, stable) for group in _groups(request, version)
    ]
    if all(fetch.ready() for fetch in fetches):
        return _respond([fetch.answer() for fetch in fetches], version)

    async def finish() -> OffsetFetchResponse:
        return _respond([await fetch.finish() for fetch in fetches], version)

    return DeferredResponse(finish, ready=lambda: all(fetch.ready() for fetch in fetches))


def _count(request: OffsetFetchRequest, ctx: Context, version: int) -> int:
    """How many offsets are asked for; no more than somewhat above `OFFSETS_AT_ONCE_MAX` are counted."""
    count = 0
    for group in _groups(request, version):
        count += _count_of(group, ctx)
        if count > OFFSETS_AT_ONCE_MAX:
            break
    return count


def _count_of(group: OffsetFetchRequestGroup, ctx: Context) -> int:
    if group.topics is None:
        return sum(map(len, _committed(group, ctx).values()))
    return sum(len(topic.partition_indexes) for topic in group.topics)


def _committed(group: OffsetFetchRequestGroup, ctx: Context) -> Mapping[str, Collection[int]]:
    try:
        return ctx.groups.committed_partitions(group.group_id)
    except KafkaError:
        return {}  # whoever looks them up will say why


async def _of_many(
    request: OffsetFetchRequest, ctx: Context, call: Call, may_see: MaySee
) -> OffsetFetchResponse:
    """One group after the other, and some partitions of it after the other."""
    version, room = call.header.api_version, call.room()
    fetch = partial(
        _GroupFetch,
        ctx=ctx,
        version=version,
        may_see=may_see,
        require_stable=request.require_stable,
    )
    answers = EncodedArray()
    for group in _groups(request, version):
        before = room.size
        try:
            whole = await _of_group(group, ctx, call, may_see, fetch)
        except ResponseTooLarge as error:
            whole = _group_error(group, error.code, version)
        if version < MANY_GROUPS_VERSION:
            return _respond([whole], version)
        room.rewind(before)
        try:
            answers.append(await room.encoded_with(whole, "topics", whole.topics))
        except ResponseTooLarge as error:
            answers.append(room.refusal(_group_error(group, error.code, version)))
        await room.pause()
    return OffsetFetchResponse(groups=answers)


async def _of_group(
    group: OffsetFetchRequestGroup,
    ctx: Context,
    call: Call,
    may_see: MaySee,
    fetch: Callable[[OffsetFetchRequestGroup], _GroupFetch],
) -> OffsetFetchResponseGroup:
    """Its partitions are encoded."""
    whole: OffsetFetchResponseGroup | None = None
    room = call.room()
    wants_all = group.topics is None and _count_of(group, ctx) > OFFSETS_AT_ONCE_MAX
    if wants_all:
        group = _with_all_topics(group, ctx, may_see)
    for part, goes_on in TOPICS.of(group) if group.topics else [(group, False)]:
        await room.pause(_count_of(part, ctx) * OBJECT_BYTES)
        answer = await fetch(part).finish()
        if wants_all:
            _drop_unknown(answer)
        for topic in answer.topics:
            partitions: Iterable[Struct] = topic.partitions
            if call.header.api_version < MANY_GROUPS_VERSION:
                partitions = map(_plain, topic.partitions)
            topic.partitions = await room.encode(partitions)
        if whole is None or answer.error_code:
            whole = answer
        else:
            _join(whole.topics, answer.topics, goes_on)
        if whole.error_code:
            break
    assert whole is not None
    return whole


def _with_all_topics(
    group: OffsetFetchRequestGroup, ctx: Context, may_see: MaySee
) -> OffsetFetchRequestGroup:
    """Asks for them by name, which is done some at a time. Of topics that are gone nothing is told."""
    known = ctx.metadata.image.topics.by_name
    topics = [
        OffsetFetchRequestTopics(
            name=name, topic_id=known[name].id, partition_indexes=list(partitions)
        )
        for name, partitions in ctx.groups.committed_partitions(group.group_id).items()
        if name in known and may_see(name)
    ]
    return group.replace(topics=topics)


def _drop_unknown(group: OffsetFetchResponseGroup) -> None:
    """What was not committed for the topic of now, nobody has asked for by name."""
    for topic in group.topics:
        topic.partitions = [
            one for one in topic.partitions if one.committed_offset != NO_OFFSET or one.error_code
        ]
    group.topics = [topic for topic in group.topics if topic.partitions]


def _join(
    found: list[OffsetFetchResponseTopics], more: list[OffsetFetchResponseTopics], goes_on: bool
) -> None:
    """Adds answers about further topics; one of them may go on with one of before: those that are unknown come last, so
    any.
    """
    if goes_on:
        known = {(topic.name, topic.topic_id): topic for topic in found}
        for topic in more:
            before = known.get((topic.name, topic.topic_id))
            if before is None:
                found.append(topic)
            else:
                before.partitions.extend(topic.partitions)
    else:
        found.extend(more)


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    if version >= MANY_GROUPS_VERSION:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


class _GroupFetch:
    """One group of a request: refused, or found and waiting to be committed."""

    def __init__(
        self,
        group: OffsetFetchRequestGroup,
        ctx: Context,
        version: int,
        may_see: MaySee,
        require_stable: bool,
    ) -> None:
        self._image = ctx.metadata.image
        self._group = group
        self._version = version
        self._may_see = may_see
        self._failed: list[OffsetFetchResponseTopics] = []
        self._refused: ErrorCode | None = None
        self._pending: PendingResponse[OffsetFetchResponseGroup] | None = None
        asked = group
        if group.topics is not None:
            asked = group.replace(topics=self._admitted(group.topics))
        try:
            self._pending = ctx.groups.fetch_offsets(asked, require_stable=require_stable)
        except KafkaError as error:
            self._refused = error.code

    def _admitted(
        self, topics: Iterable[OffsetFetchRequestTopics]
    ) -> list[OffsetFetchRequestTopics]:
        """Those that may be seen, with the names of those given by id; the others are answered with an error."""
        admitted = []
        for topic in topics:
            if self._version >= TOPIC_ID_VERSION:
                found = self._image.topics.by_id.get(topic.topic_id)
                if found is None:
                    self._failed.append(_failed(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                    continue
                topic.name = found.name
            if self._may_see(topic.name):
                admitted.append(topic)
            else:
                self._failed.append(_failed(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        return admitted

    def ready(self) -> bool:
        return self._pending is None or self._pending.ready()

    def answer(self) -> OffsetFetchResponseGroup:
        """What is known; only when `ready`."""
        if self._refused is not None:
            return _group_error(self._group, self._refused, self._version)
        assert self._pending is not None
        response = self._pending.response
        if self._group.topics is None:
            response.topics = [one for one in response.topics if self._may_see(one.name)]
        if self._version >= TOPIC_ID_VERSION and self._group.topics is None:
            response.topics = _with_ids(response.topics, self._image)
        response.topics += self._failed
        return response

    async def finish(self) -> OffsetFetchResponseGroup:
        if self._pending is not None:
            try:
                await self._pending.wait()
            except KafkaError:
                # Consumers before 3.9 do not retry COORDINATOR_NOT_AVAILABLE here.
                self._refused = ErrorCode.NOT_COORDINATOR
        return self.answer()


def _with_ids(
    topics: list[OffsetFetchResponseTopics], image: MetadataImage
) -> list[OffsetFetchResponseTopics]:
    """Fills ids in; topics that are gone have none and cannot be told of."""
    known = []
    for topic in topics:
        found = image.topics.by_name.get(topic.name)
        if found is not None:
            topic.topic_id = found.id
            known.append(topic)
    return known


def _group_error(
    group: OffsetFetchRequestGroup, code: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    """Versions 0 and 1 can say it of partitions only."""
    if version >= GROUP_ERROR_VERSION:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
    topics = [_failed(topic, code) for topic in group.topics or ()]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _failed(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[not_found(index, code) for index in topic.partition_indexes],
    )


def _respond(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= MANY_GROUPS_VERSION:
        return OffsetFetchResponse(groups=groups)
    group = groups[0]
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=topic.partitions
            if isinstance(topic.partitions, EncodedArray)
            else [_plain(partition) for partition in topic.partitions],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _plain(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """As versions of one group say it."""
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
