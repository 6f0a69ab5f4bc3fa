"""The addresses with which a client begins, tried in turn. Name resolution, which blocks, belongs to the shells."""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.wire.identity import Address


def parse_bootstrap(text: str) -> list[Address]:
    """Reads Kafka's `bootstrap.servers`: `host:port,host:port`, IPv6 as `[::1]:9092`.

    Raises:
        ValueError: the text names the invalid part.
    """
    addresses = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no bootstrap address is given; write host:port")
    return addresses


def _parse(part: str) -> Address:
    host, colon, port = part.rpartition(":")
    if "://" in host:  # PLAINTEXT://host:port, as in `listeners`
        host = host.partition("://")[2]
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not colon or not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"{part!r} is not host:port")
    return Address(host, int(port))


class Bootstrap:
    """A ring of addresses: `current` is used until it fails, then the next one. The given addresses come first, then
    the learned ones.
    """

    def __init__(self, addresses: Iterable[Address], start: int = 0) -> None:
        self._given = tuple(addresses)
        assert self._given
        self.addresses = self._given
        self._index = start % len(self.addresses)

    @property
    def current(self) -> Address:
        return self.addresses[self._index]

    def failed(self, address: Address) -> None:
        """Moves to the next address, if the current one has failed."""
        if address == self.current:
            self._index = (self._index + 1) % len(self.addresses)

    def learned(self, addresses: Iterable[Address]) -> None:
        """Replaces the learned addresses: the cluster may have moved away from the given ones."""
        current = self.current
        self.addresses = tuple(dict.fromkeys((*self._given, *addresses)))
        self._index = self.addresses.index(current) if current in self.addresses else 0
