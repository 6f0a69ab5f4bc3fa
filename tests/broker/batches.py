"""Record batches for tests."""

from __future__ import annotations

from typing import Any

from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.node.runtime.clock import now_ms


def batch(*values: bytes, timestamp_ms: int | None = None, **fields: Any) -> memoryview:
    """Returns one batch, in a writable buffer like a receive buffer."""
    time = now_ms() if timestamp_ms is None else timestamp_ms
    return memoryview(bytearray(build_batch([NewRecord(None, v, time) for v in values], **fields)))


def append(harness: Any, *values: bytes, name: str = "t", index: int = 0, **fields: Any) -> Any:
    """Appends one batch as the partition's leader."""
    data = batch(*values, **fields)
    return harness.leader(name, index).append(data, list(iter_batches(data)))
