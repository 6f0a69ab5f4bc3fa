"""Groups ranges into tasks of Spark: starting a task costs as much as reading a dozen MiB."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

# The least and the largest size of a task; in between, every core has one.
SHARE_BYTES_MIN, SHARE_BYTES_MAX = 32 << 20, 128 << 20
TASK_RANGES_MAX = 256  # ranges of one task: bounds the work that a retry repeats


class Sized(Protocol):
    """Has a size in bytes, which may be an estimate."""

    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=Sized)


def share_of(total_bytes: int, cores: int) -> int:
    """Returns the bytes of a task by Spark's rule for files (`spark.sql.files.maxPartitionBytes`): large tasks, but at
    least one for each core.

    The number of cores is that of the planning machine: Spark does not pass the number of a cluster to a source.
    """
    return max(SHARE_BYTES_MIN, min(SHARE_BYTES_MAX, total_bytes // cores))


def pack(
    ranges: Iterable[S], target_bytes: int, ranges_max: int = TASK_RANGES_MAX
) -> list[tuple[S, ...]]:
    """Groups ranges, in order, into tasks of about `target_bytes`."""
    tasks: list[tuple[S, ...]] = []
    task: list[S] = []
    size = 0
    for piece in ranges:
        if task and (size + piece.size > target_bytes or len(task) >= ranges_max):
            tasks.append(tuple(task))
            task, size = [], 0
        task.append(piece)
        size += piece.size
    if task:
        tasks.append(tuple(task))
    return tasks
