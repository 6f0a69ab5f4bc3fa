"""How often logins from an address have failed of late, and for how long the next failure is held back.

A failure is answered after `connection.failed.authentication.delay.ms`, as in Kafka; here each further one from the
same address doubles it, up to `DELAY_SECONDS_MAX`. Logins that succeed never wait, so an address that honest clients
share with a guesser serves them as before. Time is seconds of any clock, passed in.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass

import trio

from trimaran.wire.buffers.outgoing import Outgoing

# Below the ten seconds that a connection has for its login.
DELAY_SECONDS_MAX = 5.0
# After this long without a failure half of them are forgotten.
HALF_LIFE_SECONDS = 30.0
# Addresses remembered, some 200 bytes each; the one that has failed longest ago is forgotten first.
ADDRESSES_MAX = 4096


class FailedLogins:
    """Counts of one server."""

    def __init__(self) -> None:
        # Address → its failures, as if all were of that time.
        self._seen: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def delay(self, address: str, base_seconds: float, now: float) -> float:
        """Notes a failure and says how many seconds its answer is held back."""
        network = _network(address)
        count, since = self._seen.pop(network, (0.0, now))
        earlier = count * 0.5 ** ((now - since) / HALF_LIFE_SECONDS)
        self._seen[network] = earlier + 1.0, now
        if len(self._seen) > ADDRESSES_MAX:
            self._seen.popitem(last=False)
        doubled = base_seconds * float(1 << min(int(earlier), 16))
        return max(base_seconds, min(doubled, DELAY_SECONDS_MAX))


def _network(address: str) -> str:
    """Returns the address that counts as one peer: an IPv4 address, or the /64 of an IPv6 address, which one host may
    use whole.
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
class DelayedAnswer:
    """An answer that leaves after a while, though it is known; None: only the while."""

    response: Outgoing | None
    seconds: float
    is_known: bool = False

    held = 0
    blocks = False

    def ready(self) -> bool:
        return False

    async def proceed(self) -> None:
        await trio.sleep(self.seconds)
        self.is_known = True
