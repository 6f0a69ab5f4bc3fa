"""Which response class belongs to a request class: they stand in one file, `XRequest` beside `XResponse`."""

from __future__ import annotations

import sys
from functools import cache

from wire.schema import Message


@cache
def response_class(request_class: type[Message]) -> type[Message]:
    """The class of the answers to `request_class`."""
    name = request_class.__name__.removesuffix("Request") + "Response"
    found = getattr(sys.modules[request_class.__module__], name)
    assert isinstance(found, type)
    assert issubclass(found, Message)
    return found
