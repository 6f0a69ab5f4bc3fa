"""Produce (0): appends batches to partitions that this broker leads.

`produce` calls the stages of `broker/producing/` in order. With acks=all the response waits until the high watermark of
every partition has passed the appended records (`await_replicas`); with acks=1 it is sent after the append; with acks=0
there is no response (an error closes the connection). The latter two wait for the disk while much of the log is not
flushed (`await_disk`). Versions: up to 2 message sets of v0 and v1, 5 log start offset, 8 errors per record (KIP-467),
10 the current leader (KIP-951), 13 topic ids; up to 11 the client adds partitions to its transaction itself (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.handlers.context import DataContext
from trimaran.broker.partitions.leader import ACKS_ALL
from trimaran.broker.producing.append import append
from trimaran.broker.producing.await_replicas import (
    await_disk,
    await_replicas,
    name_current_leaders,
)
from trimaran.broker.producing.partition_append import PartitionAppend, refusal, resolve
from trimaran.broker.producing.validate import (
    authorize,
    find_leaders,
    may_use_transactional_id,
    validate,
)
from trimaran.broker.producing.verify import verify
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.messages.produce import ProduceRequest, ProduceResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics, transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import LIGHT_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

# A module constant, because `Operation.WRITE` costs as much as the whole authorization check.
WRITE = Operation.WRITE
ACKS_NONE = 0
ACKS_LEADER = 1
VERSION_NAMING_LEADERS = 10


def _fail_all(request: ProduceRequest, code: ErrorCode, message: str) -> ProduceResponse:
    return refusal(request, KafkaError(code, message))


# A request of one megabyte, the usual size for producers, holds 15,000 of the smallest batches.
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
def produce(
    request: ProduceRequest, ctx: DataContext, call: Call
) -> Handling[ProduceResponse | None]:
    acks, transactional_id, timeout_ms = request.acks, request.transactional_id, request.timeout_ms
    version, partitions = call.header.api_version, ctx.partitions
    if acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return _fail_all(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks {acks}")
    response, parts = yield from resolve(request, partitions)
    if ctx.quotas.produce.is_set:
        response.throttle_time_ms = ctx.quotas.produced(call)
    if len(parts) > 1:
        yield None
    if ctx.authorizer is not None:
        if not may_use_transactional_id(transactional_id, parts, ctx, call):
            return _refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        yield from authorize(parts, may_with_topic(ctx, call, WRITE))
    del request  # releases the receive buffer, to which the records of the request refer
    yield from find_leaders(parts, partitions)
    yield from validate(parts, ctx.now_ms, version)
    yield from verify(parts, ctx.verifier, transactional_id, version)
    yield from append(parts, acks, partitions.traffic)
    if acks == ACKS_ALL:
        yield from await_replicas(parts, timeout_ms)
    else:
        if acks == ACKS_NONE:
            _close_on_error(parts)
        yield from await_disk(parts)
    if version >= VERSION_NAMING_LEADERS:
        cluster, listener = ctx.metadata.image.cluster, call.connection.listener
        name_current_leaders(response, parts, partitions, cluster, listener)
    return response if acks != ACKS_NONE else None


def _refused(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    if request.acks == ACKS_NONE:
        raise CloseConnection(f"produce with acks=0 failed: {code.name}")
    return _fail_all(request, code, "")


def _close_on_error(parts: Iterable[PartitionAppend]) -> None:
    for part in parts:
        if part.failed:
            code = ErrorCode.of(part.response.error_code).name
            raise CloseConnection(f"produce with acks=0 to {part.key} failed: {code}")
