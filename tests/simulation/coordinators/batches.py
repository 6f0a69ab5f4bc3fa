"""The checker's view of a batch in addition to `Entry`: its records, and the writer of a marker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.simulation.partitions.replica_logs import read_bytes
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.log.producers.marker import EndMarker, read_end_marker


class Batch(NamedTuple):
    """A batch; `records` has offsets, keys and values, and is empty for a marker."""

    base: int
    last: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    marker: EndMarker | None
    records: tuple[tuple[int, bytes, bytes | None], ...]


def batches_in(data: bytes | memoryview) -> Iterator[Batch]:
    for view in iter_batches(memoryview(data)):
        marker = read_end_marker(view) if view.is_control else None
        records = () if view.is_control else decode_records(view)
        yield Batch(
            view.base_offset,
            view.last_offset,
            view.leader_epoch,
            view.producer_id,
            view.producer_epoch,
            view.is_transactional,
            marker,
            tuple((record.offset, record.key or b"", record.value) for record in records),
        )


def read_batch(log: Any, base: int) -> Batch:
    """Returns the batch that begins at `base`."""
    return next(batch for batch in batches_in(read_bytes(log, base)) if batch.base == base)
