"""DeleteShareGroupState (86): a group coordinator deletes the states of share partitions (KIP-932)."""

from __future__ import annotations

from trimaran.broker.handlers.context import ShareContext
from trimaran.broker.handlers.share_states import Answer, decided, no_fields
from trimaran.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

_ANSWER = Answer(DeleteShareGroupStateResponse, DeleteStateResult, PartitionResult)


@handles(
    DeleteShareGroupStateRequest,
    versions="0",
    access=cluster(Operation.CLUSTER_ACTION),
    on_error=_ANSWER.fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def delete_share_group_state(
    request: DeleteShareGroupStateRequest, ctx: ShareContext, call: Call
) -> Handling[DeleteShareGroupStateResponse]:
    outcomes = yield from decided(request, ctx, lambda key, _item: ctx.shares.delete(key))
    response: DeleteShareGroupStateResponse = yield from _ANSWER.responding(
        outcomes, no_fields, call
    )
    return response
