"""AlterClientQuotas (49): sets and removes quotas of users, clients and addresses."""

from __future__ import annotations

from functools import partial

from quorum.controller.client_quotas import alter_client_quotas as decide
from quorum.controller.client_quotas import fail_alter_quotas
from quorum.controller.context import ControllerContext
from wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(AlterClientQuotasRequest, versions="0-1", on_error=fail_alter_quotas)
def alter_client_quotas(
    request: AlterClientQuotasRequest, ctx: ControllerContext, _call: Call
) -> Parked[AlterClientQuotasResponse]:
    return ctx.controller.submit(
        lambda active: decide(request, active.image.quotas), partial(fail_alter_quotas, request)
    )
