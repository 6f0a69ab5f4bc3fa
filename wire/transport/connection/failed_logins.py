"""Counts of recent failed logins by address, and the delay of the response to the next failure.

A failure is answered after `connection.failed.authentication.delay.ms`, as in Kafka; here each further failure from the
same address doubles the delay, up to `DELAY_SECONDS_MAX`. Successful logins never wait, so honest clients that share an
address with an attacker are not affected. Times are passed in, in seconds of any clock.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass

from trimaran.wire.buffers.outgoing import Outgoing

# The longest delay: less than the ten seconds that a connection has for its login.
DELAY_SECONDS_MAX = 5.0
# The count of failures halves after this many seconds without one.
HALF_LIFE_SECONDS = 30.0
# The maximum number of addresses remembered, about 200 bytes each; the one with the oldest last failure is forgotten
# first.
ADDRESSES_MAX = 4096


class FailedLogins:
    """The failed logins of one server."""

    def __init__(self) -> None:
        # By address: the time of its last failure, and the count of failures decayed to that time.
        self._seen: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def delay(self, address: str, base_seconds: float, now: float) -> float:
        """Counts a failure and returns the seconds by which its response is delayed."""
        network = _network(address)
        count, since = self._seen.pop(network, (0.0, now))
        earlier = count * 0.5 ** ((now - since) / HALF_LIFE_SECONDS)
        self._seen[network] = earlier + 1.0, now
        if len(self._seen) > ADDRESSES_MAX:
            self._seen.popitem(last=False)
        doubled = base_seconds * float(1 << min(int(earlier), 16))
        return max(base_seconds, min(doubled, DELAY_SECONDS_MAX))


def _network(address: str) -> str:
    """Returns the address that counts as one peer: an IPv4 address, or the /64 of an IPv6 address, because one host may
    use all addresses of a /64.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(parsed) >> 64 << 64))


@dataclass(slots=True)
class DelayedFailure:
    """The response to a failed login, sent after `seconds`, for which the writer of the connection waits; None delays
    only the end of the connection.
    """

    response: Outgoing | None
    seconds: float
    is_known: bool = False

    held = 0
    blocks = False

    def ready(self) -> bool:
        return False

    def calls_back(self, _call: object) -> bool:
        return False
