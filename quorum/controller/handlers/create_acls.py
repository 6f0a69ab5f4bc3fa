"""CreateAcls (30): adds ACLs about what is enforced. Only where there is an authorizer."""

from __future__ import annotations

from functools import partial

from node.runtime.deferred import Result
from node.runtime.steps import Steps
from quorum.controller.acls import create_acls as decide
from quorum.controller.acls import fail_create
from quorum.controller.active_controller import ActiveController
from quorum.controller.context import ControllerContext
from quorum.controller.topics import new_topic_id
from quorum.serving.unenforced_acls import enforced_part
from wire.errors import ErrorCode, KafkaError
from wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from wire.schema import Message
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import MANY_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    CreateAclsRequest,
    versions="0-3",
    access=cluster(Operation.ALTER),
    on_error=fail_create,
    elements_max=MANY_ELEMENTS_MAX,
)
def create_acls(
    request: CreateAclsRequest, ctx: ControllerContext, _call: Call
) -> DeferredResponse[CreateAclsResponse]:
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    enforced, merge = enforced_part(request)

    def decided(active: ActiveController) -> Steps[Result[Message, CreateAclsResponse]]:
        result = yield from decide(enforced, active.image.acls, new_topic_id)
        return Result(result.records, merge(result.response))

    return ctx.controller.submit(decided, partial(fail_create, request))
