"""Failures of one address are held back longer and longer; others are not."""

import pytest

from wire.transport.failed_logins import FailedLogins

PEERS = 4096
LONGEST = 5.0
HALF_LIFE = 30.0


def test_each_failure_doubles_the_wait_up_to_a_bound():
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


def test_a_network_of_ipv6_is_one_address():
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
def test_other_networks_are_other_peers(first, second):
    failed = FailedLogins()
    failed.delay(first, 0.1, 0.0)
    assert failed.delay(second, 0.1, 0.0) == 0.1


def test_an_operator_may_have_no_delay_or_a_longer_one():
    failed = FailedLogins()
    assert [failed.delay("a", 0.0, 0.0) for _ in range(9)] == [0.0] * 9
    assert [failed.delay("b", 8.0, 0.0) for _ in range(3)] == [8.0] * 3


def test_addresses_are_bounded():
    failed = FailedLogins()
    for number in range(PEERS + 10):
        failed.delay(f"10.0.{number // 256}.{number % 256}", 0.1, 0.0)
    assert len(failed) == PEERS
    assert failed.delay("10.0.0.0", 0.1, 0.0) == 0.1
