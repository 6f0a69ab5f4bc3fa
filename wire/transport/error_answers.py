"""The response that carries an error code, for requests whose response has one at the top.

Other requests (Produce, Metadata, …) answer errors per topic or partition: their handlers say how, by
`@handles(on_error=…)`. In Kafka this is `AbstractRequest.getErrorResponse`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

from wire.errors import ErrorCode
from wire.messages.registry import RESPONSES
from wire.schema import Message, Wire

OnError = Callable[[Any, ErrorCode, str], Message]


def error_builder(request_class: type[Message]) -> OnError | None:
    """`(request, code, message) -> response`, or None if the response has no `error_code` at the top."""
    response = RESPONSES[request_class.KEY]
    names = {field.name for field in response.__fields__}
    if "error_code" not in names:
        return None
    hints = get_type_hints(response, include_extras=True)
    zeros = {
        field.name: _zero(hints[field.name]) for field in response.__fields__ if field.required
    }
    has_message = "error_message" in names

    def build(_request: Any, code: ErrorCode, message: str) -> Message:
        values = {name: zero() for name, zero in zeros.items()} | {"error_code": int(code)}
        if has_message:
            values["error_message"] = message
        return response(**values)

    return build


def _zero(hint: Any) -> Callable[[], Any]:
    if get_origin(hint) is list:
        return list
    for part in (hint, *get_args(hint)):
        if isinstance(part, Wire):
            return lambda: part.zero
        if get_args(part):
            return _zero(part)
    assert isinstance(hint, type)
    return hint
