"""CreateDelegationToken (38): creates a token with which a user can authenticate."""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.topics import new_topic_id
from trimaran.quorum.controller.security.delegation_tokens import (
    TokenRules,
    create_token,
    fail_create_token,
    owner_of,
)
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import check_tokens_allowed, may
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.access import users
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    CreateDelegationTokenRequest,
    versions="0-3",
    access=users(Operation.CREATE_TOKENS),
    elements_max=FEW_ELEMENTS_MAX,
)
def create_delegation_token(
    request: CreateDelegationTokenRequest, ctx: ControllerContext, call: Call
) -> Handling[CreateDelegationTokenResponse]:
    requester, version = str(call.connection.principal), call.header.api_version

    def fail(code: ErrorCode, _message: str = "") -> CreateDelegationTokenResponse:
        return fail_create_token(request, requester, code, version)

    def decide(active: ActiveController) -> Result[Message, CreateDelegationTokenResponse]:
        return create_token(
            request,
            active.image,
            TokenRules.of(ctx.config),
            requester,
            version=version,
            now_ms=now_ms(),
            new_id=lambda: uuid_to_text(new_topic_id()),
        )

    try:
        check_tokens_allowed(ctx, call.connection, forwarded=ctx.forwarded)
        owner = owner_of(request, requester)
        for_owner = Action(Operation.CREATE_TOKENS, ResourceType.USER, owner)
        if owner != requester and not may(ctx, call, for_owner):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        return (yield from ctx.controller.submit(decide))
    except KafkaError as error:
        return fail(error.code)
