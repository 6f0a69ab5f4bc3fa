"""Stage 6 of Produce without acks=all: who writes faster than the disk takes it waits for what it wrote.

Kafka does not wait here, and leaves it to the kernel to stop who writes too much: then everybody's fsync waits for all
of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import trio

from trimaran.broker.partitions.awaiting import FLUSH_SECONDS_MAX
from trimaran.broker.producing.partition_append import PartitionAppend


def behind(appends: Iterable[PartitionAppend]) -> list[PartitionAppend]:
    """Those that were appended in a directory of which more is not on disk than may be."""
    return [
        one
        for one in appends
        if one.leader is not None and one.required_offset >= 0 and one.leader.disk_is_behind
    ]


def on_disk(appends: Iterable[PartitionAppend]) -> bool:
    return all(
        one.leader is None or one.leader.log.flushed_offset >= one.required_offset
        for one in appends
    )


async def await_disk(appends: Sequence[PartitionAppend]) -> None:
    """Returns when all are on disk, or after `FLUSH_SECONDS_MAX`: they are appended, which is all that was asked."""
    with trio.move_on_after(FLUSH_SECONDS_MAX):
        for one in appends:
            if one.leader is not None:
                await one.leader.wait_flushed(one.required_offset)
