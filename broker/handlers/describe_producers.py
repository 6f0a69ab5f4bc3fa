"""DescribeProducers (61): who writes idempotently to partitions, and whose transactions are open there since which
offset (KIP-664).

Any replica answers. Source: `KafkaApis.handleDescribeProducersRequest`, `UnifiedLog.activeProducers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import starmap
from operator import attrgetter

from trimaran.broker.handlers.context import DataContext
from trimaran.broker.partitions.opening import OPENED_PER_TURN
from trimaran.log.producers.entry import ProducerEntry
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import ITEM_BYTES, STEP_BYTES, Room
from trimaran.wire.transport.requests.access import topics
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once

NO_SEQUENCE = -1
# To open a log takes as much as to show so many producers.
OPENING_WORK = STEP_BYTES // ITEM_BYTES // OPENED_PER_TURN
# What keeping an entry of now takes.
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
    access=topics(Operation.READ).in_handler("a name that no topic has is told so first"),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("topics.partition_indexes", attrgetter("name")),
)
def describe_producers(
    request: DescribeProducersRequest, ctx: DataContext, call: Call
) -> DeferredResponse[DescribeProducersResponse]:
    may_read = may_with_topic(ctx, call, Operation.READ)
    room = call.room()

    async def one(topic: str, index: int) -> bytes:
        try:
            producers = await _producers(topic, index, ctx, may_read, room)
            head = PartitionResponse(partition_index=index, active_producers=[])
            return await room.encoded_with(head, "active_producers", producers)
        except KafkaError as error:
            return room.refusal(_failed(index, error))

    async def finish() -> DescribeProducersResponse:
        found = []
        for topic in request.topics:
            partitions = EncodedArray()
            for index in topic.partition_indexes:
                partitions.append(await one(topic.name, index))
                await room.pause()
            found.append(TopicResponse(name=topic.name, partitions=partitions))
        return DescribeProducersResponse(topics=found)

    return DeferredResponse(finish, on_error=partial(_fail, request))


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=error.code,
        error_message=error.message,
        active_producers=[],
    )


async def _producers(
    topic: str, index: int, ctx: DataContext, may_read: Callable[[str], bool], room: Room
) -> Iterator[ProducerState]:
    """Those of now, each shown when its turn comes. Raises KafkaError: why they are not told here."""
    if (why := why_illegal(topic)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if not may_read(topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = ctx.partitions.hosted(topic, index)
    if partition.is_new:  # a read-only request creates no log
        return iter(())
    if partition.must_check:
        await partition.check()
    if partition.open_log is None:
        room.worked(OPENING_WORK)
    await room.pause(len(partition.log.producers) * ENTRY_BYTES)
    return starmap(_shown, list(partition.log.producers.entries()))


def _shown(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_start,  # -1 for none, here too
    )
