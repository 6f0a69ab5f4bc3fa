"""DescribeUserScramCredentials (50): mechanisms and iterations of users, by what this broker knows."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.metadata.scram import describe_scram as describe
from wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from wire.transport.calls import Call
from wire.transport.heavy import MANY_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(DescribeUserScramCredentialsRequest, versions="0", elements_max=MANY_ELEMENTS_MAX)
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ctx: Context, _call: Call
) -> DescribeUserScramCredentialsResponse:
    return describe(request, ctx.metadata.image.scram)
