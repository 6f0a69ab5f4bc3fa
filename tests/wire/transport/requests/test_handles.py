"""`@handles` and `@handles_as`: a declaration has exactly what was given; only the given parts change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimaran.wire.codec.declarations import Versions
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.schema import DECODE_BUDGET
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import (
    Handled,
    declaration_of,
    handles,
    handles_as,
)

OPEN, OTHER = open_to_all("a test"), open_to_all("another test")


def function(request, context, call):
    raise AssertionError


def declared(**options):
    return handles(HeartbeatRequest, versions="1-3", access=OPEN, **options)


def test_declaration_has_what_was_given():
    options = {"on_error": print, "elements_max": 7, "takes_frame": True, "once": repr}
    noted = declared(**options)(function)
    assert noted is function
    assert declaration_of(noted) == Handled(HeartbeatRequest, Versions(1, 3), OPEN, **options)


def test_declaration_has_defaults():
    assert declaration_of(declared()(function)) == Handled(
        HeartbeatRequest,
        Versions(1, 3),
        OPEN,
        on_error=None,
        elements_max=DECODE_BUDGET.elements_max,
        takes_frame=False,
        once=None,
    )


@pytest.mark.parametrize("takes_frame", [False, True])
@pytest.mark.parametrize(
    ("given", "changes"),
    [
        ({}, {}),
        ({"versions": "2-4"}, {"versions": Versions(2, 4)}),
        ({"access": OTHER}, {"access": OTHER}),
        ({"takes_frame": True}, {"takes_frame": True}),
        ({"versions": "0", "access": OTHER}, {"versions": Versions(0, 0), "access": OTHER}),
    ],
)
def test_function_is_declared_like_another(takes_frame, given, changes):
    def first(request, context, call):
        raise AssertionError

    def second(request, context, call):
        raise AssertionError

    options = {"on_error": print, "elements_max": 7, "takes_frame": takes_frame, "once": repr}
    declared(**options)(first)
    before = declaration_of(first)
    assert handles_as(first, **given)(second) is second
    assert declaration_of(second) == replace(before, **changes)
    assert declaration_of(first) is before


def test_undeclared_function_is_no_handler():
    with pytest.raises(AssertionError, match="lacks @handles"):
        declaration_of(print)
