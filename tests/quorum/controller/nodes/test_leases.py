"""Leases: liveness of brokers by heartbeats."""

from tests.quorum.metadata.build import broker, features, image_of
from trimaran.quorum.controller.nodes.leases import Leases

IMAGE = image_of(features(), broker(1), broker(2), broker(3, fenced=True))


def test_new_controller_gives_unfenced_brokers_full_leases():
    leases = Leases(9.0)
    leases.begin(IMAGE, now=100.0)
    assert leases.next_deadline() == 109.0
    assert leases.expired(108.9) == []
    assert [lease.broker_id for lease in leases.expired(109.0)] == [1, 2]
    assert [lease.broker_id for lease in leases.disconnected_leases()] == [1, 2]


def test_a_heartbeat_extends_the_lease():
    leases = Leases(9.0)
    leases.begin(IMAGE, now=100.0)
    leases.extend(1, 101, now=105.0)
    assert leases.next_deadline() == 109.0, "of the other one"
    assert [lease.broker_id for lease in leases.expired(110.0)] == [2]
    assert leases.is_valid(IMAGE.cluster.brokers[1], 113.9)
    assert not leases.is_valid(IMAGE.cluster.brokers[1], 114.0)


def test_blocked_time_does_not_count():
    leases = Leases(9.0)
    leases.begin(IMAGE, now=100.0)
    leases.extend_all(30.0)
    assert leases.expired(138.9) == []
    assert [lease.broker_id for lease in leases.expired(139.0)] == [1, 2]


def test_lease_belongs_to_one_incarnation():
    leases = Leases(9.0)
    leases.extend(1, 7, now=0.0)
    assert not leases.is_valid(IMAGE.cluster.brokers[1], 1.0)
    assert leases.get(1, 101) is None


def test_no_lease_means_no_deadline():
    leases = Leases(9.0)
    leases.extend(1, 101, now=0.0)
    leases.end(1)
    leases.end(1)
    assert leases.next_deadline() is None


def test_lowest_offset_is_of_slowest_active_broker():
    leases = Leases(9.0)
    assert leases.lowest_active_offset(IMAGE) is None
    leases.begin(IMAGE, now=0.0)
    leases.extend(3, 103, now=0.0).metadata_offset = 1  # fenced, so its offset does not count
    leases.extend(1, 101, now=0.0).metadata_offset = 50
    assert leases.lowest_active_offset(IMAGE) == -1
    leases.extend(2, 102, now=0.0).metadata_offset = 40
    assert leases.lowest_active_offset(IMAGE) == 40
    leases.extend(2, 102, now=0.0).shutdown_offset = 0  # shutting down
    assert leases.lowest_active_offset(IMAGE) == 50
    leases.extend(9, 109, now=0.0).metadata_offset = 1  # no longer registered
    assert leases.lowest_active_offset(IMAGE) == 50
    # Another incarnation than the registered one
    leases.extend(1, 999, now=0.0).metadata_offset = 1
    assert leases.lowest_active_offset(IMAGE) is None
