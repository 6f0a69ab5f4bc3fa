"""DescribeTopicPartitions (75): partitions of topics with their eligible leader replicas, page by page (KIP-966).

Topics and their partitions are sorted; `next_cursor` is the start of the next page, if any. `kafka-topics --describe`
sends this request. Source: Kafka's `DescribeTopicPartitionsRequestHandler`, `KRaftMetadataCache.describeTopicResponse`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from trimaran.broker.handlers.context import AdminContext
from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.metadata.reachable import Reachable
from trimaran.quorum.metadata.image import PartitionImage, TopicImage, TopicsImage
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.quorum.serving.authorized_operations import authorized_operations
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import CloseConnection, ErrorCode
from trimaran.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.memory.room import JUDGED_WORK, Room
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import ITEM_COST_BYTES, Compute, Handling

# The size of a topic with the longest name, without its partitions.
TOPIC_BYTES = 300


def _fail(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, _message: str
) -> DescribeTopicPartitionsResponse:
    if (
        not request.topics
    ):  # a request for all topics; an empty response would mean that there are none
        raise CloseConnection(f"DescribeTopicPartitions of all topics failed: {code.name}")
    return DescribeTopicPartitionsResponse(
        topics=[_error(code, topic.name) for topic in request.topics]
    )


@handles(
    DescribeTopicPartitionsRequest,
    versions="0",
    access=topics(Operation.DESCRIBE, "topics.name", listed="topics.name").in_handler(
        "pages contain only visible topics"
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ctx: AdminContext, call: Call
) -> Handling[DescribeTopicPartitionsResponse]:
    image = ctx.metadata.image
    limit = max(
        1,
        min(request.response_partition_limit, ctx.config["max.request.partition.size.limit"]),
    )
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE)
    reachable = Reachable(image.cluster, call.connection.listener)
    page = _Page(image.topics, reachable, limit, may_see, call.room())
    # The names for one page and the start of the next; with an authorizer, all names, since some may be hidden.
    most = limit + 1 if ctx.authorizer is None else len(image.topics.by_name)
    names: list[str] | None = yield Compute(
        ITEM_COST_BYTES * (len(request.topics) or len(image.topics.by_name)),
        lambda: _names(request, image.topics, most),
    )
    if names is None:
        page.topics += [_error(ErrorCode.INVALID_REQUEST, topic.name) for topic in request.topics]
    else:
        yield from page.fill(names, request.cursor, skips_unknown=not request.topics)
    for topic in page.topics:
        topic.topic_authorized_operations = authorized_operations(
            ctx, call, ResourceType.TOPIC, topic.name or ""
        )
        yield None
    return DescribeTopicPartitionsResponse(
        topics=page.topics + page.refused, next_cursor=page.next_cursor
    )


def _is_misplaced(request: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor names no partition, or a topic that was not requested."""
    cursor = request.cursor
    if cursor is None:
        return False
    asked = {topic.name for topic in request.topics}
    return cursor.partition_index < 0 or bool(asked and cursor.topic_name not in asked)


def _names(
    request: DescribeTopicPartitionsRequest, topics: TopicsImage, most: int
) -> list[str] | None:
    """Returns the sorted names from the cursor on, at most `most` if all topics are requested; None if the cursor is
    misplaced.
    """
    if _is_misplaced(request):
        return None
    start = request.cursor.topic_name if request.cursor is not None else ""
    if request.topics:
        return sorted({topic.name for topic in request.topics if topic.name >= start})
    return heapq.nsmallest(most, (name for name in topics.by_name if name >= start))


def _first_partition(name: str, cursor: Cursor | None) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


class _Page:
    """A response being built, with room for `limit` partitions; a full response also ends the page."""

    def __init__(
        self,
        topics: TopicsImage,
        reachable: Reachable,
        limit: int,
        may_see: Callable[[str], bool],
        room: Room,
    ) -> None:
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.refused: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None
        self._image = topics
        self._reachable = reachable
        self._left = limit
        self._room = room
        self._may_see = may_see

    def fill(
        self, names: list[str], cursor: Cursor | None, *, skips_unknown: bool
    ) -> Handling[None]:
        """Fills the page; authorizes all requested names, even those after the page is full."""
        for name in names:
            self._room.worked(JUDGED_WORK)
            yield None
            if not self._may_see(name):
                if not skips_unknown:
                    self.refused.append(_refused(name))
                continue
            if self.next_cursor is not None:
                continue
            topic = self._image.by_name.get(name)
            if self._left == 0:
                self.next_cursor = Cursor(topic_name=name, partition_index=0)
            elif topic is not None:
                yield from self._add(topic, _first_partition(name, cursor))
            elif not skips_unknown:
                self.topics.append(_unknown(name))
            if self.next_cursor is not None and skips_unknown:
                return

    def _add(self, topic: TopicImage, first: int) -> Handling[None]:
        indexes = sorted(index for index in topic.partitions if index >= first)
        partitions = EncodedArray()
        for index in indexes[: self._left]:
            try:
                self._room.take(TOPIC_BYTES if not partitions else 0)
                partitions.append(
                    self._room.encoded(self._partition(index, topic.partitions[index]))
                )
            except ResponseTooLarge:
                self._left = len(partitions)
                break
            yield None
        self._left -= len(partitions)
        left = indexes[len(partitions) :]
        if left:
            self.next_cursor = Cursor(topic_name=topic.name, partition_index=left[0])
        if left and not partitions:
            return
        self.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=topic.name,
                topic_id=topic.id,
                is_internal=topic.name in INTERNAL_TOPICS,
                partitions=partitions,
            )
        )

    def _partition(
        self, index: int, state: PartitionImage
    ) -> DescribeTopicPartitionsResponsePartition:
        return DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=self._reachable.leader(state),
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            eligible_leader_replicas=list(state.elr),
            last_known_elr=list(state.last_known_elr),
            offline_replicas=self._reachable.offline(state),
        )


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Returns a topic without any details, not even whether the topic is internal."""
    return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name).replace(is_internal=False)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_legal = why_illegal(name) is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _error(code, name)


def _error(code: ErrorCode, name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=NIL_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
    )
