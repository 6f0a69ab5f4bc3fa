"""`@handles`: the declaration of a handler, next to its code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from trimaran.wire.codec.declarations import Versions
from trimaran.wire.schema import DECODE_BUDGET, Message
from trimaran.wire.transport.requests.access import Access
from trimaran.wire.transport.requests.error_answers import OnError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True, frozen=True)
class Handled:
    """What `handles` notes on a function."""

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
    """Declares which request, in which versions (`"3-13"`), a function answers, and which clients may send it; does
    nothing else.

    `on_error`, `(request, code, message) -> response`, answers an exception out of the handler if Kafka's error is not
    just the top-level `error_code` of the response. More than `elements_max` of all its arrays together are refused.
    `once` makes of the request one in which nothing is named twice (`trimaran.wire.transport.requests.once`), which the
    function sees. A function that `takes_frame` gets the bytes of the request, header and all: they are decoded only to
    answer an error.
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
    """Declares of a function what `declared` declares of itself, with other versions or another access if they are
    given: an API that two kinds of nodes serve has one declaration.
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
    """Returns what `handles` or `handles_as` has noted on a function."""
    handled = getattr(handler, "__handles__", None)
    assert isinstance(handled, Handled), f"{handler!r} lacks @handles"
    return handled
