"""Positions in a partition: `start`, `end`, an offset, a number of records before the end, or a time."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, end_offset
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.identity import Offset

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.identity import TopicPartition

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_AGO = re.compile(r"-(\d+)(ms|s|m|h|d)")
_HINT = "write start, end, 42, -10 (ten before the end), @2026-11-23T12:00, @-15m or @MILLISECONDS"


class Position(NamedTuple):
    """A position: exactly one field is not None; `timestamp_ms` may be a special timestamp of ListOffsets."""

    offset: Offset | None = None
    before_end: int | None = None
    timestamp_ms: int | None = None

    def offset_in(
        self, client: BlockingClient, partition: TopicPartition, *, isolation: int = 0
    ) -> Offset:
        """Returns the current offset of the position; a time after the last record means the end. An offset stays
        unchanged.
        """

        def at(timestamp_ms: int) -> Offset:
            return end_offset(client, partition, timestamp_ms, isolation=isolation)

        if self.offset is not None:
            return self.offset
        if self.before_end is not None:
            return max(at(EARLIEST_TIMESTAMP), at(LATEST_TIMESTAMP) - self.before_end)
        assert self.timestamp_ms is not None
        found = at(self.timestamp_ms)
        return at(LATEST_TIMESTAMP) if found < 0 else found


def parse_position(text: str) -> Position:
    """Parses a position. Raises UserError if the text is not a position."""
    if text in ("start", "earliest"):
        return Position(timestamp_ms=EARLIEST_TIMESTAMP)
    if text in ("end", "latest"):
        return Position(timestamp_ms=LATEST_TIMESTAMP)
    if re.fullmatch(r"\d{1,18}", text):
        return Position(offset=Offset(text))
    if re.fullmatch(r"-\d{1,18}", text):
        return Position(before_end=-int(text))
    if text.startswith("@"):
        return Position(timestamp_ms=parse_time_ms(text[1:]))
    raise _wrong(text)


def parse_time_ms(text: str) -> int:
    """Returns milliseconds since 1970 for `2026-11-23T12:00` (local time, unless it names a zone), `-15m` or plain
    milliseconds. Raises UserError.
    """
    if re.fullmatch(r"\d{1,15}", text):
        return int(text)
    if ago := _AGO.fullmatch(text):
        return now_ms() - int(int(ago[1]) * _SECONDS[ago[2]] * 1000)
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise _wrong(f"@{text}") from None


def _wrong(text: str) -> UserError:
    return UserError(
        f"{text!r} is not a position in a partition",
        "it is not start or end, an offset, or a time",
        _HINT,
        exit_code=Exit.USAGE,
    )
