"""AlterUserScramCredentials (51): sets and removes SCRAM credentials of users."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.security.scram import alter_scram_credentials as decide
from trimaran.quorum.controller.security.scram import fail_alter_scram
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    AlterUserScramCredentialsRequest,
    versions="0",
    access=cluster(Operation.ALTER),
    on_error=fail_alter_scram,
    elements_max=MANY_ELEMENTS_MAX,
)
def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, ctx: ControllerContext, _call: Call
) -> Handling[AlterUserScramCredentialsResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.image))
