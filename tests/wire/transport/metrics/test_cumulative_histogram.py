"""Histograms in Prometheus' format, compared with a count of all values."""

import math

from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.transport.metrics.cumulative_histogram import BOUNDS, CumulativeHistogram

seconds = st.one_of(st.floats(min_value=0, max_value=100), st.sampled_from(BOUNDS))


@given(st.lists(seconds), st.lists(seconds))
def test_buckets_are_cumulative(some, others):
    histogram, other = CumulativeHistogram(), CumulativeHistogram()
    for item in some:
        histogram.observe(item)
    for each_other in others:
        other.observe(each_other)
    histogram.add(other)
    values = [*some, *others]
    for text, count in histogram.buckets().items():
        assert count == sum(value <= float(text) for value in values)
    assert [*histogram.buckets()][-1] == "+Inf"
    assert math.isclose(histogram.seconds, sum(values), abs_tol=1e-9)
