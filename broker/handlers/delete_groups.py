"""DeleteGroups (42): deletes groups without members and their offsets (KIP-229); answered when that is stored."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from broker.groups.answering import wait_committed
from broker.handlers.context import Context
from node.runtime.deferred import Deferred
from wire.errors import ErrorCode, KafkaError
from wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles
from wire.transport.slices import Slices


def _fail(request: DeleteGroupsRequest, code: ErrorCode, _message: str) -> DeleteGroupsResponse:
    return _respond(dict.fromkeys(request.groups_names, code))


@handles(
    DeleteGroupsRequest, versions="0-2", on_error=_fail, slices=Slices("groups_names", "results")
)
def delete_groups(
    request: DeleteGroupsRequest, ctx: Context, _call: Call
) -> Parked[DeleteGroupsResponse]:
    codes, deferred = ctx.groups.delete_groups(dict.fromkeys(request.groups_names))
    deadline = trio.current_time() + ctx.groups.commit_timeout_seconds

    async def finish() -> DeleteGroupsResponse:
        for one in deferred:
            codes.update(await _settled(one, deadline))
        return _respond(codes)

    return Parked(finish)


async def _settled(
    deferred: Deferred[dict[str, ErrorCode]], deadline: float
) -> dict[str, ErrorCode]:
    try:
        return await wait_committed(deferred, deadline)
    except KafkaError as error:
        return dict.fromkeys(deferred.response, error.code)


def _respond(codes: Mapping[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=g, error_code=code) for g, code in codes.items()]
    )
