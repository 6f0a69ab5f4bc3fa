"""Failures from one address are delayed more and more; those from other addresses are not."""

import pytest

from trimaran.wire.transport.connection.failed_logins import FailedLogins

PEERS = 4096
LONGEST = 5.0
HALF_LIFE = 30.0


def test_each_failure_doubles_the_bounded_wait():
    failed = FailedLogins()
    assert [failed.delay("10.0.0.1", 0.1, 0.0) for _ in range(7)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.6,
        3.2,
        5.0,
    ]
    assert max(failed.delay("10.0.0.1", 0.1, 0.0) for _ in range(100)) == LONGEST
    assert failed.delay("10.0.0.2", 0.1, 0.0) == 0.1


def test_failures_are_forgotten():
    failed = FailedLogins()
    for _ in range(4):
        failed.delay("10.0.0.1", 0.1, 0.0)
    assert failed.delay("10.0.0.1", 0.1, HALF_LIFE) == 0.4
    assert failed.delay("10.0.0.1", 0.1, 100 * HALF_LIFE) == 0.1


def test_ipv6_network_counts_as_one_address():
    failed = FailedLogins()
    failed.delay("2001:db8:1:2:3:4:5:6", 0.1, 0.0)
    assert failed.delay("2001:db8:1:2:ffff::1", 0.1, 0.0) == 0.2
    assert failed.delay("2001:db8:1:3::1", 0.1, 0.0) == 0.1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2001:db8::1", "2001:db8::2"),
        ("2001:db8::1", "2001:0db8:0:0:ffff::1"),
        ("2001:db8:0:1::", "2001:DB8:0:1:ffff:ffff:ffff:ffff"),
        ("fe80::1%eth0", "fe80::2%eth1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_forms_of_one_network_are_one_peer(first, second):
    failed = FailedLogins()
    failed.delay(first, 0.1, 0.0)
    assert failed.delay(second, 0.1, 0.0) == 0.2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2001:db8:0:1::", "2001:db8:0:2::"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2"),
        ("::1", "::ffff:0.0.0.1"),
    ],
)
def test_other_networks_are_separate_peers(first, second):
    failed = FailedLogins()
    failed.delay(first, 0.1, 0.0)
    assert failed.delay(second, 0.1, 0.0) == 0.1


def test_operator_may_set_no_or_longer_delay():
    failed = FailedLogins()
    assert [failed.delay("a", 0.0, 0.0) for _ in range(9)] == [0.0] * 9
    assert [failed.delay("b", 8.0, 0.0) for _ in range(3)] == [8.0] * 3


def test_addresses_are_bounded():
    failed = FailedLogins()
    for number in range(PEERS + 10):
        failed.delay(f"10.0.{number // 256}.{number % 256}", 0.1, 0.0)
    assert len(failed) == PEERS
    assert failed.delay("10.0.0.0", 0.1, 0.0) == 0.1


@pytest.mark.parametrize("later", [0.0, 1.0, 15.0, HALF_LIFE, 45.0])
def test_half_of_earlier_failures_fade_in_thirty_seconds(later):
    failed, expected, now = FailedLogins(), 0.0, 100.0
    for _ in range(9):
        delay = failed.delay("10.0.0.1", 0.001, now)
        earlier = expected * 2 ** (-later / HALF_LIFE)
        assert delay == pytest.approx(0.001 * 2 ** int(earlier))
        expected = earlier + 1
        count, since = failed._seen["10.0.0.1"]
        assert (count, since) == (pytest.approx(expected), now)
        now += later


def test_wait_is_doubled_at_most_sixteen_times():
    failed = FailedLogins()
    delays = [failed.delay("10.0.0.1", 1e-5, 0.0) for _ in range(20)]
    assert delays == pytest.approx([1e-5 * 2 ** min(number, 16) for number in range(20)])


def test_oldest_failure_is_forgotten_first():
    failed = FailedLogins()
    for number in range(PEERS):
        failed.delay(f"peer {number}", 0.1, 0.0)
    failed.delay("peer 0", 0.1, 0.0)
    failed.delay("one more", 0.1, 0.0)
    assert len(failed) == PEERS
    assert "peer 0" in failed._seen
    assert "peer 1" not in failed._seen
