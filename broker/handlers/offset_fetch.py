"""OffsetFetch (9): returns groups' offsets, after the last written ones have been committed.

Versions: 0 reads from ZooKeeper (`zookeeper_offsets.py`; a broker without ZooKeeper returns UNSUPPORTED_VERSION, as
Kafka 3.9 does in KRaft mode), 2 null topics mean all, and group-level errors; 7 stable offsets only (KIP-447); 8 many
groups (KIP-709); 10 topics by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from trimaran.broker.groups.offsets import not_found
from trimaran.broker.handlers.batches import in_batches
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.zookeeper_offsets import ZOOKEEPER_VERSION, fetched_from_zookeeper
from trimaran.node.replicated.pending import settled
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import may, may_with_topic
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.codec.declarations import EncodedArray
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
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling

# With the longest metadata that Kafka allows by default, this number of offsets takes 2 MiB before encoding, and 5 ms
# of work.
OFFSETS_PER_BATCH = 500
# The size of a topic in the response, without its name and its partitions.
TOPIC_BYTES = 24
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
    # Versions 0 and 1 only have errors of partitions.
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
    """Returns the request with each group, topic and partition named once; null topics in any entry of a group count
    for all.
    """
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
def offset_fetch(
    request: OffsetFetchRequest, ctx: GroupContext, call: Call
) -> Handling[OffsetFetchResponse]:
    yield from loaded(ctx, [group.group_id for group in request.groups] or [request.group_id])
    version, room = call.header.api_version, call.room()
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE)
    if version < MANY_GROUPS_VERSION:
        group = _one_group(request)
        refused = ErrorCode.NONE
        if not may(ctx, call, Action(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)):
            refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif version == ZOOKEEPER_VERSION and ctx.zookeeper_offsets is None:
            refused = ErrorCode.UNSUPPORTED_VERSION
        elif version == ZOOKEEPER_VERSION:
            return (yield from fetched_from_zookeeper(request, ctx, call, may_see))
        if refused:
            found = _group_error(group, refused, version)
        else:
            found = yield from _fetched(group, request.require_stable, ctx, call, may_see)
        return _of_one_group(found)
    responses = EncodedArray()
    for group in request.groups:
        before = room.size
        found = yield from _fetched(group, request.require_stable, ctx, call, may_see)
        room.rewind(before)  # the encoded group includes its topics
        try:
            responses.append((yield from room.encoding_with(found, "topics", found.topics)))
        except ResponseTooLarge as error:
            responses.append(room.refusal(_group_error(group, error.code, version)))
        yield None
    return OffsetFetchResponse(groups=responses)


def _fetched(
    group: OffsetFetchRequestGroup, is_stable: bool, ctx: GroupContext, call: Call, may_see: MaySee
) -> Handling[OffsetFetchResponseGroup]:
    """Returns one group of the response with encoded partitions, or with its error."""
    try:
        topics = yield from _topics(group, is_stable, ctx, call, may_see)
    except KafkaError as error:
        return _group_error(group, error.code, call.header.api_version)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _topics(
    group: OffsetFetchRequestGroup, is_stable: bool, ctx: GroupContext, call: Call, may_see: MaySee
) -> Handling[list[OffsetFetchResponseTopics]]:
    """Returns the topics that the client may see, followed by the refused ones. Raises KafkaError if this broker does
    not serve the group, or the response would be too large.
    """
    version, room = call.header.api_version, call.room()
    if group.topics is None:
        asked: Iterable[OffsetFetchRequestTopics] = _committed(group, ctx, may_see)
    else:
        asked = group.topics
    admitted, refused = [], []
    for topic in asked:
        code = _admit(topic, ctx, version, may_see)
        response = OffsetFetchResponseTopics(
            name=topic.name, topic_id=topic.topic_id, partitions=EncodedArray()
        )
        room.take(TOPIC_BYTES + len(topic.name))
        if code:
            partitions = (not_found(index, code) for index in topic.partition_indexes)
            response.partitions = yield from room.encoding(_shown(partitions, version))
            refused.append(response)
        else:
            admitted.append((response, topic.partition_indexes))
        yield None
    for batch in [*in_batches(admitted, OFFSETS_PER_BATCH)] or [[]]:
        room.expect(sum(len(indexes) for _, indexes in batch) * OBJECT_BYTES)
        yield None
        found = yield from _read(group, batch, is_stable, ctx)
        for (response, _), fetched in zip(batch, found.topics, strict=True):
            offsets = _shown(fetched.partitions, version)
            response.partitions += yield from room.encoding(offsets)
    return [*(response for response, _ in admitted), *refused]


def _read(
    group: OffsetFetchRequestGroup,
    batch: Iterable[tuple[OffsetFetchResponseTopics, Sequence[int]]],
    is_stable: bool,
    ctx: GroupContext,
) -> Handling[OffsetFetchResponseGroup]:
    """Returns the offsets of a batch as soon as they are committed."""
    topics = [
        OffsetFetchRequestTopics(
            name=response.name, topic_id=response.topic_id, partition_indexes=[*indexes]
        )
        for response, indexes in batch
    ]
    pending = ctx.groups.fetch_offsets(group.replace(topics=topics), require_stable=is_stable)
    try:
        return (yield from settled(pending))
    except KafkaError:
        # Consumers before 3.9 do not retry COORDINATOR_NOT_AVAILABLE here.
        raise KafkaError(ErrorCode.NOT_COORDINATOR) from None


def _committed(
    group: OffsetFetchRequestGroup, ctx: GroupContext, may_see: MaySee
) -> Iterator[OffsetFetchRequestTopics]:
    """Yields all committed offsets of the group for topics that exist and may be seen.

    Raises:
        KafkaError: this broker does not serve the group.
    """
    known = ctx.metadata.image.topics.by_name
    for name, values in list(ctx.groups.committed_partitions(group.group_id).items()):
        if name not in known or not may_see(name):
            continue
        topic_id = known[name].id
        # Offsets with another topic id belong to a deleted topic of this name.
        indexes = [i for i, value in values.items() if value.topic_id in (NIL_UUID, topic_id)]
        if indexes:
            yield OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)


def _admit(
    topic: OffsetFetchRequestTopics, ctx: GroupContext, version: int, may_see: MaySee
) -> ErrorCode:
    """Returns NONE or the code for a refused topic. Fills in the name of a topic that the request names by id."""
    if version >= TOPIC_ID_VERSION:
        found = ctx.metadata.image.topics.by_id.get(topic.topic_id)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = found.name
    return ErrorCode.NONE if may_see(topic.name) else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _one_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Returns the only group of a request in a single-group version."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _of_one_group(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Returns the response in a single-group version."""
    topics: list[OffsetFetchResponseTopic] = []
    for topic in group.topics:
        plain: Any = topic.partitions  # made by `_shown`
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=plain))
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _group_error(
    group: OffsetFetchRequestGroup, code: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    """Returns the group with the error; versions 0 and 1 only have errors of partitions."""
    if version >= GROUP_ERROR_VERSION:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
    topics = []
    for topic in group.topics or ():
        refused = (not_found(index, code) for index in topic.partition_indexes)
        partitions: Any = list(_shown(refused, version))
        topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _shown(
    partitions: Iterable[OffsetFetchResponsePartitions], version: int
) -> Iterable[OffsetFetchResponsePartitions | OffsetFetchResponsePartition]:
    return partitions if version >= MANY_GROUPS_VERSION else map(_plain, partitions)


def _plain(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """Converts a partition to the form of single-group versions."""
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
