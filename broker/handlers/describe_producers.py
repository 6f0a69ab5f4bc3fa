"""DescribeProducers (61): lists the idempotent producers of partitions and the start offsets of their open transactions
(KIP-664).

Any replica can answer. Source: `KafkaApis.handleDescribeProducersRequest`, `UnifiedLog.activeProducers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import starmap
from operator import attrgetter

from trimaran.broker.handlers.context import DataContext
from trimaran.log.producers.entry import ProducerEntry
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_SEQUENCE, ProducerId, TopicPartition
from trimaran.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import Room
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

# The estimated memory of one entry of the list.
ENTRY_BYTES = 64


def _fail(
    request: DescribeProducersRequest, code: ErrorCode, message: str
) -> DescribeProducersResponse:
    error = KafkaError(code, message)
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_failed(index, error) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


@handles(
    DescribeProducersRequest,
    versions="0",
    access=topics(Operation.READ).in_handler("an unknown topic is reported first"),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("topics.partition_indexes", attrgetter("name")),
)
def describe_producers(
    request: DescribeProducersRequest, ctx: DataContext, call: Call
) -> Handling[DescribeProducersResponse]:
    may_read = may_with_topic(ctx, call, Operation.READ)
    room, found = call.room(), []
    for topic in request.topics:
        partitions = EncodedArray()
        for index in topic.partition_indexes:
            key = TopicPartition(topic.name, index)
            try:
                producers = yield from _producers(key, ctx, may_read, room)
                head = PartitionResponse(partition_index=index, active_producers=[])
                partition = yield from room.encoding_with(head, "active_producers", producers)
            except KafkaError as error:
                partition = room.refusal(_failed(index, error))
            partitions.append(partition)
            yield None
        found.append(TopicResponse(name=topic.name, partitions=partitions))
        yield None  # a topic may have no partition
    return DescribeProducersResponse(topics=found)


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=error.code,
        error_message=error.message,
        active_producers=[],
    )


def _producers(
    key: TopicPartition, ctx: DataContext, may_read: Callable[[str], bool], room: Room
) -> Handling[Iterator[ProducerState]]:
    """Returns the current producers of the partition. Raises KafkaError if this broker has no replica or access is
    denied.
    """
    if (why := why_illegal(key.topic)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if not may_read(key.topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = ctx.partitions.hosted(key)
    if partition.is_new:  # a read-only request creates no log
        return iter(())
    if partition.must_check:
        yield Blocking(partition.check)
    room.expect(len(partition.log.producers) * ENTRY_BYTES)
    yield None
    return starmap(_shown, list(partition.log.producers.entries()))


def _shown(producer_id: ProducerId, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_start,  # in both fields -1 means none
    )
