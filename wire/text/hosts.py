"""Texts of addresses: a canonical one for comparison, and Java's, for clients and logs.

Source: `InetAddress.getHostAddress` of Java. Java writes IPv6 without `::` (0:0:0:0:0:0:0:1), and IPv4-mapped IPv6 as
    IPv4.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

# The size of the cache: ACLs and connections repeat the same few addresses. An address has at most about a hundred
# characters; longer texts are not addresses.
_KEPT_MAX = 10_000
_ADDRESS_CHARACTERS_MAX = 64


def address_in(text: str) -> str | None:
    """Returns an address in the format of sockets, with IPv4-mapped IPv6 as IPv4; None for a name."""
    if len(text) > _ADDRESS_CHARACTERS_MAX:
        return None
    try:
        ip = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    old = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(old or ip)


@lru_cache(_KEPT_MAX)
def is_host(told: str, host: str) -> bool:
    """Whether `told`, in any notation, is the address `host`. Without a zone it matches any zone."""
    if told == host:
        return True
    mine, theirs = address_in(told), address_in(host)
    if mine is None or theirs is None:
        return False
    return mine == theirs or mine == theirs.partition("%")[0]


def are_same_hosts(one: str, other: str) -> bool:
    """Whether two texts are the same name, or notations of the same address or network."""
    if one == other:
        return True
    address, network = address_in(one), network_in(one)
    return (address is not None and address == address_in(other)) or (
        network is not None and network == network_in(other)
    )


@lru_cache(_KEPT_MAX)
def network_in(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Returns the network of a CIDR notation such as `10.0.0.0/8`; its host bits may be set. None for other texts."""
    if len(text) > _ADDRESS_CHARACTERS_MAX:
        return None
    address, slash, bits = text.partition("/")
    if not slash or "%" in address or not (bits.isascii() and bits.isdigit()):
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


@lru_cache(_KEPT_MAX)
def covers_host(pattern: str, host: str) -> bool:
    """Returns whether `pattern`, an address or a network in CIDR notation, covers the address `host`."""
    if "/" not in pattern:
        return is_host(pattern, host)
    network, address = network_in(pattern), address_in(host)
    if network is None or address is None:
        return False
    return ipaddress.ip_address(address.partition("%")[0]) in network


def java_text(host: str) -> str:
    """Returns Java's text of an address; returns other texts unchanged."""
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    try:
        ip = ipaddress.IPv6Address(address)
    except ValueError:
        return host
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in ip.exploded.split(":"))
    return ":".join(groups) + percent + zone
