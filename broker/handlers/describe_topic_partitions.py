"""DescribeTopicPartitions (75): partitions of topics with their eligible leader replicas, page by page (KIP-966).

Topics and their partitions come in order; `next_cursor` says where the next page begins, if there is one. What `kafka-topics --describe` asks.
Source: Kafka's `DescribeTopicPartitionsRequestHandler`, `KRaftMetadataCache.describeTopicResponse`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from broker.handlers.context import Context
from broker.metadata.internal_topics import INTERNAL_TOPICS
from broker.metadata.operations import TOPIC_OPERATIONS
from broker.metadata.reachable import Reachable
from broker.metadata.topic_views import PARTITIONS_PER_TURN
from node.runtime.steps import yield_to_loop
from quorum.metadata.image import PartitionImage, TopicImage, TopicsImage
from quorum.metadata.topic_names import why_illegal
from wire.declarations import EncodedArray
from wire.errors import ErrorCode
from wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from wire.primitives import NIL_UUID
from wire.schema import encode_element
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles

VERSION = 0


@handles(DescribeTopicPartitionsRequest, versions="0")
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ctx: Context, call: Call
) -> DescribeTopicPartitionsResponse | Parked[DescribeTopicPartitionsResponse]:
    if _is_misplaced(request):
        refused = [_error(ErrorCode.INVALID_REQUEST, topic.name) for topic in request.topics]
        return DescribeTopicPartitionsResponse(topics=refused)
    image = ctx.metadata.image
    limit = max(
        1,
        min(request.response_partition_limit, ctx.config["max.request.partition.size.limit"]),
    )
    page = _Page(image.topics, Reachable(image.cluster, call.connection.listener), limit)
    names = _names(request, image.topics, limit)

    async def finish() -> DescribeTopicPartitionsResponse:
        for _ in page.fill(names, request.cursor, skips_unknown=not request.topics):
            await yield_to_loop()
        return DescribeTopicPartitionsResponse(topics=page.topics, next_cursor=page.next_cursor)

    return Parked(finish)


def _is_misplaced(request: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor is at no partition, or in none of the topics that are asked for."""
    cursor = request.cursor
    if cursor is None:
        return False
    asked = {topic.name for topic in request.topics}
    return cursor.partition_index < 0 or bool(asked and cursor.topic_name not in asked)


def _names(request: DescribeTopicPartitionsRequest, topics: TopicsImage, limit: int) -> list[str]:
    """In order from the cursor on; of all topics no more than a page and one, as each has a partition."""
    start = request.cursor.topic_name if request.cursor is not None else ""
    if request.topics:
        return sorted({topic.name for topic in request.topics if topic.name >= start})
    return heapq.nsmallest(limit + 1, (name for name in topics.by_name if name >= start))


def _first_partition(name: str, cursor: Cursor | None) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


class _Page:
    """An answer in the making, with room for `limit` partitions."""

    def __init__(self, topics: TopicsImage, reachable: Reachable, limit: int) -> None:
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None
        self._image = topics
        self._reachable = reachable
        self._room = limit

    def fill(
        self, names: list[str], cursor: Cursor | None, *, skips_unknown: bool
    ) -> Iterator[None]:
        """Yields at the end of each turn."""
        for name in names:
            if self._room == 0:
                self.next_cursor = Cursor(topic_name=name, partition_index=0)
                return
            topic = self._image.by_name.get(name)
            if topic is not None:
                yield from self._add(topic, _first_partition(name, cursor))
            elif not skips_unknown:
                self.topics.append(_unknown(name))
            if self.next_cursor is not None:
                return

    def _add(self, topic: TopicImage, first: int) -> Iterator[None]:
        indexes = sorted(index for index in topic.partitions if index >= first)
        shown, left = indexes[: self._room], indexes[self._room :]
        partitions = EncodedArray()
        for done, index in enumerate(shown, 1):
            one = self._partition(index, topic.partitions[index])
            partitions.append(encode_element(one, DescribeTopicPartitionsResponse, VERSION))
            if done % PARTITIONS_PER_TURN == 0:
                yield
        self._room -= len(shown)
        self.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=topic.name,
                topic_id=topic.id,
                is_internal=topic.name in INTERNAL_TOPICS,
                partitions=partitions,
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        if left:
            self.next_cursor = Cursor(topic_name=topic.name, partition_index=left[0])

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
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
