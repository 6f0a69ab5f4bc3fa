"""ElectLeaders (43): elects preferred leaders, or unclean ones (KIP-460)."""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.elections import elect_leaders as decide
from trimaran.quorum.serving.authorization import check_cluster
from trimaran.quorum.serving.refusals import fail_elect_leaders
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import DECISION_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    ElectLeadersRequest,
    versions="0-2",
    access=cluster(Operation.ALTER).in_handler(
        "an election of all partitions is refused at the top level only, which version 0 lacks"
    ),
    on_error=fail_elect_leaders,
    elements_max=DECISION_ELEMENTS_MAX,
)
def elect_leaders(
    request: ElectLeadersRequest, ctx: ControllerContext, call: Call
) -> Handling[ElectLeadersResponse]:
    def fail(code: ErrorCode, message: str) -> ElectLeadersResponse:
        response = fail_elect_leaders(request, code, message)
        return (
            response if call.header.api_version > 0 else response.replace(error_code=ErrorCode.NONE)
        )

    def elect(active: ActiveController) -> Steps[Result[Message, ElectLeadersResponse]]:
        try:
            return (yield from decide(request, active.state))
        except KafkaError as error:
            return Result((), fail(error.code, error.message))

    try:
        check_cluster(ctx, call, Operation.ALTER)
        return (yield from ctx.controller.submit(elect))
    except KafkaError as error:
        return fail(error.code, error.message)
