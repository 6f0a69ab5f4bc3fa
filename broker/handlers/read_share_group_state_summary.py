"""ReadShareGroupStateSummary (87): a group coordinator reads the positions of a share group (KIP-932).

Versions: 1 the number of complete deliveries (KIP-1226). The leader epoch of the request has no effect.
"""

from __future__ import annotations

from typing import Any

from trimaran.broker.handlers.context import ShareContext
from trimaran.broker.handlers.share_states import NO_COUNT, Answer, decided
from trimaran.broker.share_state.states import ShareSummary
from trimaran.wire.identity import NO_OFFSET, LeaderEpoch, Offset, StateEpoch
from trimaran.wire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

_ANSWER = Answer(
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    PartitionResult,
    {"state_epoch": StateEpoch(0), "leader_epoch": LeaderEpoch(0), "start_offset": Offset(0)},
)


@handles(
    ReadShareGroupStateSummaryRequest,
    versions="0-1",
    access=cluster(Operation.CLUSTER_ACTION),
    on_error=_ANSWER.fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, ctx: ShareContext, call: Call
) -> Handling[ReadShareGroupStateSummaryResponse]:
    outcomes = yield from decided(request, ctx, lambda key, _item: ctx.shares.summary(key))
    response: ReadShareGroupStateSummaryResponse = yield from _ANSWER.responding(
        outcomes, _fields, call
    )
    return response


def _fields(summary: ShareSummary) -> dict[str, Any]:
    start_offset, count = summary.start_offset, summary.delivery_complete_count
    return {
        "state_epoch": summary.state_epoch,
        "leader_epoch": summary.leader_epoch,
        "start_offset": NO_OFFSET if start_offset is None else start_offset,
        "delivery_complete_count": NO_COUNT if count is None else count,
    }
