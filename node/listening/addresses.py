"""Addresses of hosts in configurations: literal, or resolved in a thread, so that the event loop never blocks.

Source: Kafka calls `InetAddress.getByName` when such a configuration changes.
"""

from __future__ import annotations

import logging
import socket
from collections import OrderedDict
from collections.abc import Callable

import trio

from trimaran.node import events
from trimaran.wire.text.hosts import address_in
from trimaran.wire.transport.scheduling.events import AutoResetEvent

log = logging.getLogger(__name__)

# The number of cached names; the least recently requested one is dropped.
NAMES_MAX = 10_000
# A resolver that does not answer delays other lookups by at most this time.
LOOKUP_SECONDS = 10.0


class AddressBook:
    """Host names with their addresses. `changed` is called when a requested address has been found."""

    def __init__(self) -> None:
        self.changed: list[Callable[[], None]] = []
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._wanted: dict[str, None] = {}
        self._news = AutoResetEvent()

    def addresses(self, host: str) -> tuple[str, ...]:
        """Returns the addresses found so far: none for an unknown name, or while it is being resolved."""
        if (address := address_in(host)) is not None:
            return (address,)
        if host in self._known:
            self._known.move_to_end(host)
            return self._known[host]
        if len(self._wanted) < NAMES_MAX:
            self._wanted[host] = None
            self._news.set()
        return ()

    async def run(self) -> None:
        """Resolves names one after another, until cancelled. Each name is resolved once: as in Kafka, its addresses do
        not change later.
        """
        while True:
            while self._wanted:
                host = next(iter(self._wanted))
                found = await _look_up(host)
                del self._wanted[host]
                self._known[host] = found
                if len(self._known) > NAMES_MAX:
                    self._known.popitem(last=False)
                if not found:
                    events.QUOTA_UNKNOWN_HOST.log(log, host=host)
                for tell in self.changed if found else ():
                    tell()
            await self._news.wait()


async def _look_up(host: str) -> tuple[str, ...]:
    found: list[str] = []
    with trio.move_on_after(LOOKUP_SECONDS):
        try:
            entries = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return ()
        found = [str(address_in(str(address[0]))) for *_, address in entries]
    return tuple(dict.fromkeys(found))
