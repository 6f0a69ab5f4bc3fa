"""Texts of addresses: one for comparison, whichever way an address was written, and Java's, which clients and logs get.

Source: `InetAddress.getHostAddress` of Java. It writes IPv6 without `::` (0:0:0:0:0:0:0:1), and IPv4 in IPv6 as IPv4.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

# ACLs and connections repeat the same few; a text has some hundred bytes at most, longer ones are no addresses.
_KEPT_MAX = 10_000
_ADDRESS_CHARACTERS_MAX = 64


def address_in(text: str) -> str | None:
    """An address as sockets write it, IPv4 in IPv6 as IPv4; None of a name."""
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
    """True if `told`, in any notation, is the address `host`. Without a zone it matches any zone."""
    if told == host:
        return True
    mine, theirs = address_in(told), address_in(host)
    if mine is None or theirs is None:
        return False
    return mine == theirs or mine == theirs.partition("%")[0]


def java_text(host: str) -> str:
    """Returns Java's text of an address; other texts unchanged."""
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
