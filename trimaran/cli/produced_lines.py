r"""The lines that `produce` reads: plain ones, ones in a format with the tokens of `consume -f`, and rows of JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from trimaran.client import record_rows
from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from trimaran.client import record_values

    Parser = Callable[[bytes], record_rows.RowRecord]

_TOKENS = {
    "k": rb"(?P<k>.*?)",
    "s": rb"(?P<s>.*?)",
    "h": rb"(?P<h>.*?)",
    "p": rb"(?P<p>\d{1,9})",
    "T": rb"(?P<T>\d{1,18})",
}
_PART = re.compile(r"%(?P<token>.)|\\(?P<escape>[tr0\\])|(?P<text>[^%\\]+)", re.DOTALL)
_ESCAPES = {"t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def plain_lines(separator: str | None, null: str | None, codecs: record_values.Codecs) -> Parser:
    """Returns a parser: the text before the separator is the key, and a text that is `null` is null."""
    between = None if separator is None else separator.encode()
    nothing = None if null is None else null.encode()

    def parse(line: bytes) -> record_rows.RowRecord:
        key, value = None, line
        if between is not None:
            before, found, after = line.partition(between)
            key, value = (before, after) if found else (None, line)
        return record_rows.RowRecord(
            record_rows.of_text(None if key == nothing else key, codecs.key),
            record_rows.of_text(None if value == nothing else value, codecs.value),
            (),
        )

    return parse


def formatted_lines(form: str, null: str | None, codecs: record_values.Codecs) -> Parser:
    """Returns a parser of lines in a format: each token takes the text up to the next text of the format.

    Raises:
        UserError: the format has other tokens, or two of them without a text between.
    """
    pattern = re.compile(_pattern(form), re.DOTALL)
    nothing = None if null is None else null.encode()

    def parse(line: bytes) -> record_rows.RowRecord:
        found = pattern.fullmatch(line)
        if found is None:
            raise ValueError(f"it does not match the format {form!r}")
        parts = found.groupdict()
        key, value = parts.get("k"), parts.get("s")
        return record_rows.RowRecord(
            record_rows.of_text(None if key == nothing else key, codecs.key),
            record_rows.of_text(None if value == nothing else value, codecs.value),
            _headers(parts.get("h") or b""),
            None if parts.get("T") is None else int(parts["T"]),
            None if parts.get("p") is None else int(parts["p"]),
        )

    return parse


def _pattern(form: str) -> bytes:
    pattern, position, is_after_token = b"", 0, False
    given: set[str] = set()
    form = form.removesuffix("\\n")
    while position < len(form):
        found = _PART.match(form, position)
        token = None if found is None else found["token"]
        if found is None or (token is not None and token not in _TOKENS and token != "%"):
            raise _wrong(form, f"{form[position : position + 2]!r} is no token of a line")
        if token is not None and token != "%":
            if token in given or is_after_token:
                why = (
                    f"%{token} is there twice" if token in given else f"no text is before %{token}"
                )
                raise _wrong(form, why)
            pattern += _TOKENS[token]
            given.add(token)
            is_after_token = True
        else:
            text = found["text"] or ("%" if token else _ESCAPES[found["escape"]])
            pattern += re.escape(text.encode())
            is_after_token = False
        position = found.end()
    if "s" not in given:
        raise _wrong(form, "it has no value, %s")
    return pattern


def _wrong(form: str, why: str) -> UserError:
    return UserError(
        f"the format {form!r} cannot be used",
        why,
        "for example --format '%k:%s', with the tokens %k key, %s value, %h headers (a=1,b=2), %p partition, "
        "%T timestamp, and a text between two of them",
        exit_code=Exit.USAGE,
    )


def _headers(text: bytes) -> list[tuple[str, bytes | None]]:
    return [header_of(each.decode("utf-8", "strict")) for each in text.split(b",") if each]


def header_of(text: str) -> tuple[str, bytes | None]:
    """Returns the header of `NAME=VALUE`, or of `NAME` with the value null. Raises ValueError: it has no name."""
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError(f"the header {text!r} has no name")
    return name, value.encode() if equals else None
