"""A simulated kernel that syncs files asynchronously, for the brokers of a world; it replaces that of
`log/durability/syncing.py`. Each file is synced some time after the request, and the loop is notified even later. A
sync of an ended process reports an error, which only ends the wait for the kernel.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.partitions.disk import SimFile, file_of

if TYPE_CHECKING:
    from tests.simulation.partitions.world import World

Ended = Callable[[OSError | None], object]


@dataclass
class _Batch:
    files: Sequence[SimFile]
    ended: Ended
    error: OSError | None = None

    def sync(self, file: SimFile) -> None:
        try:
            file.sync()
        except OSError as error:
            self.error = error


class SimKernel:
    """A replacement of `KernelSyncs` that accepts a share `takes` of the requests."""

    def __init__(self, world: World, takes: float) -> None:
        self._world = world
        self._takes = takes
        self._under_way: dict[int, _Batch] = {}
        self._number = 0

    def begin(self, descriptors: Sequence[int], ended: Ended) -> bool:
        world = self._world
        if world.prng.random() >= self._takes:
            return False
        files = [file_of(descriptor) for descriptor in descriptors]
        self._number += 1
        number = self._number
        batch = self._under_way[number] = _Batch(files, ended)
        seconds = world.faults.flush_seconds(world.prng)
        for file in files:
            world.after(seconds * world.prng.random(), partial(batch.sync, file))
        world.after(seconds, lambda: self._end(number))
        world.happened["synced by the kernel"] += 1
        return True

    def _end(self, number: int) -> None:
        if number not in self._under_way:
            return
        batch = self._under_way.pop(number)
        is_gone = any(file.disk.is_gone for file in batch.files)
        batch.ended(OSError(errno.EIO, "the process has ended") if is_gone else batch.error)

    def close(self) -> None:
        """Ends the waits of all pending requests, and accepts no more."""
        self._takes = 0.0
        with ExitStack() as ends:
            for batch in self._under_way.values():
                ends.callback(batch.ended, OSError(errno.EIO, "the run is over"))
