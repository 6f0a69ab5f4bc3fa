"""CreateDelegationToken (38): creates a token that authenticates its owner. The controller decides."""

from __future__ import annotations

from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.controller.handlers.create_delegation_token import (
    create_delegation_token as declared,
)
from trimaran.quorum.controller.security.delegation_tokens import fail_create_token
from trimaran.quorum.serving.authorization import check_tokens_allowed
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from trimaran.wire.transport.requests.access import BY_CONTROLLER
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles_as
from trimaran.wire.transport.scheduling.effects import Handling


@handles_as(declared, access=BY_CONTROLLER)
def create_delegation_token(
    request: CreateDelegationTokenRequest, ctx: AdminContext, call: Call
) -> Handling[CreateDelegationTokenResponse]:
    requester = str(call.connection.principal)
    try:
        check_tokens_allowed(ctx, call.connection)
        response = yield from ctx.forwarder.forward(request, call, CreateDelegationTokenResponse)
    except KafkaError as error:
        return fail_create_token(request, requester, error.code, call.header.api_version)
    return response
