"""InitializeShareGroupState (83): a group coordinator initializes or resets states of share partitions (KIP-932)."""

from __future__ import annotations

from trimaran.broker.handlers.context import ShareContext
from trimaran.broker.handlers.share_states import Answer, decided, known, no_fields
from trimaran.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

_ANSWER = Answer(InitializeShareGroupStateResponse, InitializeStateResult, PartitionResult)


@handles(
    InitializeShareGroupStateRequest,
    versions="0",
    access=cluster(Operation.CLUSTER_ACTION),
    on_error=_ANSWER.fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, ctx: ShareContext, call: Call
) -> Handling[InitializeShareGroupStateResponse]:
    outcomes = yield from decided(
        request,
        ctx,
        lambda key, item: ctx.shares.initialize(key, item.state_epoch, known(item.start_offset)),
    )
    response: InitializeShareGroupStateResponse = yield from _ANSWER.responding(
        outcomes, no_fields, call
    )
    return response
