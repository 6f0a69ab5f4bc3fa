r"""`sasl.jaas.config`: one login module with its options, in the grammar of JAAS files.

    entry  := class flag option* ";"          flag := required | requisite | sufficient | optional
    option := name "=" value                  value := word | '"' characters, \ escapes one '"'

Source: `JaasConfig` of Kafka.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([=;])|([^\s"=;]+))', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The class is a name to us, nothing is loaded by it."""

    name: str
    options: dict[str, str]


def parse_jaas(text: str) -> LoginModule:
    """The one entry of `text`; its values are secrets and never appear in an error.

    Raises:
        ValueError: it is not written so, and what is missing.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS:
        raise ValueError("a login module is written CLASS required NAME=VALUE …;")
    if tokens[-1] != ";":
        raise ValueError("it must end with a semicolon")
    words = tokens[2:-1]
    if ";" in words:
        raise ValueError("only one login module may be given")
    if len(words) % 3 or any(words[i] != "=" for i in range(1, len(words), 3)):
        raise ValueError("options are written NAME=VALUE, values with blanks in double quotes")
    return LoginModule(tokens[0], dict(zip(words[::3], words[2::3], strict=True)))


def _tokens(text: str) -> list[str]:
    tokens, place, text = [], 0, text.strip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError("a double quote is never closed")
        quoted, mark, word = found.groups()
        tokens.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else mark or word)
        place = found.end()
    return tokens
