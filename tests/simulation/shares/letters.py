"""The dead letters in a batch of a queue."""

from __future__ import annotations

from typing import Any

from tests.simulation.partitions.replica_logs import read_bytes
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records


def letters_in(log: Any, base: int) -> list[tuple[str, int, int, int]]:
    """Returns group, partition, offset and delivery count of each letter in the batch that begins at `base`."""
    found = []
    for view in iter_batches(memoryview(read_bytes(log, base))):
        if view.base_offset != base or view.is_control:
            continue
        for record in decode_records(view):
            texts = {
                name.removeprefix("__dlq.errors."): bytes(value or b"").decode()
                for name, value in record.headers
            }
            found.append(
                (
                    texts["group"],
                    int(texts["partition"]),
                    int(texts["offset"]),
                    int(texts["delivery.count"]),
                )
            )
    return found
