"""The throttled replicas, and how long they pause after too many bytes."""

import pytest

from trimaran.node.quotas.replication_throttle import ALL, ReplicationThrottle, replicas_here
from trimaran.wire.transport.metrics.rate import Windows


@pytest.fixture
def throttle():
    made = ReplicationThrottle(Windows(11, 1))
    made.bound = 100.0
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", []), ("*", ALL), (" * ", ALL), ("*,", ALL), ("0:11,1:12,7:11", [0, 7]), ("0:12", [])],
)
def test_broker_finds_its_replicas_in_list(text, expected):
    assert replicas_here(text, 11) == expected


def test_newer_list_replaces_the_older_one(throttle):
    throttle.set_replicas("t", [0, 7])
    throttle.set_replicas("all", ALL)
    asked = [("t", 0), ("t", 1), ("t", 7), ("all", 3), ("other", 0)]
    assert [throttle.holds(partition) for partition in asked] == [True, False, True, True, False]
    throttle.set_replicas("t", [1])
    assert [throttle.holds(partition) for partition in asked] == [False, True, False, True, False]
    throttle.set_replicas("t", [])
    throttle.set_replicas("all", [])
    assert not throttle.is_set


def test_new_throttle_does_not_burst(throttle):
    """A client, in contrast, may use the quota of eleven windows in one burst."""
    throttle.record(100, 0.0)
    assert throttle.delay(0.0) == 0
    throttle.record(100, 0.0)
    assert throttle.delay(0.0) == pytest.approx(2)
    assert throttle.delay(1.5) == pytest.approx(0.5)
    assert throttle.delay(2.0) == 0
    assert throttle.rate(4.0) == 50


def test_zero_bound_stops_everything(throttle):
    throttle.bound = 0
    assert throttle.delay(0.0) == 0
    throttle.record(1000, 0.0)
    assert throttle.delay(10.0) > 0
