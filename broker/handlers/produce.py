"""Produce (0): appends batches as the partitions' leader.

Stage one checks all partitions, then appends, in request order (`broker/producing/produce_validation.py`: what takes long is checked in a thread, then
appended in stage two); acks=all then parks until every partition's high watermark has passed
what was appended, acks=1 answers after the append, acks=0 is not answered (an error closes the connection).
Versions: up to 2 message sets of v0 and v1, 5 log start offset, 8 error messages, 10 who leads now (KIP-951), 13 topic ids.
Not done: transactions (a transactional batch is INVALID_TXN_STATE), throttling, errors per record (the message of
the partition says which record it was).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import trio

from broker.handlers.context import Context
from broker.metadata.endpoints import leader_endpoints
from broker.partitions.leader import ACKS_ALL, LeaderEpoch
from broker.partitions.opening import (
    OPENED_PER_TURN,
    Key,
    open_leaders,
    takes_one_turn,
    unopened,
)
from broker.producing.produce_validation import (
    FIRST_VERSION_OF_BATCHES,
    Checked,
    check_in_thread,
    check_now,
    detach,
    topic_name,
)
from log.validation.validate import OverBudget
from node.runtime.errors import NotLeaderError
from node.runtime.steps import yield_to_loop
from wire.errors import ErrorCode, KafkaError
from wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from wire.primitives import NIL_UUID
from wire.transport.calls import Call, CloseConnection, Parked
from wire.transport.registry import handles

ACKS_NONE = 0
ACKS_LEADER = 1
VERSION_NAMING_LEADERS = 10
# Partitions appended to at once: 10 ms of work. A request with more is appended in stage two, with checkpoints between.
APPENDS_PER_TURN = 200

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
    """What holds for all partitions of one request; `checked` has an element for each of them."""

    ctx: Context
    acks: int
    version: int
    checked: Iterator[Checked]
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
    version = call.header.api_version
    is_long = False
    if version >= FIRST_VERSION_OF_BATCHES and call.connection not in ctx.threaded:
        keys = list(_keys(request))
        cold = unopened(ctx.partitions, keys, for_writing=True)
        if len(keys) <= APPENDS_PER_TURN and takes_one_turn(cold):
            checked = _checked_now(request, ctx, version)
            if checked is not None:
                append = Append(ctx, acks, version, iter(checked))
                responses = [_append_topic(topic, append) for topic in request.topic_data]
                return _answer(request, responses, append, call)
            is_long = True
    detach(request)
    ctx.threaded.begin(call.connection)
    return Parked(lambda: _produce_later(request, ctx, call, is_long=is_long))  # type: ignore[arg-type,return-value]


async def _produce_later(
    request: ProduceRequest, ctx: Context, call: Call, *, is_long: bool
) -> ProduceResponse | None:
    """Stage two of what waits, or is checked in a thread (`is_long`: known to be); None, which is not answered, for acks=0."""
    version = call.header.api_version
    try:
        await open_leaders(unopened(ctx.partitions, _keys(request)))
        checked = None if is_long else _checked_now(request, ctx, version)
        if checked is None:
            checked = await check_in_thread(request, ctx, version)
        append = Append(ctx, request.acks, version, iter(checked))
        responses = await _append_slowly(request, append)
        answer = _answer(request, responses, append, call)
    finally:
        ctx.threaded.end(call.connection)
    return await answer.finish() if isinstance(answer, Parked) else answer


def _keys(request: ProduceRequest) -> Iterator[Key]:
    for topic in request.topic_data:
        name = topic.name if topic.topic_id == NIL_UUID else topic.topic_id
        for data in topic.partition_data:
            yield name, data.index


def _checked_now(request: ProduceRequest, ctx: Context, version: int) -> list[Checked] | None:
    """None if that would take too long here."""
    if version < FIRST_VERSION_OF_BATCHES:
        return None
    try:
        return check_now(request, ctx, version)
    except OverBudget:
        return None


def _answer(
    request: ProduceRequest, responses: list[TopicProduceResponse], append: Append, call: Call
) -> ProduceResponse | Parked[ProduceResponse] | None:
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


async def _append_slowly(request: ProduceRequest, append: Append) -> list[TopicProduceResponse]:
    """As `_append_topic` of all topics; the first append to a log opens its files."""
    responses, count = [], 0
    for topic in request.topic_data:
        response = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[]
        )
        responses.append(response)
        for data in topic.partition_data:
            response.partition_responses.append(_append_partition(topic, data, append))
            count += 1
            if count % OPENED_PER_TURN == 0:
                await yield_to_loop()
    return responses


def _append_partition(
    topic: TopicProduceData, data: PartitionProduceData, append: Append
) -> PartitionProduceResponse:
    ctx = append.ctx
    try:
        checked = next(append.checked)
        if isinstance(checked, KafkaError):
            raise checked
        leader, views = checked
        if not views:
            return PartitionProduceResponse(
                index=data.index, base_offset=-1, current_leader=_NO_LEADER
            )
        if views[0].is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
        records = memoryview(views[0].buffer)
        info, end_offset = leader.produce(records, views, append.acks)
    except KafkaError as error:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            ctx.directories.storage_failed()
        return _refused(data.index, error, _leads(topic, data, error, append))
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=info.base_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
        current_leader=_NO_LEADER,
    )
    append.awaited.append(Awaited(leader, end_offset, answer))
    return answer


def _leads(
    topic: TopicProduceData, data: PartitionProduceData, error: KafkaError, append: Append
) -> LeaderIdAndEpoch:
    if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return _NO_LEADER
    name = topic_name(topic, append.ctx)
    return _current_leader(append.ctx, name, data.index, error.code, append.version)


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


def _outcome(one: Awaited) -> ErrorCode:
    watermark = one.leader.high_watermark
    if watermark.offset < one.end_offset:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if watermark.closed else ErrorCode.REQUEST_TIMED_OUT
    # Of an epoch that has ended nobody knows who keeps it; that it was committed is enough, as it was then.
    if watermark.closed or one.leader.keeps_enough:
        return ErrorCode.NONE
    return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def _finished(
    response: ProduceResponse, awaited: list[Awaited] | tuple[()], ctx: Context, call: Call
) -> ProduceResponse:
    """Turns what was not replicated in time into errors; the records stay in the log and may yet be committed."""
    for one in awaited:
        code = _outcome(one)
        if code:
            partition = one.leader.partition
            one.answer.error_code = code
            one.answer.base_offset = -1
            one.answer.current_leader = _current_leader(
                ctx, partition.topic, partition.index, code, call.header.api_version
            )
    if call.header.api_version >= VERSION_NAMING_LEADERS:
        named = (
            data.current_leader
            for topic in response.responses
            for data in topic.partition_responses
        )
        response.node_endpoints = leader_endpoints(
            NodeEndpoint, named, ctx.metadata.image.cluster, call.connection.listener
        )
    return response
