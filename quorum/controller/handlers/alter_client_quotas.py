"""AlterClientQuotas (49): sets and removes quotas of users, clients and addresses."""

from __future__ import annotations

from trimaran.quorum.controller.configs.alter_client_quotas import alter_client_quotas as decide
from trimaran.quorum.controller.configs.alter_client_quotas import fail_alter_quotas
from trimaran.quorum.controller.context import ControllerContext
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    AlterClientQuotasRequest,
    versions="0-1",
    access=cluster(Operation.ALTER_CONFIGS),
    on_error=fail_alter_quotas,
    elements_max=MANY_ELEMENTS_MAX,
)
def alter_client_quotas(
    request: AlterClientQuotasRequest, ctx: ControllerContext, _call: Call
) -> Handling[AlterClientQuotasResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.image.quotas))
