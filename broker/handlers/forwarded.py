"""Requests that a broker forwards to the active controller as received, without decoding them.

The controller's handler declares the API: its versions, limits and error responses. The controller decides, and
authorizes the client's principal (`broker/channels/forwarding.py`). APIs that the broker decodes have their own
handlers in this folder: configs (the broker decides about some of them itself), and new tokens.
Source: Kafka's `KafkaApis.forwardToController`, `ForwardingManager`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.controller.handlers.expire_delegation_token import expire_delegation_token
from trimaran.quorum.controller.handlers.renew_delegation_token import renew_delegation_token
from trimaran.quorum.serving.authorization import check_tokens_allowed
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.transport.requests.access import BY_CONTROLLER
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles_as
from trimaran.wire.transport.scheduling.effects import Handling, Wait

# The broker refuses these on some listeners: the controller cannot see how the client has connected.
OF_TOKENS = (expire_delegation_token, renew_delegation_token)


def passed_on(declared: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the broker's handler for an API, given the controller's handler `declared`."""
    is_of_tokens = declared in OF_TOKENS

    @handles_as(declared, access=BY_CONTROLLER, takes_frame=True)
    def forward_request(frame: bytes, ctx: AdminContext, call: Call) -> Handling[Outgoing]:
        if is_of_tokens:
            check_tokens_allowed(ctx, call.connection)
        response: Outgoing = yield Wait(partial(ctx.forwarder.forward_frame, frame, call))
        return response

    return forward_request
