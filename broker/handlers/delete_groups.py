"""DeleteGroups (42): deletes empty groups and their offsets (KIP-229); answered when the deletion is stored.

Versions: 3 a message for each group; in Kafka 4.4 only the store of topology descriptions of streams groups sets it
(KIP-1331). The states of a share group are deleted first, by share coordinators.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.offsets import States
from trimaran.broker.handlers import share_group_states
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.node.replicated.pending import PendingResponse, settled
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Blocking, Handling


def _fail(request: DeleteGroupsRequest, code: ErrorCode, _message: str) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[_result(group_id, code) for group_id in request.groups_names]
    )


@handles(
    DeleteGroupsRequest,
    versions="0-3",
    access=groups(Operation.DELETE, "groups_names.*", "results"),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("groups_names"),
)
def delete_groups(
    request: DeleteGroupsRequest, ctx: GroupContext, call: Call
) -> Handling[DeleteGroupsResponse]:
    yield from loaded(ctx, request.groups_names)
    codes = yield from _release(request.groups_names, ctx)
    names = [group_id for group_id in request.groups_names if group_id not in codes]
    decided: list[PendingResponse[dict[str, ErrorCode]]] = []
    for _ in ctx.groups.delete_groups(names, codes, decided):
        yield None
    for pending in decided:
        try:
            codes.update((yield from settled(pending)))
        except KafkaError as error:
            codes.update(dict.fromkeys(pending.response, error.code))
    results = (_result(group_id, code) for group_id, code in codes.items())
    return DeleteGroupsResponse(results=(yield from call.room().encoding(results)))


def _release(group_ids: Iterable[str], ctx: GroupContext) -> Handling[dict[str, ErrorCode]]:
    """Deletes the states of share groups together; returns the codes of groups that stay because the
    deletion failed.
    """
    codes: dict[str, ErrorCode] = {}
    decided: dict[str, PendingResponse[States]] = {}
    for group_id in group_ids:
        if ctx.groups.has(share.KIND, group_id):
            try:
                decided[group_id] = share_group_states.released(ctx, group_id)
            except KafkaError as error:
                codes[group_id] = error.code
        yield None
    released: dict[str, States] = {}
    for group_id, pending in decided.items():
        try:
            released[group_id] = yield from settled(pending)
        except KafkaError as error:
            codes[group_id] = error.code
    if released:
        errors = yield Blocking(partial(share_group_states.delete_released, ctx, released))
        codes.update((group_id, error.code) for group_id, error in errors.items())
    return codes


def _result(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code)
