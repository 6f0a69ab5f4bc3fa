"""DeleteAcls (31): removes the ACLs that match the filters. Requires an authorizer."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.security.acls import delete_acls as decide
from trimaran.quorum.controller.security.acls import fail_delete
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    DeleteAclsRequest,
    versions="0-3",
    access=cluster(Operation.ALTER),
    on_error=fail_delete,
    elements_max=MANY_ELEMENTS_MAX,
)
def delete_acls(
    request: DeleteAclsRequest, ctx: ControllerContext, call: Call
) -> Handling[DeleteAclsResponse]:
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    response = yield from ctx.controller.submit(lambda active: decide(request, active.image.acls))
    room = call.room()
    # Filters with the same content share one result object.
    for result in {id(result): result for result in response.filter_results}.values():
        result.matching_acls = yield from room.encoding(result.matching_acls)
    return response
