"""`@handles`: declares a handler, next to its code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from trimaran.wire.codec.declarations import Versions
from trimaran.wire.schema import DECODE_BUDGET, Message
from trimaran.wire.transport.requests.access import Access
from trimaran.wire.transport.requests.error_responses import OnError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True, frozen=True)
class Handled:
    """The declaration that `handles` attaches to a function."""

    request: type[Message]
    versions: Versions
    access: Access
    on_error: OnError | None = None
    elements_max: int = DECODE_BUDGET.elements_max
    takes_frame: bool = False
    once: Callable[[Any], Any] | None = None


def handles(
    request: type[Message],
    *,
    versions: str,
    access: Access,
    on_error: OnError | None = None,
    elements_max: int = DECODE_BUDGET.elements_max,
    takes_frame: bool = False,
    once: Callable[[Any], Any] | None = None,
) -> Callable[[F], F]:
    """Declares the request that a function answers, its versions (`"3-13"`), and the clients that may send it.

    `on_error`, `(request, code, message) -> response`, builds the response to an exception of the handler, if a
    top-level `error_code` does not suffice. A request is refused if its arrays have more than `elements_max` elements
    together. `once` removes repeated items from the request before the function sees it
    (`trimaran.wire.transport.requests.once`). A function that `takes_frame` receives the bytes of the request,
    including the header: they are only decoded to respond with an error.
    """

    def note(function: F) -> F:
        cast(Any, function).__handles__ = Handled(
            request,
            Versions.parse(versions),
            access,
            on_error,
            elements_max,
            takes_frame,
            once,
        )
        return function

    return note


def handles_as(
    declared: Callable[..., Any],
    *,
    versions: str | None = None,
    access: Access | None = None,
    takes_frame: bool = False,
) -> Callable[[F], F]:
    """Declares a function like `declared`, with other versions or another access if they are given: an API that is
    served by two kinds of nodes has one declaration.
    """
    handled = declaration_of(declared)
    if versions is not None:
        handled = replace(handled, versions=Versions.parse(versions))
    if access is not None:
        handled = replace(handled, access=access)
    if takes_frame:
        handled = replace(handled, takes_frame=True)

    def note(function: F) -> F:
        cast(Any, function).__handles__ = handled
        return function

    return note


def declaration_of(handler: Callable[..., Any]) -> Handled:
    """Returns the declaration that `handles` or `handles_as` attached to a function."""
    handled = getattr(handler, "__handles__", None)
    assert isinstance(handled, Handled), f"{handler!r} lacks @handles"
    return handled
