"""Produce (0): appends batches as the partitions' leader.

One line of stages, each a file of `broker/producing/`: resolve, authorize, validate, verify, append, await. A request
goes through them in one turn of the loop, or, if that would hold the loop (logs to be opened, much to be checked or
converted, many partitions) or a transaction's coordinator must be asked, when its turn to be answered comes. acks=all
then waits until every partition's high watermark has passed what was appended, acks=1 answers after the append, acks=0
is not answered (an error closes the connection); both wait for the disk while much is not on it yet.
Versions: up to 2 message sets of v0 and v1, 5 log start offset, 8 errors per record (KIP-467), 10 who leads now
(KIP-951), 13 topic ids; up to 11 the client adds partitions to its transaction itself (KIP-890).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import trio

from trimaran.broker.handlers.context import Context
from trimaran.broker.partitions.leader import ACKS_ALL
from trimaran.broker.partitions.opening import not_begun, open_leaders, takes_one_turn
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.producing.append import APPENDS_PER_TURN, append, append_in_turns
from trimaran.broker.producing.authorize import (
    authorize,
    authorize_in_turns,
    may_use_transactional_id,
)
from trimaran.broker.producing.await_disk import await_disk, behind, on_disk
from trimaran.broker.producing.await_replicas import await_replicas, replicated, settle
from trimaran.broker.producing.count import count
from trimaran.broker.producing.current_leaders import VERSION_NAMING_LEADERS, name_current_leaders
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.broker.producing.resolve import refusal, resolve
from trimaran.broker.producing.validate import validate, validate_in_thread, validate_in_turns
from trimaran.broker.producing.verify import is_verified_here, unverified, verify
from trimaran.log.validation.validate import OverBudget
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.produce import ProduceRequest, ProduceResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics, transactional_ids
from trimaran.wire.transport.requests.calls import Call, CloseConnection, DeferredResponse
from trimaran.wire.transport.requests.elements import LIGHT_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles

# To find a member by its class takes as long as the verdict.
WRITE = Operation.WRITE
ACKS_NONE = 0
ACKS_LEADER = 1

Answer: TypeAlias = ProduceResponse | DeferredResponse[ProduceResponse] | None


@dataclass(slots=True)
class _Produce:
    """A request under way: `response` is laid out for `appends`, which fill it in."""

    ctx: Context
    call: Call
    acks: int
    timeout_ms: int
    response: ProduceResponse
    appends: list[PartitionAppend]
    transactional_id: str | None


def _fail_all(request: ProduceRequest, code: ErrorCode, message: str) -> ProduceResponse:
    return refusal(request, KafkaError(code, message))


# A megabyte, as much as producers send by default, holds 15,000 of the smallest batches.
@handles(
    ProduceRequest,
    versions="0-13",
    access=(
        transactional_ids(Operation.WRITE, "transactional_id").in_handler(
            "of requests with transactional batches"
        ),
        topics(Operation.WRITE, "topic_data.name").in_handler("topics by id, too"),
    ),
    on_error=_fail_all,
    elements_max=LIGHT_ELEMENTS_MAX,
)
def produce(request: ProduceRequest, ctx: Context, call: Call) -> Answer:
    acks = request.acks
    if acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return _fail_all(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks {acks}")
    response, appends = resolve(request, ctx.partitions)
    response.throttle_time_ms = ctx.quotas.produced(call)
    if ctx.authorizer is not None:
        if not may_use_transactional_id(request.transactional_id, appends, ctx, call):
            return _refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if len(appends) <= APPENDS_PER_TURN:
            authorize(appends, may_with_topic(ctx, call, WRITE))
    work = _Produce(
        ctx, call, acks, request.timeout_ms, response, appends, request.transactional_id
    )
    over_budget = False
    if call.connection not in ctx.offloaded and _takes_one_turn(work):
        over_budget = not _validated(work)
        if not over_budget and _is_verified(work):
            append(appends, acks)
            count(appends, ctx.partitions.traffic)
            return _answer(work)
    for one in appends:
        one.detach()
    ctx.offloaded.begin(call.connection)
    return DeferredResponse(partial(_produce_later, work, over_budget=over_budget))  # type: ignore[arg-type]


def _refused(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    if request.acks == ACKS_NONE:
        raise CloseConnection(f"produce with acks=0 failed: {code.name}")
    return _fail_all(request, code, "")


def _takes_one_turn(work: _Produce) -> bool:
    if len(work.appends) > APPENDS_PER_TURN:
        return False
    found = _unopened(work)
    return not found or takes_one_turn(found)


async def _produce_later(work: _Produce, *, over_budget: bool) -> ProduceResponse | None:
    """The same stages with pauses between; None, which is not answered, for acks=0."""
    ctx, call, appends = work.ctx, work.call, work.appends
    try:
        if len(appends) > APPENDS_PER_TURN and ctx.authorizer is not None:
            await authorize_in_turns(appends, may_with_topic(ctx, call, WRITE))
        await open_leaders(_unopened(work))
        await _validate(work, over_budget=over_budget)
        await _verify(work)
        await append_in_turns(appends, work.acks)
        count(appends, ctx.partitions.traffic)
        answer = _answer(work)
    finally:
        ctx.offloaded.end(call.connection)
    return await answer.finish() if isinstance(answer, DeferredResponse) else answer


async def _validate(work: _Produce, *, over_budget: bool) -> None:
    ctx, version = work.ctx, work.call.header.api_version
    checked = (work.appends, ctx.partitions)
    if not over_budget:
        with contextlib.suppress(OverBudget):
            return await validate_in_turns(*checked, now_ms=ctx.now_ms, version=version)
    whom = work.call.connection.id
    await validate_in_thread(*checked, now_ms=ctx.now_ms, version=version, whom=whom)
    return None


def _is_verified(work: _Produce) -> bool:
    unknown = unverified(work.appends, work.transactional_id)
    if not unknown or not work.transactional_id:
        return not unknown
    version = work.call.header.api_version
    return is_verified_here(unknown, work.ctx.verifier, work.transactional_id, version)


async def _verify(work: _Produce) -> None:
    version = work.call.header.api_version
    if (unknown := unverified(work.appends, work.transactional_id)) and work.transactional_id:
        await verify(unknown, work.ctx.verifier, work.transactional_id, version)


def _unopened(work: _Produce) -> list[Partition]:
    return not_begun([one.partition for one in work.appends if not one.failed], for_writing=True)


def _validated(work: _Produce) -> bool:
    """False if it takes too long here."""
    ctx, version = work.ctx, work.call.header.api_version
    try:
        validate(work.appends, ctx.partitions, now_ms=ctx.now_ms(), version=version)
    except OverBudget:
        return False
    return True


def _answer(work: _Produce) -> Answer:
    appends = work.appends
    if work.acks == ACKS_NONE:
        _close_on_error(appends)
    if work.acks != ACKS_ALL:
        if late := behind(appends):
            for one in appends:
                one.release()
            # It counts as held, though the records are let go: that bounds what a connection owes the disk.
            return DeferredResponse(partial(_await_disk, work, late), ready=partial(on_disk, late))  # type: ignore[arg-type]
        return _told(work)
    if replicated(appends):
        settle(appends)
        return _finish(work)
    for one in appends:
        one.release()
    deadline = trio.current_time() + max(0, work.timeout_ms) / 1000
    finish, ready = partial(_await_replicas, work, deadline), partial(replicated, appends)
    return DeferredResponse(finish, ready=ready, holds_request=False)


async def _await_disk(work: _Produce, late: list[PartitionAppend]) -> ProduceResponse | None:
    await await_disk(late)
    return _told(work)


def _told(work: _Produce) -> ProduceResponse | None:
    return None if work.acks == ACKS_NONE else _finish(work)


async def _await_replicas(work: _Produce, deadline: float) -> ProduceResponse:
    await await_replicas(work.appends, deadline)
    settle(work.appends)
    return _finish(work)


def _finish(work: _Produce) -> ProduceResponse:
    ctx, call = work.ctx, work.call
    if call.header.api_version >= VERSION_NAMING_LEADERS:
        cluster, listener = ctx.metadata.image.cluster, call.connection.listener
        name_current_leaders(work.response, work.appends, ctx.partitions, cluster, listener)
    return work.response


def _close_on_error(appends: list[PartitionAppend]) -> None:
    for one in appends:
        if one.failed:
            code = ErrorCode.of(one.response.error_code).name
            raise CloseConnection(f"produce with acks=0 to {one.key} failed: {code}")
