r"""`ssl.principal.mapping.rules`: names of principals made of the distinguished names of certificates.

    rules  := rule ("," rule)*
    rule   := "DEFAULT" | "RULE:" pattern "/" replacement "/" ["L" | "U"]

The first rule whose pattern matches the whole name counts; `$1` is its first group, `L` and `U` make it lower or upper
case. If none does, the connection is refused. Patterns are matched in linear time, whatever a certificate says (RE2,
which knows no look-ahead and no back-references in patterns). Source: `SslPrincipalMapper` of Kafka, KIP-371.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

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
    import re2  # few listeners have rules, and clients none

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"the pattern {pattern} cannot be used: {error}") from error


AS_THEY_ARE = PrincipalMapping(DEFAULT)
