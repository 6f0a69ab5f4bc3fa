"""ElectLeaders (43): elects preferred leaders, or unclean ones (KIP-460)."""

from __future__ import annotations

from functools import partial

from node.runtime.deferred import Result
from node.runtime.steps import Steps
from quorum.controller.active_controller import ActiveController
from quorum.controller.context import ControllerContext
from quorum.controller.elections import elect_leaders as decide
from quorum.metadata.acls import Operation
from quorum.serving.authorization import needs
from wire.errors import ErrorCode, KafkaError
from wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from wire.schema import Message
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles

# Here and not in `guards`: who elects everywhere is refused at the top alone, where version 0 has no room for it.
_authorize = needs(Operation.ALTER)


def _fail(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    """Version 0 has no error code at the top, so that every partition tells it."""
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(replica_election_results=results)


def _fail_at_top(
    request: ElectLeadersRequest, code: ErrorCode, message: str
) -> ElectLeadersResponse:
    return _fail(request, code, message).replace(error_code=code)


@handles(ElectLeadersRequest, versions="0-2", on_error=_fail)
def elect_leaders(
    request: ElectLeadersRequest, ctx: ControllerContext, call: Call
) -> ElectLeadersResponse | Parked[ElectLeadersResponse]:
    fail = _fail_at_top if call.header.api_version > 0 else _fail

    def elect(active: ActiveController) -> Steps[Result[Message, ElectLeadersResponse]]:
        try:
            return (yield from decide(request, active.state))
        except KafkaError as error:
            return Result((), fail(request, error.code, error.message))

    try:
        _authorize(ctx, call)
        return ctx.controller.submit(elect, partial(fail, request))
    except KafkaError as error:
        return fail(request, error.code, error.message)
