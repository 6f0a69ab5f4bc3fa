"""A rate equals that of a twin which keeps every event."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.transport.metrics.rate import Rate, SimpleRate, Windows

# A second, in ticks that floats hold exactly: otherwise a window might end a moment earlier in one of the two.
TICKS = 1024
EVENTS = st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 1000)), min_size=1, max_size=60)


def twin(events, now, windows, *, simple=False):
    """Computes the samples from all events, as Kafka's `SampledStat` does; in ticks."""
    size, samples = windows.seconds * TICKS, []
    for at, amount in events:
        if not samples or at - samples[-1][0][0] >= size:
            samples.append([])
        samples[-1].append((at, amount))
    kept = [sample for sample in samples if now - sample[-1][0] < windows.number * size]
    if not kept:
        return 0.0
    elapsed = now - kept[0][0][0]
    full = int(elapsed // size)
    elapsed = max(elapsed, size) if simple else elapsed + max(windows.number - 1 - full, 0) * size
    total = sum(amount for sample in kept for _, amount in sample)
    return total / max(elapsed / TICKS, 0.001)


@given(EVENTS, st.integers(0, 20_000), st.sampled_from([(11, 1), (2, 3), (5, 1)]), st.booleans())
def test_rate_equals_that_of_twin(steps, later, windows, simple):
    windows = Windows(*windows)
    rate, events, now = (SimpleRate if simple else Rate)(windows), [], 0
    for wait, amount in steps:
        now += wait
        rate.record(amount, now / TICKS)
        events.append((now, amount))
        assert abs(rate.per_second(now / TICKS) - twin(events, now, windows, simple=simple)) < 1e-3
    now += later
    assert abs(rate.per_second(now / TICKS) - twin(events, now, windows, simple=simple)) < 1e-3


def test_rate_is_within_limit_after_the_delay():
    rate = Rate(Windows(11, 1))
    rate.record(2000, 0.0)
    assert rate.per_second(0.0) == 200
    delay = rate.delay(100, 0.0)
    assert delay == 10
    assert rate.delay(200, 0.0) == 0
    assert rate.per_second(delay + 1) == 0  # as in Kafka, a sample counts until its window is over


def test_revoked_event_leaves_no_trace():
    rate = Rate(Windows())
    rate.record(500, 1.0)
    rate.record(-500, 1.5)
    assert rate.per_second(1.5) == 0


@given(EVENTS, st.sampled_from([(11, 1), (2, 3), (1, 1)]), st.sampled_from([1.0, 50.0, 4000.0]))
def test_delay_spreads_counted_events_to_the_limit(steps, windows, limit):
    """The delay of a simple rate is less by the time since the oldest sample, which has already passed."""
    windows = Windows(*windows)
    rates, events, now = (Rate(windows), SimpleRate(windows)), [], 0
    for wait, amount in steps:
        now += wait
        events.append((now, amount))
        at = now / TICKS
        for rate in rates:
            rate.record(amount, at)
        whole, simple = (rate.per_second(at) for rate in rates)
        total, first = rates[1]._total, rates[1]._samples[0].start
        elapsed = total / whole
        delay = max(0.0, total / limit - elapsed) if whole > limit else 0.0
        assert rates[0].delay(limit, at) == pytest.approx(delay, abs=1e-6)
        delay = total / limit - (at - first) if simple > limit else 0.0
        assert rates[1].delay(limit, at) == pytest.approx(delay, abs=1e-6)


def test_new_rate_has_all_windows_except_the_last():
    rate, simple = Rate(Windows(11, 2.0)), SimpleRate(Windows(11, 2.0))
    for item in (rate, simple):
        item.record(400, 7.0)
    assert (rate.per_second(7.0), simple.per_second(7.0)) == (20.0, 200.0)
    assert (rate.per_second(8.5), simple.per_second(8.5)) == (400 / 21.5, 200.0)
    assert (rate.per_second(9.0), simple.per_second(9.0)) == (400 / 20, 200.0)
    assert (rate.per_second(17.0), simple.per_second(17.0)) == (400 / 20, 40.0)
    assert (rate.delay(10, 9.0), simple.delay(10, 9.0)) == (20.0, 38.0)
    assert (rate.delay(20, 9.0), simple.delay(200, 9.0)) == (0.0, 0.0)


@pytest.mark.parametrize("kind", [Rate, SimpleRate])
def test_sample_counts_until_all_later_windows_are_over(kind):
    rate = kind(Windows(3, 1.0))
    rate.record(6, 0.0)
    rate.record(6, 0.5)
    assert rate.per_second(3.25) == 12 / 3.25
    assert rate.per_second(3.5) == 0
    assert (rate._total, len(rate._samples)) == (0.0, 0)


def test_burst_in_single_window_counts_as_a_millisecond():
    rate = Rate(Windows(1, 1.0))
    rate.record(5, 3.0)
    assert rate.per_second(3.0) == 5000
    assert rate.per_second(3.25) == 20


def test_samples_are_bounded_by_windows_and_one():
    rate = Rate(Windows(3, 1.0))
    for second in range(9):
        rate.record(2.0, float(second))
        rate.record(1.0, second + 0.75)
        assert len(rate._samples) == min(second + 1, 4)
        assert rate._total == 3.0 * len(rate._samples)
    assert Windows() == (11, 1.0)
