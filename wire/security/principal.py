"""The principal of a connection. Source: `KafkaPrincipal`, `DefaultKafkaPrincipalBuilder`; RFC 2253 for names of
certificates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trimaran.wire.security.principal_mapping import AS_THEY_ARE, NoMatchingRule, PrincipalMapping


class Principal(NamedTuple):
    """`User:alice`; fixed on a connection when it authenticates. `by_token`: it did so with a delegation token."""

    name: str
    type: str = "User"
    by_token: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")

# The keywords of RFC 2253 and of Java; all other attributes are written with their object id.
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_EMAIL_OID = "1.2.840.113549.1.9.1"
_IA5_STRING = 0x16
_BLANKS = " \r"
_Rdn = Sequence[tuple[str, str]]


def principal_of_certificate(
    certificate: Mapping[str, Any] | None, mapping: PrincipalMapping = AS_THEY_ARE
) -> Principal:
    """Returns the principal of a verified peer certificate, in the form of `SSLSocket.getpeercert()`; ANONYMOUS if
    there is none.

    Raises:
        NoMatchingRule: the mapping has no rule for it, or it holds a NUL, behind which some readers see nothing.
    """
    if not certificate:
        return ANONYMOUS
    name = distinguished_name(certificate.get("subject", ()))
    if "\0" in name:
        raise NoMatchingRule(f"a name with a NUL: {name!a}")
    return Principal(mapping.name_of(name))


def distinguished_name(subject: Sequence[_Rdn]) -> str:
    """RFC 2253, as Java's `X500Principal.getName()`: the last part of the name comes first."""
    return ",".join("+".join(_attribute(*pair) for pair in rdn) for rdn in reversed(subject))


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress" and value.isascii():
        tagged = bytes([_IA5_STRING, *_der_length(len(value))]) + value.encode()
        return f"{_EMAIL_OID}=#{tagged.hex()}"
    return f"{_SHORT.get(name, name)}={_escaped(value)}"


def _der_length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits


def _escaped(value: str) -> str:
    """As `AVA.toRFC2253String` of OpenJDK, which escapes more than RFC 2253 asks for: `=`, each `#`, and each blank at
    the beginning and at the end.
    """
    text = "".join("\\" + c if c in ',=+<>#;"\\' else c for c in value)
    inner = text.strip(_BLANKS)
    begin = len(text) - len(text.lstrip(_BLANKS))
    before, after = text[:begin], text[begin + len(inner) :]
    return "".join("\\" + c for c in before) + inner + "".join("\\" + c for c in after)
