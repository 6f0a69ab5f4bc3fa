"""The form of messages in a transcript: fields that differ from their defaults, with sizes in place of bytes."""

from __future__ import annotations

from typing import Any

from trimaran.wire.codec.declarations import Struct
from trimaran.wire.schema import Message


def brief(message: Any) -> str:
    """Returns a message as a text such as `EndTxnRequest(transactional_id=t0 producer_id=3)`."""
    if isinstance(message, list | tuple):
        return "[" + " ".join(map(brief, message)) + "]"
    if isinstance(message, bytes | bytearray | memoryview):
        return f"{len(message)} bytes"
    if not isinstance(message, Struct | Message):
        return str(message)
    told = []
    for name in type(message).__slots__:
        value = getattr(message, name)
        if value not in (0, -1, None, "", []) and name != "topic_id":
            told.append(f"{name}={brief(value)}")
    return f"{type(message).__name__}({' '.join(told)})"
