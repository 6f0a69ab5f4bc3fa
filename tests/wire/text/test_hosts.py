"""Texts of addresses: when two texts mean the same address, and how Java formats addresses."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.wire.text.hosts import address_in, are_same_hosts, covers_host, is_host, java_text
from trimaran.wire.transport.requests.calls import ConnectionInfo


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::A%eth0", "fe80::a%eth0"),
        ("host", None),
        ("", None),
        ("1" * 65, None),
    ],
)
def test_address_is_formatted_as_by_sockets(text, expected):
    assert address_in(text) == expected


SAME = [
    ("0:0:0:0:0:0:0:1", "::1"),
    ("::1", "0:0:0:0:0:0:0:1"),
    ("0000:0000:0000:0000:0000:0000:0000:0001", "::1"),
    ("2001:DB8::A", "2001:db8::a"),
    ("::ffff:10.0.0.7", "10.0.0.7"),
    ("::FFFF:0A00:0007", "10.0.0.7"),
    ("0:0:0:0:0:ffff:a00:7", "10.0.0.7"),
    ("10.0.0.7", "::ffff:10.0.0.7"),
    ("fe80::1", "fe80::1%eth0"),
    ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0"),
    ("name", "name"),
]
OTHERS = [
    ("::2", "::1"),
    ("fe80::1%eth1", "fe80::1%eth0"),
    ("fe80::1%eth0", "fe80::1"),
    ("10.0.0.7", "10.0.0.70"),
    ("name", "NAME"),
    ("", "::1"),
    ("::", "0.0.0.0"),
]


@pytest.mark.parametrize(("told", "host"), SAME)
def test_address_forms_are_equivalent(told, host):
    assert is_host(told, host)


@pytest.mark.parametrize(("told", "host"), OTHERS)
def test_different_addresses_are_distinguished(told, host):
    assert not is_host(told, host)


@pytest.mark.parametrize(
    ("pattern", "host", "is_covered"),
    [
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("10.1.2.3/30", "10.1.2.0", True),
        ("10.1.2.3/30", "10.1.2.4", False),
        ("10.1.2.3/32", "10.1.2.3", True),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("0.0.0.0/0", "::1", False),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("2001:db8::/32", "2001:db8:0:0:0:0:0:a", True),
        ("2001:db8::/32", "2001:db9::", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("fe80::%eth0/10", "fe80::1%eth0", False),
        ("10.0.0.0/255.0.0.0", "10.0.0.1", False),
        ("10.0.0.0/ 8", "10.0.0.1", False),
        ("10.0.0.0/٨", "10.0.0.1", False),
        ("10.0.0.0/33", "10.0.0.1", False),
        ("10.0.0.0/8", "name", False),
        ("name/8", "name", False),
        ("10.0.0.0/" + "0" * 64 + "8", "10.0.0.1", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("10.0.0.7", "10.0.0.70", False),
    ],
)
def test_pattern_covers_addresses_of_its_network(pattern, host, is_covered):
    assert covers_host(pattern, host) == is_covered


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:DB8::0A", "2001:db8:0:0:0:0:0:a"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("name", "name"),
        ("a:b", "a:b"),
    ],
)
def test_java_writes_every_group(host, expected):
    assert java_text(host) == expected


@given(st.ip_addresses())
def test_every_text_of_an_address_is_that_address(ip):
    texts = [str(ip), ip.exploded, java_text(str(ip)), str(ip).upper()]
    assert all(is_host(text, other) for text in texts for other in texts)
    assert ipaddress.ip_address(java_text(str(ip))) in (ip, getattr(ip, "ipv4_mapped", None))


def test_connection_formats_peer_like_java():
    connection = ConnectionInfo(1, "CLIENTS", ("::1", 7), ("::1", 9092))
    assert str(connection) == "connection 1 from 0:0:0:0:0:0:0:1:7 on CLIENTS"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("*", "*", True),
        ("*", "::1", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("::1", "::2", False),
        ("10.0.0.0/8", "10.1.0.0/8", True),
        ("10.0.0.0/8", "10.0.0.0/9", False),
        ("a", "b", False),
        ("10.0.0.0/8", "a/b", False),
    ],
)
def test_notations_of_one_host_are_equal(one, other, is_same):
    assert are_same_hosts(one, other) is are_same_hosts(other, one) is is_same
