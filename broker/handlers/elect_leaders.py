"""ElectLeaders (43): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.errors import ErrorCode
from wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


def _fail(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or []
        ]
    )


@handles(ElectLeadersRequest, versions="0-2", on_error=_fail, elements_max=DECISION_ELEMENTS_MAX)
async def elect_leaders(request: ElectLeadersRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
