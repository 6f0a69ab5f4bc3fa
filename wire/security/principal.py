r"""The principal of a connection, and `ssl.principal.mapping.rules`, which make its name of the distinguished name of
a certificate.

    rules  := rule ("," rule)*
    rule   := "DEFAULT" | "RULE:" pattern "/" replacement "/" ["L" | "U"]

The first rule whose pattern matches the whole name counts; `$1` is its first group, `L` and `U` make it lower or upper
case. If none does, the connection is refused. Patterns are matched in linear time, whatever a certificate says (RE2,
which knows no look-ahead and no back-references in patterns). Source: `KafkaPrincipal`, `DefaultKafkaPrincipalBuilder`,
`SslPrincipalMapper` of Kafka, KIP-371; RFC 2253 for names of certificates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import re2
else:
    re2 = imported_later("re2")

DEFAULT = "DEFAULT"
_RULE = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))?\s*(?:,|$)", re.DOTALL
)
_PIECE = re.compile(r"\\(.)|\$([0-9]+)|(\$)", re.DOTALL)


class NoMatchingRule(Exception):
    """The certificate is valid, and no rule makes a principal of its name."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """`pattern` None: the name as it is."""

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
    """As Java reads `$123`: the longest number that is a group, then digits; None if there is none."""
    for end in range(len(digits), 0, -1):
        if int(digits[:end]) <= groups:
            return int(digits[:end]), digits[end:]
    return None, ""


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises ValueError: a rule is not written so, or its pattern is none."""
        self._rules: list[_Rule] = []
        place, text = 0, text.strip()
        while place < len(text):
            found = _RULE.match(text, place)
            if found is None:
                raise ValueError("rules are written RULE:pattern/replacement/[LU] or DEFAULT")
            if found[1]:
                self._rules.append(_Rule())
            elif found[2] is not None:
                self._rules.append(_Rule(_compiled(found[2]), found[3], found[4]))
            place = found.end()

    def name_of(self, distinguished_name: str) -> str:
        """Raises NoMatchingRule."""
        for rule in self._rules:
            found = rule.apply(distinguished_name)
            if found is not None:
                return found
        raise NoMatchingRule(
            f"no rule of ssl.principal.mapping.rules is for {distinguished_name!a}"
        )


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"the pattern {pattern} cannot be used: {error}") from error


AS_THEY_ARE = PrincipalMapping(DEFAULT)


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
