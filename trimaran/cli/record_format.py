r"""`consume -f`: formats records with the tokens of kcat.

%t topic, %p partition, %o offset, %T milliseconds since 1970, %k key, %K its length, %s value, %S its length, %R the
length of the value as four bytes, %h headers, %% a percent sign; \n, \r, \t, \\, \0 and \xHH.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from trimaran.log.batches.records import Record
    from trimaran.wire.identity import TopicPartition

Part = Callable[["TopicPartition", "Record"], bytes]
_TOKEN = re.compile(
    r"%(?P<token>.)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)|(?P<text>[^%\\]+)", re.DOTALL
)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_PARTS: dict[str, Part] = {
    "t": lambda where, _: where.topic.encode(),
    "p": lambda where, _: b"%d" % where.partition,
    "o": lambda _, record: b"%d" % record.offset,
    "T": lambda _, record: b"%d" % record.timestamp_ms,
    "k": lambda _, record: bytes(record.key or b""),
    "K": lambda _, record: b"%d" % _length(record.key),
    "s": lambda _, record: bytes(record.value or b""),
    "S": lambda _, record: b"%d" % _length(record.value),
    "R": lambda _, record: _length(record.value).to_bytes(4, "big", signed=True),
    "h": lambda _, record: b",".join(
        header.key.encode() + b"=" + (b"NULL" if header.value is None else bytes(header.value))
        for header in record.headers
    ),
    "%": lambda _, __: b"%",
}


def _length(value: bytes | memoryview | None) -> int:
    """Returns the length, -1 for null, as in kcat."""
    return -1 if value is None else len(value)


def compiled(text: str) -> Callable[[TopicPartition, Record], bytes]:
    """Returns a function that formats a record of a partition.

    Raises:
        UserError: a token does not exist.
    """
    parts: list[Part] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:  # a single % or \ at the end
            raise _wrong(text, text[position:])
        parts.append(_part(text, found))
        position = found.end()
    return lambda where, record: b"".join(part(where, record) for part in parts)


def _part(text: str, found: re.Match[str]) -> Part:
    if (token := found["token"]) is not None:
        if token not in _PARTS:
            raise _wrong(text, found[0])
        return _PARTS[token]
    if found["hex"] is not None:
        fixed = bytes.fromhex(found["hex"])
    elif found["escape"] is not None:
        if found["escape"] not in _ESCAPES:
            raise _wrong(text, found[0])
        fixed = _ESCAPES[found["escape"]]
    else:
        fixed = found["text"].encode()
    return lambda _, __: fixed


def _wrong(text: str, part: str) -> UserError:
    return UserError(
        f"{part!r} in the format {text!r} is not a token",
        f"the tokens are {' '.join('%' + name for name in _PARTS)}, and \\n \\r \\t \\\\ \\0 \\xHH",
        r"for example -f '%t %p %o %k %s\n'",
        exit_code=Exit.USAGE,
    )
