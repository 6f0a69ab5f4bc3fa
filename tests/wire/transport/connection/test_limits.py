"""Bounds of a connection: their defaults, and the largest frame before login."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from trimaran.wire.transport.connection.limits import (
    FRAME_BYTES_BEFORE_LOGIN_MAX,
    FRAME_BYTES_WITH_TICKET_MAX,
    ConnectionLimits,
    Counters,
)

KIB, MIB = 1024, 1024 * 1024
BEFORE = 28 * KIB
WITH_TICKET = 68 * KIB


def test_defaults_are_those_of_kafka_or_documented():
    assert asdict(ConnectionLimits()) == {
        "frame_bytes_max": 100 * MIB,
        "idle_seconds": 600.0,
        "descriptors_end": 2**31,
        "handshake_seconds": 10.0,
        "in_flight_max": 64,
        "in_flight_bytes_max": 8 * MIB,
        "unsent_bytes_max": MIB,
        "request_bytes_max": 128 * MIB,
        "responses_bytes_max": 96 * MIB,
        "stalled_seconds": 1.0,
        "half_closed_seconds": 1.0,
    }
    assert FRAME_BYTES_BEFORE_LOGIN_MAX == BEFORE
    assert FRAME_BYTES_WITH_TICKET_MAX == WITH_TICKET


@pytest.mark.parametrize(
    ("frame_bytes_max", "token_bytes_max", "expected"),
    [
        (100 * MIB, BEFORE - 1, BEFORE - 1),
        (100 * MIB, BEFORE, BEFORE),
        (100 * MIB, BEFORE + 1, BEFORE),
        (100 * MIB, 0, 0),
        (BEFORE - 1, BEFORE, BEFORE - 1),
        (5, 6, 5),
        (6, 5, 5),
    ],
)
def test_frame_before_login_has_smallest_bound(frame_bytes_max, token_bytes_max, expected):
    limits = ConnectionLimits(frame_bytes_max=frame_bytes_max)
    assert limits.frame_bytes_before_login(token_bytes_max) == expected


@pytest.mark.parametrize(
    ("token_bytes_max", "expected"),
    [
        (WITH_TICKET - 1, WITH_TICKET - 1),
        (WITH_TICKET, WITH_TICKET),
        (WITH_TICKET + 1, WITH_TICKET),
        (BEFORE - 1, BEFORE - 1),
    ],
)
def test_frame_with_ticket_may_be_larger(token_bytes_max, expected):
    limits = ConnectionLimits()
    assert limits.frame_bytes_before_login(token_bytes_max, has_tickets=True) == expected


def test_counters_of_a_new_server_are_zero():
    counters = asdict(Counters())
    del counters["failed_logins"]
    assert set(counters.values()) == {0}
    assert Counters().failed_logins is not Counters().failed_logins
