"""Requests that handlers are given, and the answers they return; both are bounded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trimaran.errors.user_error import Exit, UserError

# The maximum size of a JSON body; a rule has some hundred bytes.
BODY_BYTES_MAX = 64 << 10
# The maximum size of the rows in one answer: further rows are omitted, and counted.
ANSWER_BYTES_MAX = 8 << 20
JSON, TOML = "application/json", "application/toml"


class NotFound(UserError):
    """The request names a rule, a topic or a node that does not exist: 404."""


class NotReached(UserError):
    """An expectation does not hold: 409."""


class NotSupported(UserError):
    """This cluster has no such fault: 501."""


class BodyTooLarge(UserError):
    """A body is too large: 413."""


def refused(why: str, fix: str) -> UserError:
    """Returns the error for a request that is not understood."""
    return UserError("request refused", why, fix, exit_code=Exit.USAGE)


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """`path` has the variable parts of the path, `query` the parameters."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""

    def fields(self, known: Iterable[str]) -> dict[str, Any]:
        """Returns the body, an object of JSON whose keys are `known`. Raises UserError."""
        try:
            found = json.loads(self.body or b"{}")
        except (ValueError, RecursionError) as error:
            raise refused(f"the body is no JSON: {error}", "send an object of JSON") from None
        if not isinstance(found, dict):
            raise refused("the body is no object", 'send an object, such as {"api": "Fetch"}')
        ensure_known(found, known)
        return found

    def number(self, key: str, default: float, low: float, high: float) -> float:
        """Returns a parameter of the query. Raises UserError: it is not a number, or out of bounds."""
        text = self.query.get(key)
        try:
            value = default if text is None else float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise refused(f"{key} is {text!r}", f"write a number from {low:g} to {high:g}")
        return value


def ensure_known(given: Iterable[str], known: Iterable[str]) -> None:
    """Raises UserError: a key is not known."""
    names = sorted(known)
    for key in given:
        if key not in names:
            raise refused(f"there is no key {key[:100]!r}", f"use {', '.join(names) or 'no key'}")


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """`content` is a value for JSON, or a text of another `kind`; None is an answer without a body."""

    status: int = 200
    content: Any = None
    kind: str = JSON

    @property
    def body(self) -> bytes:
        if self.content is None:
            return b""
        return (json.dumps(self.content) if self.kind == JSON else str(self.content)).encode()


def fitting(rows: Iterable[Any], bytes_max: int = ANSWER_BYTES_MAX) -> tuple[list[Any], int]:
    """Returns the first rows that fit into an answer, and the number of the others."""
    kept: list[Any] = []
    left_off = 0
    for row in rows:
        bytes_max -= 0 if left_off else len(json.dumps(row))
        if bytes_max < 0:
            left_off += 1
        else:
            kept.append(row)
    return kept, left_off
