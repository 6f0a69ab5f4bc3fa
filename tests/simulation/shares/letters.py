"""The dead letters in a batch of a queue."""

from __future__ import annotations

from typing import Any

from tests.share_history import Letter, letter_of
from tests.simulation.partitions.replica_logs import read_bytes
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records


def letters_in(log: Any, base: int) -> list[tuple[str, Letter]]:
    """Returns the group and the content of each letter in the batch that begins at `base`."""
    found = []
    for view in iter_batches(memoryview(read_bytes(log, base))):
        if view.base_offset != base or view.is_control:
            continue
        for record in decode_records(view):
            headers = {name: bytes(value or b"") for name, value in record.headers}
            group = headers["__dlq.errors.group"].decode()
            found.append((group, letter_of(headers.items(), None)))
    return found
