"""Suggestions for mistyped names."""

import pytest

from trimaran.errors import similar
from trimaran.errors.similar import did_you_mean


@pytest.mark.parametrize(
    ("known", "most", "question"),
    [
        ([], 1, None),
        (["payments"], 1, None),
        (["payments", "orders"], 1, "did you mean orders?"),
        (["border", "orders"], 1, "did you mean orders?"),
        (["border", "orders"], 2, "did you mean orders or border?"),
        (["border", "orders", "ordersx"], 2, "did you mean orders or ordersx?"),
    ],
)
def test_nearest_names_are_suggested(known, most, question):
    assert did_you_mean("ordrs", known, most) == question
    assert did_you_mean("ordrs", iter(known), most) == question


def test_names_beyond_the_bound_are_not_compared(monkeypatch):
    monkeypatch.setattr(similar, "NAMES_MAX", 3)
    assert did_you_mean("ordrs", ["a", "b", "orders", "orders2"]) == "did you mean orders?"
    assert did_you_mean("ordrs", ["a", "b", "c", "orders"]) is None
