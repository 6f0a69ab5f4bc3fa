"""Stage 6 of Produce: acks=all is answered when the high watermarks have passed what was appended.

Source: `DelayedProduce` of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import trio

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.wire.errors import ErrorCode


def replicated(appends: Iterable[PartitionAppend]) -> bool:
    """Nothing is left to wait for: every watermark has got there, or never will."""
    for one in appends:
        if one.leader is not None and one.required_offset >= 0:
            watermark = one.leader.high_watermark
            if watermark.offset < one.required_offset and not watermark.closed:
                return False
    return True


async def await_replicas(appends: Sequence[PartitionAppend], deadline: float) -> None:
    """Returns when `replicated`, at the latest at `deadline` (the loop's clock)."""
    with trio.move_on_at(deadline):
        for one in appends:
            if one.leader is not None and one.required_offset >= 0:
                try:
                    await one.leader.high_watermark.wait_reached(one.required_offset)
                except NotLeaderError:
                    continue  # `settle` tells it


def settle(appends: Iterable[PartitionAppend]) -> None:
    """Turns what was not replicated in time into errors; the records stay in the log and may yet be committed."""
    for one in appends:
        if one.leader is None or one.required_offset < 0:
            continue
        code = _outcome(one.leader, one.required_offset)
        if code:
            one.refuse(code)


def _outcome(leader: PartitionLeader, required_offset: int) -> ErrorCode:
    watermark = leader.high_watermark
    if watermark.offset < required_offset:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if watermark.closed else ErrorCode.REQUEST_TIMED_OUT
    # Of an epoch that has ended nobody knows who keeps it; that it was committed is enough, as it was then.
    if watermark.closed or leader.satisfies_min_isr:
        return ErrorCode.NONE
    return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
