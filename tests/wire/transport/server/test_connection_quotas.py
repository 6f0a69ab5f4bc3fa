"""Connections are counted as by a naive twin, which keeps a list of all that are open and of all arrivals."""

import math
from collections import Counter

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trimaran.wire.transport.metrics.rate import Rate, Windows
from trimaran.wire.transport.server.connection_quotas import ConnectionBounds, ConnectionQuotas

LISTENERS, ADDRESSES = ("CLIENTS", "NODES"), ("10.0.0.1", "10.0.0.2")
NUMBERS = st.integers(1, 3)
BOUNDS = st.builds(
    ConnectionBounds,
    connections_max=NUMBERS,
    of_listeners=st.dictionaries(st.sampled_from(LISTENERS), NUMBERS),
    per_ip_max=NUMBERS,
    per_ip=st.dictionaries(st.sampled_from(ADDRESSES), NUMBERS),
    rate=st.sampled_from([0.0, 0.25, 1.0, math.inf]),
    rates_of_listeners=st.dictionaries(
        st.sampled_from(LISTENERS), st.sampled_from([0.0, 0.25, 1.0, math.inf])
    ),
)
WINDOWS = Windows(2, 1)
PLACES = st.tuples(st.sampled_from(LISTENERS), st.sampled_from(ADDRESSES))
STEPS = st.lists(st.tuples(PLACES, st.booleans()), max_size=8)


@given(BOUNDS, STEPS)
def test_counts_and_bounds_equal_the_twins(bounds, steps):
    quotas, opened = ConnectionQuotas(bounds), []
    for place, comes in steps:
        if comes:
            quotas.opened(*place)
            opened.append(place)
        elif place in opened:
            quotas.closed(*place)
            opened.remove(place)
        listeners = Counter(listener for listener, _ in opened)
        addresses = Counter(address for _, address in opened)
        assert (quotas.total, quotas.excess) == (
            len(opened),
            max(0, len(opened) - bounds.connections_max),
        )
        for listener in LISTENERS:
            assert quotas.of_listener(listener) == listeners[listener]
            alone = listeners[listener] >= bounds.of_listeners.get(listener, math.inf)
            assert quotas.is_full(listener, protected=True) == alone
            full = alone or len(opened) >= bounds.connections_max
            assert quotas.is_full(listener, protected=False) == full
        for address in ADDRESSES:
            assert quotas.of_address(address) == addresses[address]
            bound = bounds.per_ip.get(address, bounds.per_ip_max)
            assert quotas.is_too_many_of(address) == (addresses[address] >= bound)


def expected_delay(rate, limit, now):
    if limit in (None, math.inf):
        return 0.0
    return min(rate.delay(max(limit, 0.001), now), WINDOWS.seconds)


COMINGS = st.lists(
    st.tuples(PLACES, st.sampled_from([0.0, 0.25]), st.sampled_from([0.0, 0.5])),
    min_size=6,
    max_size=12,
)
RATES = st.sampled_from([0.25, 1.0])
BOUNDED = st.builds(
    ConnectionBounds,
    rate=RATES,
    rates_of_listeners=st.fixed_dictionaries({"CLIENTS": RATES, "NODES": RATES}),
)


@given(BOUNDS | BOUNDED, COMINGS)
def test_punctual_arrivals_set_the_waiting_rate(bounds, comings):
    """If both the listener and the server limit the rate, the longer wait counts; other nodes wait for the
    listener's.
    """
    early = {}
    quotas = ConnectionQuotas(bounds, WINDOWS, lambda ip: early[ip])
    whole, of_listeners, now = (
        Rate(WINDOWS),
        {listener: Rate(WINDOWS) for listener in LISTENERS},
        0.0,
    )
    for (listener, address), wait, too_early in comings:
        now += wait
        early = {
            each_address: too_early if each_address == address else -1.0
            for each_address in ADDRESSES
        }
        protected = listener == "NODES"
        rates = [of_listeners[listener], *([] if protected else [whole])]
        for rate in rates:
            rate.record(1, now)
        limits = [bounds.rates_of_listeners.get(listener), bounds.rate]
        delays = [expected_delay(*pair, now) for pair in zip(rates, limits, strict=False)]
        assert quotas.came(listener, now, protected=protected) == max(delays)
        assert quotas.too_early(listener, address, now, protected=protected) == too_early
        if too_early:
            for rate in rates:
                rate.record(-1, now)


def test_no_connection_is_early_without_judge():
    assert ConnectionQuotas().too_early("CLIENTS", "10.0.0.1", 0.0, protected=False) == 0


def test_address_without_connections_is_forgotten():
    quotas = ConnectionQuotas()
    for _ in range(2):
        quotas.opened("CLIENTS", "10.0.0.1")
    quotas.closed("CLIENTS", "10.0.0.1")
    assert quotas._of_addresses == {"10.0.0.1": 1}
    quotas.closed("CLIENTS", "10.0.0.1")
    assert len(quotas._of_addresses) == 0


async def test_waiters_notice_closed_connection_and_new_bounds():
    quotas = ConnectionQuotas(ConnectionBounds(connections_max=1))
    quotas.opened("CLIENTS", "10.0.0.1")
    heard = []

    async def listen():
        while len(heard) < 2:
            await quotas.freed.wait()
            heard.append((quotas.total, quotas.bounds.connections_max))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await wait_all_tasks_blocked()
        quotas.closed("CLIENTS", "10.0.0.1")
        await wait_all_tasks_blocked()
        quotas.change(ConnectionBounds(connections_max=5))
    assert heard == [(0, 1), (0, 5)]
