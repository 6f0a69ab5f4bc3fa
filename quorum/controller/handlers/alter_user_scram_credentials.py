"""AlterUserScramCredentials (51): sets and removes SCRAM credentials of users."""

from __future__ import annotations

from functools import partial

from quorum.controller.context import ControllerContext
from quorum.controller.scram import alter_scram_credentials as decide
from quorum.controller.scram import fail_alter_scram
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(AlterUserScramCredentialsRequest, versions="0", on_error=fail_alter_scram)
def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, ctx: ControllerContext, _call: Call
) -> Parked[AlterUserScramCredentialsResponse]:
    return ctx.controller.submit(
        lambda active: decide(request, active.image), partial(fail_alter_scram, request)
    )
