"""The parts of X.509 certificates (RFC 5280) that errors and warnings are about, read from PEM without a library."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_VERSION, _UTC_TIME = 0xA0, 0x17
_NAMES = {
    b"\x55\x04\x03": "CN",
    b"\x55\x04\x06": "C",
    b"\x55\x04\x07": "L",
    b"\x55\x04\x08": "ST",
    b"\x55\x04\x0a": "O",
    b"\x55\x04\x0b": "OU",
}


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate; `algorithm` identifies its signature algorithm, and `key` is the DER of its public key."""

    subject: str
    is_self_signed: bool
    not_before: datetime
    not_after: datetime
    algorithm: bytes
    key: bytes


def certificates(pem: str) -> Iterator[Certificate]:
    """Yields the certificates of a PEM text in their order; unreadable ones are omitted."""
    for der in _blocks(pem):
        if (found := certificate_of(der)) is not None:
            yield found


def certificate_of(der: bytes) -> Certificate | None:
    """Returns the certificate, or None if it is unreadable."""
    try:
        return _certificate(der)
    except (IndexError, ValueError):
        return None


def _blocks(pem: str) -> Iterator[bytes]:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    for part in pem.split(begin)[1:]:
        try:
            yield ssl.PEM_cert_to_DER_cert(begin + part.partition(end)[0] + end)
        except ValueError:
            continue


def _certificate(der: bytes) -> Certificate:
    ((_, certificate),) = der_values(der)
    (_, signed), (_, algorithm), *_ = der_values(certificate)
    fields = [value for tag, value in der_values(signed) if tag != _VERSION]
    _serial, _algorithm, issuer, validity, subject, key = fields[:6]
    (before_tag, before), (after_tag, after) = der_values(validity)
    (_, identifier), *_ = der_values(algorithm)
    return Certificate(
        _name(subject),
        issuer == subject,
        _time(before_tag, before),
        _time(after_tag, after),
        identifier,
        key,
    )


def _time(tag: int, text: bytes) -> datetime:
    """Returns a time; a year of two digits from 50 on means 19xx, below 50 it means 20xx."""
    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        digits = ("19" if digits >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _name(name: bytes) -> str:
    """Returns the name, such as `CN=localhost,O=Example`, the most specific part first."""
    parts = []
    for _, part in der_values(name):
        for _, pair in der_values(part):
            (_, kind), (_, value) = der_values(pair)
            parts.append(f"{_NAMES.get(kind, kind.hex())}={value.decode('utf-8', 'replace')}")
    return ",".join(reversed(parts)) or "nobody"


def der_values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the tags and contents of consecutive DER values. Raises IndexError if they are truncated."""
    place = 0
    while place < len(data):
        tag, size = data[place], data[place + 1]
        place += 2
        if size >= 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[place : place + count], "big")
            place += count
        if place + size > len(data):
            raise IndexError("the value ends too early")
        yield tag, data[place : place + size]
        place += size
