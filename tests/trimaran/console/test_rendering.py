"""How pages format numbers."""

import math

import pytest

from trimaran.console.rendering import number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345, "12,345"),
        (12345.0, "12,345"),
        (0.25, "0.2"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
    ],
)
def test_every_possible_quota_value_is_formatted(value, text):
    """The page of quotas once failed for a quota of NaN, which Kafka stores."""
    assert number(value) == text
