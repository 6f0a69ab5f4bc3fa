"""DescribeProducers (61): who writes idempotently to partitions, and whose transactions are open there since which
offset (KIP-664).

Any replica answers. Source: `KafkaApis.handleDescribeProducersRequest`, `UnifiedLog.activeProducers`.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.handlers.context import Context
from broker.partitions.opening import OPENED_PER_TURN
from log.producers.entry import ProducerEntry
from node.runtime.turns import piece_by_piece
from quorum.metadata.topic_names import why_illegal
from quorum.serving.authorization import may_with_topic
from wire.errors import ErrorCode, KafkaError
from wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from wire.security.acls import Operation
from wire.transport.access import topics
from wire.transport.calls import Call, DeferredResponse
from wire.transport.events import yield_to_loop
from wire.transport.heavy import PARTITIONS_ELEMENTS_MAX
from wire.transport.registry import handles
from wire.transport.slices import Slices

NO_SEQUENCE = -1
# Producers, of which a partition knows up to 100,000: 5 ms of work.
SHOWN_PER_TURN = 2_000


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
    slices=Slices("topics.partition_indexes", "topics.partitions"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def describe_producers(
    request: DescribeProducersRequest, ctx: Context, call: Call
) -> DeferredResponse[DescribeProducersResponse]:
    may_read = may_with_topic(ctx, call, Operation.READ)

    async def finish() -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[await _topic(one, ctx, may_read) for one in request.topics]
        )

    return DeferredResponse(finish)


async def _topic(
    wanted: TopicRequest, ctx: Context, may_read: Callable[[str], bool]
) -> TopicResponse:
    shown = TopicResponse(name=wanted.name, partitions=[])
    for count, index in enumerate(wanted.partition_indexes, 1):
        try:
            producers = await _producers(wanted.name, index, ctx, may_read)
            one = PartitionResponse(partition_index=index, active_producers=producers)
        except KafkaError as error:
            one = _failed(index, error)
        shown.partitions.append(one)
        if count % OPENED_PER_TURN == 0:
            await yield_to_loop()
    return shown


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=error.code,
        error_message=error.message,
        active_producers=[],
    )


async def _producers(
    topic: str, index: int, ctx: Context, may_read: Callable[[str], bool]
) -> list[ProducerState]:
    """Raises KafkaError: why they are not told here."""
    if (why := why_illegal(topic)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if not may_read(topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = ctx.partitions.hosted(topic, index)
    if partition.must_check:
        await partition.check()
    shown: list[ProducerState] = []
    await piece_by_piece(
        partition.log.producers.entries(),
        SHOWN_PER_TURN,
        lambda some: shown.extend(_shown(*one) for one in some),
    )
    return shown


def _shown(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_start,  # -1 for none, here too
    )
