"""Quantiles of times, compared with a naive twin that keeps all of them."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.transport.metrics.time_histogram import (
    BUCKETS,
    TimeHistogram,
    bucket_of,
    low_of,
    middle_of,
)

MINUTE = 60.0

seconds = st.floats(min_value=0, max_value=3600, allow_nan=False)


@given(st.integers(min_value=0, max_value=3_600_000_000))
def test_bucket_is_an_eighth_wide_each_way(microseconds):
    bucket = bucket_of(microseconds)
    assert 0 <= bucket < BUCKETS
    assert abs(middle_of(bucket) - microseconds) <= microseconds / 8


@given(st.integers(min_value=0, max_value=3_600_000_000))
def test_buckets_are_in_the_order_of_times(microseconds):
    assert bucket_of(microseconds) <= bucket_of(microseconds + 1)


@given(st.lists(seconds, min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.95, 0.999, 1.0]))
def test_quantiles_are_those_of_all_values(values, wanted):
    histogram = TimeHistogram()
    for value in values:
        histogram.observe(value, 100.0)
    twin = sorted(values)[max(0, math.ceil(wanted * len(values)) - 1)]
    (found,) = histogram.summary(100.0).quantiles((wanted,))
    assert abs(found - twin) <= twin / 8 + 2e-6
    assert histogram.count == len(values)
    assert math.isclose(histogram.seconds, sum(values), abs_tol=1e-9)


def test_observation_older_than_two_windows_is_dropped():
    histogram = TimeHistogram()
    histogram.observe(1.0, 0.0)
    assert histogram.summary(MINUTE + 1).quantiles((0.5,))[0] > 0.8
    assert histogram.summary(2 * MINUTE + 2).quantiles((0.5,)) == [0.0]
    assert histogram.count == 1


def test_old_times_expire_after_long_silence():
    histogram = TimeHistogram()
    histogram.observe(1.0, 0.0)
    histogram.observe(0.001, 10 * MINUTE)
    assert histogram.summary(10 * MINUTE).quantiles((1.0,))[0] < 0.01


def test_impossible_times_count_as_nearest_possible():
    histogram = TimeHistogram()
    histogram.observe(-1.0, 0.0)
    histogram.observe(1e9, 0.0)
    low, high = histogram.summary(0.0).quantiles((0.5, 1.0))
    assert low == 0.0
    assert 3000 < high < 4200


@given(st.lists(seconds, max_size=50), st.lists(seconds, max_size=50))
def test_two_merged_histograms_equal_one(some, others):
    first, second, both = TimeHistogram(), TimeHistogram(), TimeHistogram()
    for item in some:
        first.observe(item, 100.0)
        both.observe(item, 100.0)
    for other in others:
        second.observe(other, 100.0)
        both.observe(other, 100.0)
    together, expected = first.summary(100.0) + second.summary(100.0), both.summary(100.0)
    assert together.counts == expected.counts
    assert together.count == expected.count
    assert math.isclose(together.seconds, expected.seconds, abs_tol=1e-6)


@given(st.lists(seconds, min_size=1, max_size=50))
def test_mean_and_maximum_are_within_an_eighth(values):
    histogram = TimeHistogram()
    for value in values:
        histogram.observe(value, 100.0)
    mean, longest = histogram.summary(100.0).mean_and_longest()
    assert abs(mean - sum(values) / len(values)) <= sum(values) / len(values) / 8 + 2e-6
    assert abs(longest - max(values)) <= max(values) / 8 + 2e-6


def test_empty_histogram_has_mean_zero():
    assert TimeHistogram().summary().mean_and_longest() == (0.0, 0.0)


@given(st.lists(st.one_of(seconds, st.integers(-2, 2**40).map(lambda n: n / 2**20)), max_size=200))
def test_observing_many_equals_observing_each(values):
    one_by_one, at_once = TimeHistogram(), TimeHistogram()
    for value in values:
        one_by_one.observe(value, 100.0)
    at_once.observe_all([*values], 100.0)
    assert at_once.summary(100.0).counts == one_by_one.summary(100.0).counts
    assert at_once.count == one_by_one.count
    assert math.isclose(at_once.seconds, one_by_one.seconds, rel_tol=1e-9, abs_tol=1e-9)


def naive_bucket(microseconds):
    """Returns the bucket, four to each power of two, by the logarithm."""
    if microseconds < 4:
        return microseconds
    power = int(math.log2(microseconds) + 1e-12)
    quarter = (microseconds - 2**power) * 4 // 2**power
    return 4 * (power - 1) + quarter


def test_bucket_has_its_first_last_and_middle():
    lows = sorted(
        {1 << n for n in range(33)} | {(1 << n) * q // 4 for n in range(2, 33) for q in (5, 6, 7)}
    )
    lows = [0, 3, *lows]
    for low in lows:
        for item in (low, low + 1, max(0, low - 1)):
            assert bucket_of(item) == naive_bucket(item), item
    buckets = range(bucket_of(3_600_000_000) + 1)
    assert len(buckets) == BUCKETS
    for bucket in buckets:
        low, after = low_of(bucket), low_of(bucket + 1)
        assert bucket_of(low) == bucket_of(after - 1) == bucket
        assert bucket_of(after) == bucket + 1
        assert middle_of(bucket) == (low + after - 1) / 2


def counted(histogram, now):
    return {bucket: count for bucket, count in enumerate(histogram.summary(now).counts) if count}


@pytest.mark.parametrize("at_once", [False, True])
def test_time_is_counted_in_bucket_at_bounds(at_once):
    """Times count in whole microseconds; those out of range count in the first or the last bucket."""
    hour = 3600 * 1_000_000
    for microseconds, counts_as in (
        *((number, number) for number in (0, 1, 2, 3, 4, 5, 7, 8, 1000, hour - 1, hour)),
        *((-1, 0), (-(10**9), 0), (hour + 1, hour), (hour * 9, hour)),
    ):
        histogram = TimeHistogram()
        seconds = (microseconds + (0.5 if microseconds >= 0 else -0.5)) / 1e6
        if at_once:
            histogram.observe_all([seconds], 5.0)
        else:
            histogram.observe(seconds, 5.0)
        assert counted(histogram, 5.0) == {naive_bucket(counts_as): 1}
        assert (histogram.count, histogram.seconds) == (1, seconds)


@pytest.mark.parametrize("at_once", [False, True])
def test_previous_window_is_kept_until_next_ends(at_once):
    def observed(histogram, seconds, now):
        if at_once:
            histogram.observe_all([seconds], now)
        else:
            histogram.observe(seconds, now)

    end = 7.0 + MINUTE
    early, late, other = (naive_bucket(microseconds) for microseconds in (100, 200, 400))
    histogram = TimeHistogram()
    observed(histogram, 0.0001, 7.0)
    observed(histogram, 0.0002, end - 0.5)
    assert counted(histogram, end - 0.5) == {early: 1, late: 1}
    observed(histogram, 0.0004, end)
    assert counted(histogram, end) == {early: 1, late: 1, other: 1}
    assert counted(histogram, end + MINUTE - 0.5) == {early: 1, late: 1, other: 1}
    assert counted(histogram, end + MINUTE) == {other: 1}
    assert counted(histogram, end + 2 * MINUTE) == {}
    later = TimeHistogram()
    observed(later, 0.0001, 7.0)
    assert counted(later, end + MINUTE - 0.5) == {early: 1}
    silent = TimeHistogram()
    observed(silent, 0.0001, 7.0)
    assert counted(silent, end + MINUTE) == {}


def test_summary_has_exact_bucket_counts():
    histogram = TimeHistogram()
    histogram.observe_all([0.000002] * 3 + [0.0001], 1.0)
    summary = histogram.summary(1.0)
    low, high = 2 / 1e6, middle_of(bucket_of(100)) / 1e6
    assert summary.quantiles((0.0, 0.5, 0.75, 0.76, 1.0)) == [low, low, low, high, high]
    assert summary.mean_and_longest() == (pytest.approx((3 * low + high) / 4), high)
    twice = summary + summary
    assert (twice.count, twice.seconds) == (8, 2 * histogram.seconds)
    assert twice.quantiles((0.75, 0.76)) == [low, high]
    assert TimeHistogram().summary(1.0).quantiles((0.5, 1.0)) == [0.0, 0.0]


def test_observation_without_time_uses_the_clock():
    histogram = TimeHistogram()
    histogram.observe(0.0001)
    assert sum(histogram.summary().counts) == 1
    assert sum(histogram.summary(time.monotonic() + 3 * MINUTE).counts) == 0
