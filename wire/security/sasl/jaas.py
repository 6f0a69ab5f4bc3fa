r"""`sasl.jaas.config`: one login module with its options, in the grammar of JAAS files. Also parses whole JAAS files.

    file   := (name "{" entry* "}" ";")*      with comments as in Java, and from # to the end of the line
    entry  := class flag option* ";"          flag := required | requisite | sufficient | optional
    option := name "=" value                  value := word | '"' characters, \ escapes one '"'

Source: `JaasConfig` of Kafka.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([=;])|([^\s"=;]+))', re.DOTALL)
# A comment, or, as the group, a string or a character outside of comments.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*"|[^"/#]|/(?![/*]))|//[^\n]*|#[^\n]*|/\*.*?\*/', re.DOTALL)
_SECTION = re.compile(r'\s*([^\s{};"]+)\s*\{((?:"(?:[^"\\]|\\.)*"|[^"{}])*)\}\s*;?', re.DOTALL)
_ENTRY = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^";])*;', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module. Its class is only a name here: no code is loaded."""

    name: str
    options: dict[str, str]


class _Token(NamedTuple):
    """A token of the grammar: a word or a mark; `";"` in quotes is a word."""

    text: str
    is_mark: bool = False


_END = _Token(";", is_mark=True)
_EQUALS = _Token("=", is_mark=True)


def parse_jaas(text: str) -> LoginModule:
    """Parses the single entry in `text`; its values are secrets and never appear in an error.

    Raises:
        ValueError: the text does not match the grammar; the error names the missing part.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].text.lower() not in _FLAGS:
        raise ValueError("a login module is written CLASS required NAME=VALUE …;")
    if tokens[-1] != _END:
        raise ValueError("it must end with a semicolon")
    words = tokens[2:-1]
    if _END in words:
        raise ValueError("only one login module may be given")
    if len(words) % 3 or any(words[i] != _EQUALS for i in range(1, len(words), 3)):
        raise ValueError("options are written NAME=VALUE, values with blanks in double quotes")
    texts = [word.text for word in words]
    return LoginModule(tokens[0].text, dict(zip(texts[::3], texts[2::3], strict=True)))


def parse_jaas_file(text: str) -> dict[str, list[LoginModule]]:
    """Parses a JAAS file: the login modules of each section, by its name.

    Raises:
        ValueError: the text does not match the grammar; the error names the missing part, and no value.
    """
    bare, place = _COMMENT.sub(lambda found: found[1] or " ", text).strip(), 0
    sections: dict[str, list[LoginModule]] = {}
    while place < len(bare):
        section = _SECTION.match(bare, place)
        if section is None:
            raise ValueError("a section is written NAME { CLASS required NAME=VALUE …; };")
        name, body = section.groups()
        entries = _ENTRY.findall(body)
        if body.strip() and (not entries or not body.rstrip().endswith(entries[-1].strip())):
            raise ValueError(f"a login module of section {name} does not end with a semicolon")
        try:
            sections[name] = [parse_jaas(entry) for entry in entries]
        except ValueError as error:
            raise ValueError(f"section {name}: {error}") from error
        place = section.end()
    return sections


def _tokens(text: str) -> list[_Token]:
    tokens, place, text = [], 0, text.strip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError("a double quote is never closed")
        quoted, mark, word = found.groups()
        if quoted is not None:
            tokens.append(_Token(_ESCAPED.sub(r"\1", quoted)))
        else:
            tokens.append(_Token(mark or word, is_mark=mark is not None))
        place = found.end()
    return tokens
