"""Responses of a broker whose handler fails as a whole: each requested item is named, with the code in the version's
own place, as in `refusals.txt` (`REWRITE_TRANSCRIPTS=1` writes it).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from tests.datadriven import REWRITE
from trimaran.broker.handlers.registry import broker_registry
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.errors import CloseConnection, ErrorCode

REFUSALS = Path(__file__).parent / "refusals.txt"
CODE, WHY = ErrorCode.REQUEST_TIMED_OUT, "why"


def filled(kind: Any, version: int, numbers: Iterator[int]) -> Any:
    """Returns a new value of a type: arrays have two elements, and nullable fields are not null."""
    base, *_ = [arg for arg in get_args(kind) if arg is not type(None)] or [kind]
    if get_origin(kind) is not list and base is not kind and type(None) in get_args(kind):
        return filled(base, version, numbers)
    if get_origin(kind) is list:
        return [filled(base, version, numbers) for _ in range(2)]
    plain = kind if isinstance(kind, type) else base
    if not isinstance(plain, type):
        return None  # records
    if issubclass(plain, Struct):
        hints = get_type_hints(plain, include_extras=True)
        return plain(
            **{
                field.name: filled(hints[field.name], version, numbers)
                for field in plain.__fields__
                if version in field.versions or field.required
            }
        )
    if plain is str:
        return f"name-{next(numbers)}"
    if plain is bytes:
        return b"%016d" % next(numbers)
    if plain is bool:
        return False
    return next(numbers) if plain is int else None


def shown(value: Any) -> str:
    if isinstance(value, Struct):
        fields = ((field, getattr(value, field.name)) for field in value.__fields__)
        told = [
            f"{field.name}={shown(found)}"
            for field, found in fields
            if field.required or found not in (field.default, [], 0)
        ]
        return f"({' '.join(told)})"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return value.name if isinstance(value, ErrorCode) else repr(value)


def refusals() -> Iterator[str]:
    for _, route in sorted(broker_registry()._routes.items()):
        if route.on_error is None:
            continue
        version = route.versions.high
        request = filled(route.request, version, itertools.count(1))
        yield f"{route.request.__name__.removesuffix('Request')} {version}"
        try:
            answer = route.on_error(request, CODE, WHY)
        except CloseConnection as error:
            yield f"  closes: {error}\n"
            continue
        for field in answer.__fields__:
            found = getattr(answer, field.name)
            for item in found if isinstance(found, list) else [found]:
                if item not in (field.default, 0, None):
                    yield f"  {field.name}: {shown(item)}"
        yield ""


def test_failing_handler_refuses_each_requested_item():
    found = "\n".join(refusals())
    if REWRITE:
        REFUSALS.write_text(found)
    assert found == REFUSALS.read_text()
