"""DeleteGroups (42): deletes groups without members and their offsets (KIP-229); answered when that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from trimaran.broker.groups.walks import RECORDS_PER_PIECE
from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.loaded_groups import when_loaded
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.runtime.turns import with_checkpoints
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.requests.slices import Slices


def _fail(request: DeleteGroupsRequest, code: ErrorCode, _message: str) -> DeleteGroupsResponse:
    return _respond(dict.fromkeys(request.groups_names, code))


@handles(
    DeleteGroupsRequest,
    versions="0-2",
    access=groups(Operation.DELETE, "groups_names.*", "results"),
    on_error=_fail,
    slices=Slices("groups_names", "results"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("groups_names"),
)
@when_loaded(lambda request: request.groups_names, _fail)
def delete_groups(
    request: DeleteGroupsRequest, ctx: Context, _call: Call
) -> DeferredResponse[DeleteGroupsResponse]:
    codes: dict[str, ErrorCode] = {}
    pending: list[PendingResponse[dict[str, ErrorCode]]] = []
    deleting = ctx.groups.delete_groups(dict.fromkeys(request.groups_names), codes, pending)
    # What fits into a turn is done before the next request of the connection begins.
    for done in accumulate(deleting):
        if done >= RECORDS_PER_PIECE:
            break

    async def finish() -> DeleteGroupsResponse:
        await with_checkpoints(deleting, RECORDS_PER_PIECE)
        for one in pending:
            codes.update(await _settled(one))
        return _respond(codes)

    return DeferredResponse(finish)


async def _settled(pending: PendingResponse[dict[str, ErrorCode]]) -> dict[str, ErrorCode]:
    try:
        return await pending.wait()
    except KafkaError as error:
        return dict.fromkeys(pending.response, error.code)


def _respond(codes: Mapping[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=g, error_code=code) for g, code in codes.items()]
    )
