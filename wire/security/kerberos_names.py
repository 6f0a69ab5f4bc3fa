r"""`sasl.kerberos.principal.to.local.rules`, which map names of Kerberos principals to names of
Kafka principals.

    rule   := "DEFAULT" | "RULE:[" count ":" format "]" ["(" pattern ")"] ["s/" pattern "/" replacement "/" ["g"]]
              ["/"] ["L" | "U"]

`DEFAULT` takes the first component of a name in the default realm. Another rule is for names with `count` components.
In its format `$0` is the realm, `$1` and `$2` are the components. If the pattern matches the whole result, `s` replaces
the first match, or each with `g`; `L` and `U` convert to lower or upper case. The first rule that applies decides; a
result with `/` or `@` is refused, and so is a name for which there is no rule.

Patterns are matched in linear time (RE2, which supports no look-ahead and no back-references). Unlike in Kafka, a
format or a replacement with the number of a missing part is an error of the settings, not of a login. Source:
`KerberosShortNamer`, `KerberosRule`, `KerberosName` of Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trimaran.wire.security.patterns import compiled_in_linear_time

DEFAULT = "DEFAULT"
_RULE = re.compile(
    r"RULE:\[(?P<count>[0-9]{1,9}):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?",
    re.DOTALL,
)
# The components of a name are separated by `/`; the library escapes a separator inside a component by a backslash.
_NAME = re.compile(r"([^/@\\]*)(?:/([^/@\\]*))?@([^/@\\]*)", re.DOTALL)
_PART = re.compile(r"\$([0-9]*)")
_PIECE = re.compile(r"\\(.?)|\$([0-9]*)", re.DOTALL)
_COMPONENTS_MAX = 2


class NoLocalName(Exception):
    """The login is valid, but no rule maps the name of its principal."""


@dataclass(frozen=True, slots=True)
class _LocalRule:
    """A rule other than DEFAULT. `match` and `pattern` may be absent. `limit` is the number of replacements, 0 for
    all.
    """

    count: int
    format: str
    match: Any
    pattern: Any
    replacement: str
    limit: int
    case: str

    def apply(self, parts: Sequence[str]) -> str | None:
        """Returns the local name; None if the rule is not for the name. `parts` are the realm and the components."""
        if len(parts) - 1 != self.count:
            return None
        name = _PART.sub(lambda part: parts[int(part[1])], self.format)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        if self.pattern is not None:
            name = str(self.pattern.sub(self._replaced, name, self.limit))
        _check_simple(name)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _replaced(self, match: Any) -> str:
        def value(piece: re.Match[str]) -> str:
            if piece[2] is None:
                return piece[1]
            number, rest = _group(piece[2], self.pattern.groups)
            return (match.group(number) or "") + rest

        return _PIECE.sub(value, self.replacement)


@dataclass(frozen=True, slots=True)
class _DefaultRule:
    """The rule DEFAULT."""

    realm: str

    def apply(self, parts: Sequence[str]) -> str | None:
        if parts[0] != self.realm:
            return None
        _check_simple(parts[1])
        return parts[1]


def _check_simple(name: str) -> None:
    if not name or "/" in name or "@" in name:
        raise NoLocalName(f"{name!a} is no simple name")


class LocalNames:
    """The rules of one listener. `default_realm` is that of the Kerberos library, empty if there is none."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Raises ValueError: a rule or its pattern is invalid."""
        self._rules = [
            _DefaultRule(default_realm) if rule == DEFAULT else _parsed(rule) for rule in rules
        ]

    def local_name(self, name: str) -> str:
        """Returns the local name of the principal with the full name `name`. Raises NoLocalName."""
        found = _NAME.fullmatch(name)
        if found is None or "\0" in name:
            raise NoLocalName(f"{name!a} is not written NAME@REALM or NAME/HOST@REALM")
        service, host, realm = found.groups()
        parts = [realm, service] if host is None else [realm, service, host]
        for rule in self._rules:
            local = rule.apply(parts)
            if local is not None:
                return local
        raise NoLocalName(f"no rule of sasl.kerberos.principal.to.local.rules is for {name!a}")


def _parsed(text: str) -> _LocalRule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(
            "rules are written DEFAULT or RULE:[COUNT:FORMAT](PATTERN)s/PATTERN/REPLACEMENT/g/L"
        )
    count = int(found["count"])
    for part in _PART.finditer(found["format"]):
        if not part[1] or len(part[1]) > 1 or int(part[1]) > min(count, _COMPONENTS_MAX):
            raise ValueError(
                f"a name of the rule has no part {part[0]}: $0 is its realm, $1 the first"
            )
    match, pattern = (
        None if found[key] is None else compiled_in_linear_time(found[key])
        for key in ("match", "pattern")
    )
    if pattern is not None:
        _check_replacement(found["replacement"], pattern.groups)
    limit = 0 if found["all"] else 1
    replacement, case = found["replacement"] or "", found["case"] or ""
    return _LocalRule(count, found["format"], match, pattern, replacement, limit, case)


def _check_replacement(replacement: str, groups: int) -> None:
    for piece in _PIECE.finditer(replacement):
        if piece[1] == "":
            raise ValueError("a replacement ends with a backslash")
        if piece[2] is not None and _group(piece[2], groups)[0] < 0:
            raise ValueError(f"the pattern has no group {piece[0]}; write \\$ for a dollar sign")


def _group(digits: str, groups: int) -> tuple[int, str]:
    """Returns the group and the remaining digits as Java reads `$123`: one digit, then more as long as the number is a
    group. The group is -1 if there is none.
    """
    if not digits or int(digits[0]) > groups:
        return -1, digits
    end = 1
    while end < len(digits) and int(digits[: end + 1]) <= groups:
        end += 1
    return int(digits[:end]), digits[end:]
