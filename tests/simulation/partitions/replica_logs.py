"""The checker's copy of the replicas' logs, batch by batch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, NamedTuple

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.log.batches.batch import iter_batches
from trimaran.log.producers.marker import read_end_marker

READ_BYTES = 1 << 20


class Entry(NamedTuple):
    """A batch; `crc` covers its content except for offset and epoch, and `commits` is None except for markers."""

    base: int
    last: int
    epoch: int
    crc: int
    producer: int = -1
    transactional: bool = False
    commits: bool | None = None

    def __str__(self) -> str:
        return f"[{self.base}-{self.last} epoch {self.epoch} crc {self.crc:08x}]"


def entries_in(data: bytes | memoryview) -> list[Entry]:
    found = []
    for view in iter_batches(memoryview(data)):
        marker = read_end_marker(view) if view.is_control else None
        found.append(
            Entry(
                view.base_offset,
                view.last_offset,
                view.leader_epoch,
                view.crc,
                view.producer_id,
                view.is_transactional,
                None if marker is None else marker.is_commit,
            )
        )
    return found


def batch_ends(data: bytes) -> Iterator[int]:
    """Yields the boundaries of batches, by their length fields."""
    end = 0
    while end <= len(data):
        yield end
        end += 12 + max(0, int.from_bytes(data[end + 8 : end + 12], "big"))


def read_bytes(log: Any, start: int) -> bytes:
    """Returns bytes from the batch with `start` on, even from a disk that its broker can no longer read."""
    offline, log.health.offline = log.health.offline, None
    with log.files.unwatched():
        data: bytes = log.read_bytes(start, READ_BYTES, upto_offset=log.log_end_offset)
    log.health.offline = offline
    return data


def read_entries(log: Any, start: int) -> list[Entry]:
    """Returns the batches from `start` to the end."""
    found: list[Entry] = []
    while start < log.log_end_offset:
        data = read_bytes(log, start)
        new = [entry for entry in entries_in(data) if entry.last >= start]
        if not new:
            break
        found += new
        start = new[-1].last + 1
    return found


class ReplicaLog:
    """The log of one replica across the processes of its broker. Everything below `durable_end` was reported as
    durable; `leader` is its current epoch as the leader, if any;
    `flushed` is the flushed offset of `log` when the checker last looked.
    """

    __slots__ = (
        "durable_end",
        "end",
        "entries",
        "flushed",
        "leader",
        "log",
        "opened_end",
        "seen",
        "start",
        "truncations",
        "unknown_below",
    )

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0
        self.end = 0
        self.durable_end = 0
        self.flushed = 0
        self.opened_end = 0  # the end of the log when this process opened it
        # The start of the log when its producers were last read; producers of batches below it may be unknown.
        self.unknown_below = 0
        self.log: Any = None
        self.leader: PartitionLeader | None = None
        self.truncations = 0
        self.seen: tuple[object, ...] = ()

    def at(self, base: int) -> Entry | None:
        """Returns the batch that begins at `base`."""
        index = bisect_left(self.entries, base, key=lambda entry: entry.base)
        if index < len(self.entries) and self.entries[index].base == base:
            return self.entries[index]
        return None

    def before(self, end: int) -> Entry | None:
        """Returns the last batch that is entirely below `end`."""
        index = bisect_left(self.entries, end, key=lambda entry: entry.last)
        return self.entries[index - 1] if index else None

    def shared_end(self, others: list[Entry]) -> int:
        """Returns the offset up to which the replica has the same batches as `others`."""
        end = others[0].base if others else 0
        for entry in others:
            if self.at(entry.base) not in (None, entry):
                break
            end = entry.last + 1
        return end

    def holds(self, entry: Entry) -> bool:
        """Whether the replica has the batch, or had it before retention deleted it. By log matching, everything before
        the batch is equal, too.
        """
        return self.at(entry.base) == entry or self.start > entry.last
