"""Sources of a metadata log: a first snapshot, and the batches that follow it.

On disk a log may end with records that were never committed; the high watermark is not on disk. A running quorum
returns committed records only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from trimaran.errors.user_error import Exit, UserError
from trimaran.log.batches.batch import BatchView
from trimaran.quorum.metadata.replay import MetadataState, Replay
from trimaran.wire.identity import LeaderEpoch, Offset


@dataclass(frozen=True, slots=True)
class Base:
    """A snapshot: the state of all offsets below `end_offset`."""

    end_offset: Offset
    epoch: LeaderEpoch
    data: bytes


class MetadataSource(Protocol):
    """A source; `name` is for messages."""

    name: str

    def base(self, upto: Offset | None) -> Base | None:
        """Returns the first snapshot to read for the state below this offset (None: the newest state); None if the log
        is sufficient.
        """

    def begins_after(self) -> Base | None:
        """Returns the snapshot before the oldest batches; None if the log is complete."""

    def batches(self, start: Offset) -> Iterator[BatchView]:
        """Yields the batches of the log, from the one that contains `start` on."""


def replay(source: MetadataSource, at: Offset | None = None) -> MetadataState:
    """Returns the state after the record at offset `at`, by default the newest.

    Raises:
        UserError: the source does not have that offset. RemoteProtocolError: damage.
    """
    upto = None if at is None else at + 1
    replayed = Replay()
    base = source.base(upto)
    if base is not None:
        replayed.load_snapshot(base.end_offset, base.epoch, base.data)
    replayed.apply_all(source.batches(replayed.next_offset), upto)
    if upto is not None and replayed.next_offset < upto:
        raise UserError(
            f"{source.name} has no offset {at}",
            f"its last offset is {replayed.next_offset - 1}",
            "name an offset up to that one",
            exit_code=Exit.USAGE,
        )
    return replayed.state


def offset_as_of(source: MetadataSource, time_ms: int) -> int:
    """Returns the last offset of the batches that were written at `time_ms` (milliseconds since 1970) or before.

    Raises:
        UserError: the source begins after that time.
    """
    last = None
    for batch in source.batches(Offset(0)):
        if batch.max_timestamp > time_ms:
            break
        last = batch.last_offset
    if last is None:
        raise UserError(
            f"{source.name} does not reach back to that time",
            "its first record is newer; older ones may be in a snapshot",
            "name a later time, or an offset: --at",
            exit_code=Exit.USAGE,
        )
    return last
