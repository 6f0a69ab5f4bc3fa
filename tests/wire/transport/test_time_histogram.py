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
    (found,) = histogram.summary(100.0).quantiles((wanted,))
    assert abs(found - twin) <= twin / 8 + 2e-6
    assert histogram.count == len(values)
    assert math.isclose(histogram.seconds, sum(values), abs_tol=1e-9)


def test_what_is_older_than_two_windows_counts_no_more():
    histogram = TimeHistogram()
    histogram.observe(1.0, 0.0)
    assert histogram.summary(WINDOW_SECONDS + 1).quantiles((0.5,))[0] > 0.8
    assert histogram.summary(2 * WINDOW_SECONDS + 2).quantiles((0.5,)) == [0.0]
    assert histogram.count == 1


def test_after_a_long_silence_nothing_old_is_left():
    histogram = TimeHistogram()
    histogram.observe(1.0, 0.0)
    histogram.observe(0.001, 10 * WINDOW_SECONDS)
    assert histogram.summary(10 * WINDOW_SECONDS).quantiles((1.0,))[0] < 0.01


def test_times_that_cannot_be_count_as_the_nearest_that_can():
    histogram = TimeHistogram()
    histogram.observe(-1.0, 0.0)
    histogram.observe(1e9, 0.0)
    low, high = histogram.summary(0.0).quantiles((0.5, 1.0))
    assert low == 0.0
    assert 3000 < high < 4200


@given(st.lists(seconds, max_size=50), st.lists(seconds, max_size=50))
def test_two_together_are_as_one_of_all_values(some, others):
    first, second, both = TimeHistogram(), TimeHistogram(), TimeHistogram()
    for one in some:
        first.observe(one, 100.0)
        both.observe(one, 100.0)
    for one in others:
        second.observe(one, 100.0)
        both.observe(one, 100.0)
    together, expected = first.summary(100.0) + second.summary(100.0), both.summary(100.0)
    assert together.counts == expected.counts
    assert together.count == expected.count
    assert math.isclose(together.seconds, expected.seconds, abs_tol=1e-6)


@given(st.lists(seconds, min_size=1, max_size=50))
def test_mean_and_longest_are_within_an_eighth(values):
    histogram = TimeHistogram()
    for one in values:
        histogram.observe(one, 100.0)
    mean, longest = histogram.summary(100.0).mean_and_longest()
    assert abs(mean - sum(values) / len(values)) <= sum(values) / len(values) / 8 + 2e-6
    assert abs(longest - max(values)) <= max(values) / 8 + 2e-6


def test_nothing_has_no_mean():
    assert TimeHistogram().summary().mean_and_longest() == (0.0, 0.0)


@given(st.lists(st.one_of(seconds, st.integers(-2, 2**40).map(lambda n: n / 2**20)), max_size=200))
def test_many_at_once_are_counted_as_one_by_one(values):
    one_by_one, at_once = TimeHistogram(), TimeHistogram()
    for one in values:
        one_by_one.observe(one, 100.0)
    at_once.observe_all([*values], 100.0)
    assert at_once.summary(100.0).counts == one_by_one.summary(100.0).counts
    assert at_once.count == one_by_one.count
    assert math.isclose(at_once.seconds, one_by_one.seconds, rel_tol=1e-9, abs_tol=1e-9)
