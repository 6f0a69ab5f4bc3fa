"""CreateAcls (30): adds ACLs. Requires an authorizer."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.topics import new_topic_id
from trimaran.quorum.controller.security.acls import create_acls as decide
from trimaran.quorum.controller.security.acls import fail_create
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    CreateAclsRequest,
    versions="0-3",
    access=cluster(Operation.ALTER),
    on_error=fail_create,
    elements_max=MANY_ELEMENTS_MAX,
)
def create_acls(
    request: CreateAclsRequest, ctx: ControllerContext, _call: Call
) -> Handling[CreateAclsResponse]:
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return ctx.controller.submit(lambda active: decide(request, active.image, new_topic_id))
