"""Quantiles of times against a naive twin that keeps every one of them."""

import math

from hypothesis import given
from hypothesis import strategies as st

from wire.transport.time_histogram import (
    BUCKETS,
    WINDOW_SECONDS,
    TimeHistogram,
    bucket_of,
    middle_of,
)

seconds = st.floats(min_value=0, max_value=3600, allow_nan=False)


@given(st.integers(min_value=0, max_value=3_600_000_000))
def test_a_bucket_is_an_eighth_wide_to_either_side(microseconds):
    bucket = bucket_of(microseconds)
    assert 0 <= bucket < BUCKETS
    assert abs(middle_of(bucket) - microseconds) <= microseconds / 8


@given(st.integers(min_value=0, max_value=3_600_000_000))
def test_buckets_are_in_the_order_of_times(microseconds):
    assert bucket_of(microseconds) <= bucket_of(microseconds + 1)


@given(st.lists(seconds, min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.95, 0.999, 1.0]))
def test_quantiles_are_those_of_all_values(values, wanted):
    histogram = TimeHistogram()
    for one in values:
        histogram.observe(one, 100.0)
    twin = sorted(values)[max(0, math.ceil(wanted * len(values)) - 1)]
    (found,) = histogram.quantiles((wanted,), 100.0)
    assert abs(found - twin) <= twin / 8 + 2e-6
    assert histogram.count == len(values)
    assert math.isclose(histogram.seconds, sum(values), abs_tol=1e-9)


def test_what_is_older_than_two_windows_counts_no_more():
    histogram = TimeHistogram()
    histogram.observe(1.0, 0.0)
    assert histogram.quantiles((0.5,), WINDOW_SECONDS + 1)[0] > 0.8
    assert histogram.quantiles((0.5,), 2 * WINDOW_SECONDS + 2) == [0.0]
    assert histogram.count == 1


def test_after_a_long_silence_nothing_old_is_left():
    histogram = TimeHistogram()
    histogram.observe(1.0, 0.0)
    histogram.observe(0.001, 10 * WINDOW_SECONDS)
    assert histogram.quantiles((1.0,), 10 * WINDOW_SECONDS)[0] < 0.01


def test_times_that_cannot_be_count_as_the_nearest_that_can():
    histogram = TimeHistogram()
    histogram.observe(-1.0, 0.0)
    histogram.observe(1e9, 0.0)
    low, high = histogram.quantiles((0.5, 1.0), 0.0)
    assert low == 0.0
    assert 3000 < high < 4200
