"""The response that carries an error code, for requests whose response has a top-level error code.

The responses of other requests (Produce, Metadata, …) carry errors per topic or partition: their handlers build them,
by `@handles(on_error=…)`. In Kafka this is `AbstractRequest.getErrorResponse`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from trimaran.wire.codec.declarations import Versions, Wire
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.schema import Message

OnError = Callable[[Any, ErrorCode, str], Message]


@dataclass(slots=True, frozen=True)
class GeneralError:
    """Makes `response` with an `error_code` at the top, for the `versions` in which it has one."""

    response: type[Message]
    versions: Versions
    zeros: Mapping[str, Callable[[], Any]]
    has_message: bool

    def build(self, code: ErrorCode, message: str) -> Message:
        values = {name: zero() for name, zero in self.zeros.items()} | {"error_code": int(code)}
        if self.has_message:
            values["error_message"] = message
        return self.response(**values)


def general_error(request_class: type[Message]) -> GeneralError | None:
    """Returns the error response of a message class; None if no version of the response has a top-level
    `error_code`.
    """
    response = RESPONSES[request_class.KEY]
    fields = {field.name: field for field in response.__fields__}
    if "error_code" not in fields:
        return None
    hints = get_type_hints(response, include_extras=True)
    zeros = {name: _zero(hints[name]) for name, field in fields.items() if field.required}
    message = fields.get("error_message")
    # The response could not be encoded with an error message that the version lacks.
    has_message = message is not None and (
        message.ignorable or message.versions == fields["error_code"].versions
    )
    return GeneralError(response, fields["error_code"].versions, zeros, has_message)


def _zero(hint: Any) -> Callable[[], Any]:
    if get_origin(hint) is list:
        return list
    for part in get_args(hint):
        if isinstance(part, Wire):
            return lambda: part.zero
        if get_args(part):
            return _zero(part)
    assert isinstance(hint, type)
    return hint


def in_version(said: Message, version: int) -> Message:
    """Resets the top-level error code if this version has no field for it: its items carry the code."""
    for field in said.__fields__:
        if field.name == "error_code" and version not in field.versions and not field.ignorable:
            return said.replace(error_code=ErrorCode.NONE)
    return said
