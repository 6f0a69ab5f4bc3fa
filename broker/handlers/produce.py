"""Produce (0): appends batches as the partitions' leader.

Stage one validates and appends, in request order; acks=all then parks until every partition's high watermark has passed
what was appended, acks=1 answers after the append, acks=0 is not answered (an error closes the connection).
Versions: up to 2 message sets of v0 and v1 (`broker/old_formats.py`), 5 log start offset, 8 error messages, 10 who leads now (KIP-951), 13 topic ids.
Not done: transactions (a transactional batch is INVALID_TXN_STATE), throttling, errors per record (the message of
the partition says which record it was).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import trio

from broker.context import Context
from broker.endpoints import produce_endpoints
from broker.internal_topics import INTERNAL_TOPICS
from broker.old_formats import (
    FIRST_PRODUCE_VERSION_OF_BATCHES,
    Converted,
    converted_sets,
    detach,
)
from broker.partitions.leader import ACKS_ALL, LeaderEpoch
from log.batch import BatchView, iter_batches
from log.validate import validate_produced
from quorum.runtime.errors import NotLeaderError
from wire.errors import ErrorCode, KafkaError
from wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from wire.outgoing import records_view
from wire.primitives import NIL_UUID
from wire.transport.calls import Call, CloseConnection, Parked
from wire.transport.registry import handles

ACKS_NONE = 0
ACKS_LEADER = 1
VERSION_NAMING_LEADERS = 10

_NO_LEADER = LeaderIdAndEpoch()


@dataclass(slots=True)
class Awaited:
    """An appended batch whose answer leaves when `leader` has `end_offset` below its high watermark."""

    leader: LeaderEpoch
    end_offset: int
    answer: PartitionProduceResponse

    def decided(self) -> bool:
        watermark = self.leader.high_watermark
        return watermark.offset >= self.end_offset or watermark.closed


@dataclass(slots=True)
class Append:
    """What holds for all partitions of one request; `converted` has what old formats became, a partition each."""

    ctx: Context
    acks: int
    version: int
    converted: Iterator[Converted] | None = None
    awaited: list[Awaited] = field(default_factory=list)


def _fail_all(request: ProduceRequest, code: ErrorCode, message: str) -> ProduceResponse:
    error = KafkaError(code, message)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refused(data.index, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


@handles(ProduceRequest, versions="0-13", on_error=_fail_all)
def produce(
    request: ProduceRequest, ctx: Context, call: Call
) -> ProduceResponse | Parked[ProduceResponse] | None:
    acks = request.acks
    if acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return _fail_all(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks {acks}")
    if request.transactional_id is not None:
        return _fail_all(request, ErrorCode.INVALID_TXN_STATE, "transactions are not served")
    append = Append(ctx, acks, call.header.api_version)
    if append.version < FIRST_PRODUCE_VERSION_OF_BATCHES:
        detach(request)
        return Parked(lambda: _produce_converted(request, append, call))  # type: ignore[arg-type,return-value]
    return _produce(request, append, call)


async def _produce_converted(
    request: ProduceRequest, append: Append, call: Call
) -> ProduceResponse | None:
    """Stage two of the old versions; None, which is not answered, for acks=0."""
    converted = await converted_sets(request, append.ctx, append.version)
    append.converted = iter(converted)
    answer = _produce(request, append, call)
    return await answer.finish() if isinstance(answer, Parked) else answer


def _produce(
    request: ProduceRequest, append: Append, call: Call
) -> ProduceResponse | Parked[ProduceResponse] | None:
    responses = [_append_topic(topic, append) for topic in request.topic_data]
    if append.acks == ACKS_NONE:
        _close_on_error(responses)
        return None
    response = ProduceResponse(responses=responses)
    awaited, ctx = append.awaited, append.ctx
    if append.acks == ACKS_LEADER or all(one.decided() for one in awaited):
        return _finished(response, awaited if append.acks == ACKS_ALL else (), ctx, call)
    return _park(response, awaited, ctx, call, request.timeout_ms)


def _append_topic(topic: TopicProduceData, append: Append) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            _append_partition(topic, data, append) for data in topic.partition_data
        ],
    )


def _append_partition(
    topic: TopicProduceData, data: PartitionProduceData, append: Append
) -> PartitionProduceResponse:
    name, ctx = topic.name, append.ctx
    converted = None if append.converted is None else next(append.converted)
    try:
        if topic.topic_id != NIL_UUID:
            name = ctx.partitions.topic_name(topic.topic_id)
        if name in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal")
        leader = ctx.partitions.leader_of(name, data.index)
        records, views = _checked(data if converted is None else converted, leader, append)
        if not views:
            return PartitionProduceResponse(
                index=data.index, base_offset=-1, current_leader=_NO_LEADER
            )
        if views[0].is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
        info, end_offset = leader.produce(records, views, append.acks)
    except KafkaError as error:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            ctx.directories.storage_failed()
        leads = _current_leader(ctx, name, data.index, error.code, append.version)
        return _refused(data.index, error, leads)
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=info.base_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
        current_leader=_NO_LEADER,
    )
    append.awaited.append(Awaited(leader, end_offset, answer))
    return answer


def _checked(
    data: PartitionProduceData | Converted, leader: LeaderEpoch, append: Append
) -> tuple[memoryview, list[BatchView]]:
    """What to append: one batch, or none where a message set had no whole message."""
    if isinstance(data, KafkaError):
        raise data
    if isinstance(data, bytes):
        records = memoryview(bytearray(data))
        return records, list(iter_batches(records))
    records = records_view(data.records)
    rules = leader.partition.settings.rules
    return records, validate_produced(
        records, rules, now_ms=append.ctx.now_ms(), version=append.version
    )


def _refused(
    index: int, error: KafkaError, leader: LeaderIdAndEpoch = _NO_LEADER
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        error_message=error.message,
        current_leader=leader,
    )


def _current_leader(
    ctx: Context, topic: str, index: int, code: ErrorCode, version: int
) -> LeaderIdAndEpoch:
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= VERSION_NAMING_LEADERS:
        state = ctx.partitions.state_of(topic, index)
        if state is not None:
            return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
    return _NO_LEADER


def _close_on_error(responses: list[TopicProduceResponse]) -> None:
    for topic in responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise CloseConnection(
                    f"produce with acks=0 to {topic.name}-{partition.index} failed: "
                    f"{ErrorCode.of(partition.error_code).name}"
                )


def _park(
    response: ProduceResponse, awaited: list[Awaited], ctx: Context, call: Call, timeout_ms: int
) -> Parked[ProduceResponse]:
    deadline = trio.current_time() + max(0, timeout_ms) / 1000

    async def finish() -> ProduceResponse:
        with trio.move_on_at(deadline):
            for one in awaited:
                if not one.decided():
                    await _settled(one)
        return _finished(response, awaited, ctx, call)

    def ready() -> bool:
        return all(one.decided() for one in awaited)

    return Parked(finish, ready=ready)


async def _settled(one: Awaited) -> None:
    try:
        await one.leader.high_watermark.wait_reached(one.end_offset)
    except NotLeaderError:
        return  # `_finished` sees it


def _finished(
    response: ProduceResponse, awaited: list[Awaited] | tuple[()], ctx: Context, call: Call
) -> ProduceResponse:
    """Turns what was not replicated in time into errors; the records stay in the log and may yet be committed."""
    for one in awaited:
        watermark = one.leader.high_watermark
        if watermark.offset < one.end_offset:
            code = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if watermark.closed
                else ErrorCode.REQUEST_TIMED_OUT
            )
            partition = one.leader.partition
            one.answer.error_code = code
            one.answer.base_offset = -1
            one.answer.current_leader = _current_leader(
                ctx, partition.topic, partition.index, code, call.header.api_version
            )
    if call.header.api_version >= VERSION_NAMING_LEADERS:
        response.node_endpoints = produce_endpoints(
            response.responses, ctx, call.connection.listener
        )
    return response
