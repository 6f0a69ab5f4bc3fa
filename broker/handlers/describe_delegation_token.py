"""DescribeDelegationToken (41): lists delegation tokens by owner, from this broker's metadata."""

from __future__ import annotations

from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.metadata.tokens import describe_token, token_filter
from trimaran.quorum.serving.authorization import check_tokens_allowed, may
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from trimaran.wire.records.security import DelegationTokenRecord
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.access import tokens, users
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    DescribeDelegationTokenRequest,
    versions="0-3",
    access=(tokens(Operation.DESCRIBE), users(Operation.DESCRIBE_TOKENS)),
    elements_max=MANY_ELEMENTS_MAX,
)
def describe_delegation_token(
    request: DescribeDelegationTokenRequest, ctx: AdminContext, call: Call
) -> Handling[DescribeDelegationTokenResponse]:
    connection = call.connection
    check_tokens_allowed(ctx, connection)
    secret = ctx.config["delegation.token.secret.key"]
    if not secret:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def may_see(token: DelegationTokenRecord) -> bool:
        of_token = Action(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        of_owner = Action(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        return may(ctx, call, of_token) or may(ctx, call, of_owner)

    is_wanted = token_filter(request, str(connection.principal), may_see)
    room, described, version = call.room(), EncodedArray(), call.header.api_version
    for _, token in sorted(ctx.image.tokens.items()):
        if is_wanted(token):
            described.append(room.encoded(describe_token(token, secret, version)))
        yield None
    return DescribeDelegationTokenResponse(tokens=described)
