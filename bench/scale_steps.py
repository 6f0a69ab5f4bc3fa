"""The longest step of the loop while a node applies large pieces of metadata: the CPU time from one checkpoint to the
next.

The applier and the loader are the real ones; the node keeps its log in memory, as the mirror does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

import trio

from bench.scale_image import METADATA_VERSION, SNAPSHOT, Shape, encoded, records_of
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.node.runtime.watermark import Watermark
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.snapshot_format import check_snapshot
from trimaran.quorum.replica.appliers import Applier
from trimaran.wire.records.metadata import encode_metadata_record, metadata_record_version
from trimaran.wire.schema import Message

RECORDS_OF_A_BATCH = 10_000


class LongestStep(trio.abc.Instrument):
    """Measures the longest step in CPU seconds of the loop's thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = float("inf")  # the step that adds the instrument is not measured

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, _task: trio.lowlevel.Task) -> None:
        self.seconds = max(self.seconds, time.thread_time() - self._began)


def of_a_snapshot(shape: Shape) -> float:
    """Applies a snapshot of all partitions to an empty image."""
    snapshot = check_snapshot(SNAPSHOT, b"".join(encoded(records_of(shape))))

    async def replace(applier: Applier, _log: MemoryLog, _watermark: Watermark) -> None:
        applier.replace(snapshot)
        await applier.applied.wait_reached(SNAPSHOT.offset)

    return _longest(replace)


def of_batches(shape: Shape) -> float:
    """Applies the same records as batches of the log, as large as those of the controller."""
    batches = list(_batches(records_of(shape)))

    async def append(applier: Applier, log: MemoryLog, watermark: Watermark) -> None:
        for batch in batches:
            log.append_fetched(batch)
            watermark.advance(log.end_offset)
            applier.wake()
            await applier.applied.wait_reached(log.end_offset)

    return _longest(append)


def _batches(records: Iterator[Message]) -> Iterator[bytes]:
    offset = 0
    while chunk := list(islice(records, RECORDS_OF_A_BATCH)):
        values = (
            encode_metadata_record(item, metadata_record_version(type(item), METADATA_VERSION))
            for item in chunk
        )
        new = [NewRecord(None, value, 1) for value in values]
        yield build_batch(new, base_offset=offset, leader_epoch=1)
        offset += len(chunk)


def _longest(work) -> float:  # type: ignore[no-untyped-def]
    longest = LongestStep()

    async def main() -> None:
        log, watermark = MemoryLog(), Watermark(0)
        applier = Applier(log, MetadataLoader(), watermark)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(applier.run)
            await trio.lowlevel.checkpoint()
            trio.lowlevel.add_instrument(longest)
            await work(applier, log, watermark)
            trio.lowlevel.remove_instrument(longest)
            nursery.cancel_scope.cancel()

    trio.run(main)
    return longest.seconds
