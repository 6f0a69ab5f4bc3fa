r"""The principal of a connection, and `ssl.principal.mapping.rules`, which map the distinguished name of a certificate
to its name.

    rules  := rule ("," rule)*
    rule   := "DEFAULT" | "RULE:" pattern "/" replacement "/" ["L" | "U"]

The first rule whose pattern matches the whole name applies; `$1` is its first group, `L` and `U` convert to lower or
upper case. If no rule matches, the connection is refused. Patterns are matched in linear time, for any certificate
(RE2, which supports no look-ahead and no back-references). Source: `KafkaPrincipal`, `DefaultKafkaPrincipalBuilder`,
`SslPrincipalMapper` of Kafka, KIP-371; RFC 2253 for names of certificates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trimaran.wire.security.patterns import compiled_in_linear_time

DEFAULT = "DEFAULT"
_RULE = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))?\s*(?:,|$)", re.DOTALL
)
_PIECE = re.compile(r"\\(.)|\$([0-9]+)|(\$)", re.DOTALL)


class NoMatchingRule(Exception):
    """The certificate is valid, but no rule maps its name to a principal."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A mapping rule; with `pattern` None the name is unchanged."""

    pattern: Any = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        found = str(self.pattern.sub(self._expanded, name))
        match self.case:
            case "L":
                return found.lower()
            case "U":
                return found.upper()
            case _:
                return found

    def _expanded(self, match: Any) -> str:
        def value(piece: re.Match[str]) -> str:
            if piece[1] is not None:
                return piece[1]
            if piece[2] is None:
                return "$"
            number, rest = _group(piece[2], self.pattern.groups)
            return "$" + piece[2] if number is None else (match.group(number) or "") + rest

        return _PIECE.sub(value, self.replacement)


def _group(digits: str, groups: int) -> tuple[int | None, str]:
    """Returns the group and the remaining digits as Java reads `$123`: the longest number that is a group, then digits;
    None if there is no such group.
    """
    for end in range(len(digits), 0, -1):
        if int(digits[:end]) <= groups:
            return int(digits[:end]), digits[end:]
    return None, ""


class PrincipalMapping:
    """The mapping rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises ValueError: a rule or its pattern is invalid."""
        self._rules: list[_Rule] = []
        place, text = 0, text.strip()
        while place < len(text):
            found = _RULE.match(text, place)
            if found is None:
                raise ValueError("rules are written RULE:pattern/replacement/[LU] or DEFAULT")
            if found[1]:
                self._rules.append(_Rule())
            elif found[2] is not None:
                self._rules.append(_Rule(compiled_in_linear_time(found[2]), found[3], found[4]))
            place = found.end()

    def name_of(self, distinguished_name: str) -> str:
        """Returns the name of the principal. Raises NoMatchingRule."""
        for rule in self._rules:
            found = rule.apply(distinguished_name)
            if found is not None:
                return found
        raise NoMatchingRule(
            f"no rule of ssl.principal.mapping.rules is for {distinguished_name!a}"
        )


AS_THEY_ARE = PrincipalMapping(DEFAULT)


class Principal(NamedTuple):
    """A principal, such as `User:alice`; set on a connection when it authenticates. `by_token`: authenticated with a
    delegation token.
    """

    name: str
    type: str = "User"
    by_token: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")

# The attribute keywords of RFC 2253 and Java; all other attributes are written with their object id.
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
        NoMatchingRule: the mapping has no rule for the name, or the name contains a NUL, at which some readers stop.
    """
    if not certificate:
        return ANONYMOUS
    name = distinguished_name(certificate.get("subject", ()))
    if "\0" in name:
        raise NoMatchingRule(f"a name with a NUL: {name!a}")
    return Principal(mapping.name_of(name))


def distinguished_name(subject: Sequence[_Rdn]) -> str:
    """Returns the name in the format of RFC 2253, like Java's `X500Principal.getName()`: the last part of the name
    comes first.
    """
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
    """Escapes a value like `AVA.toRFC2253String` of OpenJDK, which escapes more than RFC 2253 requires: `=`, each `#`,
    and each leading and trailing blank.
    """
    text = "".join("\\" + c if c in ',=+<>#;"\\' else c for c in value)
    inner = text.strip(_BLANKS)
    begin = len(text) - len(text.lstrip(_BLANKS))
    before, after = text[:begin], text[begin + len(inner) :]
    return "".join("\\" + c for c in before) + inner + "".join("\\" + c for c in after)
