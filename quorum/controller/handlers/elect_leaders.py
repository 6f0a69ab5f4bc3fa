"""ElectLeaders (43): elects preferred leaders, or unclean ones (KIP-460)."""

from __future__ import annotations

from functools import partial

from node.runtime.deferred import Result
from node.runtime.steps import Steps
from quorum.controller.active_controller import ActiveController
from quorum.controller.context import ControllerContext
from quorum.controller.elections import elect_leaders as decide
from quorum.serving.authorization import check_cluster
from quorum.serving.refusals import fail_elect_leaders
from wire.errors import ErrorCode, KafkaError
from wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from wire.schema import Message
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


def _fail_at_top(
    request: ElectLeadersRequest, code: ErrorCode, message: str
) -> ElectLeadersResponse:
    return fail_elect_leaders(request, code, message).replace(error_code=code)


@handles(
    ElectLeadersRequest,
    versions="0-2",
    access=cluster(Operation.ALTER).in_handler(
        "who elects everywhere is refused at the top alone, where version 0 has no room"
    ),
    on_error=fail_elect_leaders,
    elements_max=DECISION_ELEMENTS_MAX,
)
def elect_leaders(
    request: ElectLeadersRequest, ctx: ControllerContext, call: Call
) -> ElectLeadersResponse | DeferredResponse[ElectLeadersResponse]:
    fail = _fail_at_top if call.header.api_version > 0 else fail_elect_leaders

    def elect(active: ActiveController) -> Steps[Result[Message, ElectLeadersResponse]]:
        try:
            return (yield from decide(request, active.state))
        except KafkaError as error:
            return Result((), fail(request, error.code, error.message))

    try:
        check_cluster(ctx, call, Operation.ALTER)
        return ctx.controller.submit(elect, partial(fail, request))
    except KafkaError as error:
        return fail(request, error.code, error.message)
