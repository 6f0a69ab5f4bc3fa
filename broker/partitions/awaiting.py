"""Answers that wait for watermarks: what was begun in several partitions is done when each of theirs has reached its offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import trio

from node.runtime.errors import NotLeaderError
from node.runtime.watermark import Watermark
from wire.errors import ErrorCode


class PartitionResult(Protocol):
    """A partition's part of an answer."""

    error_code: int


class UnderWay(NamedTuple):
    """`result` holds as it is once `watermark` has reached `offset`."""

    watermark: Watermark
    offset: int
    result: PartitionResult


async def wait_for_all(under_way: Sequence[UnderWay], seconds: float) -> None:
    """Returns when all have reached theirs, or after `seconds`; what came to nothing is told in its result.

    NOT_LEADER_OR_FOLLOWER: the epoch ended; REQUEST_TIMED_OUT: it may yet happen.
    """
    with trio.move_on_after(seconds):
        for one in under_way:
            try:
                await one.watermark.wait_reached(one.offset)
            except NotLeaderError:
                one.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for one in under_way:
        if not one.result.error_code and not one.watermark.reached(one.offset):
            one.result.error_code = ErrorCode.REQUEST_TIMED_OUT
