"""The weaknesses for which OpenSSL refuses a certificate, as text: OpenSSL itself only returns a code.

Java accepts SHA-1 under private authorities, and RSA keys of 1,024 bits. OpenSSL at security level 2 accepts neither of
these, nor does a peer that uses it. This module reads only the necessary parts of X.509 (RFC 5280). As in OpenSSL, the
signature of a self-signed certificate is not checked.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

# OpenSSL's errors about chains that `weaknesses` explains.
REASONS = frozenset({"CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL", "EE_KEY_TOO_SMALL"})
RSA_BITS_MIN = 2048

_INTEGER, _VERSION = 0x02, 0xA0
_RSA = bytes.fromhex("2a864886f70d010101")
_WEAK_SIGNATURES = {
    bytes.fromhex("2a864886f70d010102"): "MD2",
    bytes.fromhex("2a864886f70d010104"): "MD5",
    bytes.fromhex("2a864886f70d010105"): "SHA-1",
    bytes.fromhex("2b0e03021d"): "SHA-1",
    bytes.fromhex("2a8648ce3d0401"): "SHA-1",  # ECDSA
    bytes.fromhex("2a8648ce380403"): "SHA-1",  # DSA
}
_NAMES = {
    b"\x55\x04\x03": "CN",
    b"\x55\x04\x06": "C",
    b"\x55\x04\x07": "L",
    b"\x55\x04\x08": "ST",
    b"\x55\x04\x0a": "O",
    b"\x55\x04\x0b": "OU",
}


def weaknesses(pem: str) -> list[str]:
    """Returns a sentence for each certificate of the PEM text that OpenSSL refuses; unreadable ones are omitted."""
    found: list[str] = []
    for der in _certificates(pem):
        try:
            found += _weaknesses(der)
        except (IndexError, ValueError):
            continue
    return found


def _certificates(pem: str) -> Iterator[bytes]:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    for part in pem.split(begin)[1:]:
        try:
            yield ssl.PEM_cert_to_DER_cert(begin + part.partition(end)[0] + end)
        except ValueError:
            continue


def _weaknesses(der: bytes) -> Iterator[str]:
    ((_, certificate),) = _values(der)
    (_, signed), (_, algorithm), *_ = _values(certificate)
    fields = [value for tag, value in _values(signed) if tag != _VERSION]
    _serial, _algorithm, issuer, _validity, subject, key = fields[:6]
    name = _name(subject)
    (_, identifier), *_ = _values(algorithm)
    digest = _WEAK_SIGNATURES.get(identifier)
    if digest is not None and issuer != subject:
        yield f"the certificate of {name} is signed with {digest}"
    bits = _rsa_bits(key)
    if bits is not None and bits < RSA_BITS_MIN:
        yield f"the certificate of {name} has an RSA key of {bits} bits"


def _rsa_bits(key: bytes) -> int | None:
    (_, algorithm), (_, bit_string) = _values(key)
    (_, identifier), *_ = _values(algorithm)
    if identifier != _RSA:
        return None
    ((_, numbers),) = _values(bit_string[1:])
    (tag, modulus), *_ = _values(numbers)
    return int.from_bytes(modulus, "big").bit_length() if tag == _INTEGER else None


def _name(name: bytes) -> str:
    """Returns the name, such as `CN=localhost,O=Example`, the most specific part first."""
    parts = []
    for _, part in _values(name):
        for _, pair in _values(part):
            (_, kind), (_, value) = _values(pair)
            parts.append(f"{_NAMES.get(kind, kind.hex())}={value.decode('utf-8', 'replace')}")
    return ",".join(reversed(parts)) or "nobody"


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
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
