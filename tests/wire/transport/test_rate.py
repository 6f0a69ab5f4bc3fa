"""A rate is that of a twin which keeps every event."""

from hypothesis import given
from hypothesis import strategies as st

from wire.transport.rate import Rate, SimpleRate, Windows

# A second, in ticks that floats hold exactly: else a window is over a moment earlier here or there.
TICKS = 1024
EVENTS = st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 1000)), min_size=1, max_size=60)


def twin(events, now, windows, *, simple=False):
    """Samples made anew from all events, as Kafka's `SampledStat` has them; in ticks."""
    size, samples = windows.seconds * TICKS, []
    for at, amount in events:
        if not samples or at - samples[-1][0][0] >= size:
            samples.append([])
        samples[-1].append((at, amount))
    kept = [one for one in samples if now - one[-1][0] < windows.number * size]
    if not kept:
        return 0.0
    elapsed = now - kept[0][0][0]
    full = int(elapsed // size)
    elapsed = max(elapsed, size) if simple else elapsed + max(windows.number - 1 - full, 0) * size
    total = sum(amount for one in kept for _, amount in one)
    return total / max(elapsed / TICKS, 0.001)


@given(EVENTS, st.integers(0, 20_000), st.sampled_from([(11, 1), (2, 3), (5, 1)]), st.booleans())
def test_it_is_the_twins(steps, later, windows, simple):
    windows = Windows(*windows)
    rate, events, now = (SimpleRate if simple else Rate)(windows), [], 0
    for wait, amount in steps:
        now += wait
        rate.record(amount, now / TICKS)
        events.append((now, amount))
        assert abs(rate.per_second(now / TICKS) - twin(events, now, windows, simple=simple)) < 1e-3
    now += later
    assert abs(rate.per_second(now / TICKS) - twin(events, now, windows, simple=simple)) < 1e-3


def test_after_the_delay_the_rate_is_what_it_may_be():
    rate = Rate(Windows(11, 1))
    rate.record(2000, 0.0)
    assert rate.per_second(0.0) == 200
    delay = rate.delay(100, 0.0)
    assert delay == 10
    assert rate.delay(200, 0.0) == 0
    assert (
        rate.per_second(delay + 1) == 0
    )  # as in Kafka a sample counts until the last window is over


def test_what_is_taken_back_never_was():
    rate = Rate(Windows())
    rate.record(500, 1.0)
    rate.record(-500, 1.5)
    assert rate.per_second(1.5) == 0
