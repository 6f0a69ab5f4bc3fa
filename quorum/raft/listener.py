"""The interface by which the Raft driver notifies the state machine.

The controller, brokers and the ZooKeeper mirror implement `MetadataListener`; the driver
(`trimaran.quorum.replica.node`) calls it. The calls are plain functions that never block; they are made in log order,
with each committed offset exactly once between two snapshots. Large batches and snapshots are passed in pieces, so that
other tasks get their turns; their effect may become visible only after the last piece. Source: `RaftClient.Listener` of
KIP-595, with leadership as a block instead of a notification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trimaran.wire.identity import LeaderEpoch, NodeId, Offset
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.schema import Message


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    """The leader of the quorum in `epoch`; `leader_id` is None while it is unknown."""

    leader_id: NodeId | None
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """One batch of the metadata log below the high watermark, or a piece of it; `ends` marks the last piece.

    `records` are decoded metadata records, empty for a control batch (which still advances offset and epoch). Only
    observers receive an `UnknownRecord`. `appended_at_ms` is the wall-clock time that the leader wrote into the batch.
    `size_bytes` is the size of the whole batch in the last piece, and 0 in the pieces before.
    """

    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch
    appended_at_ms: int
    size_bytes: int
    records: Sequence[Message | UnknownRecord]
    ends: bool = True


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A whole `.checkpoint`, or a piece of it: the state of all offsets below `end_offset`; `epoch` is the epoch of the
    last one.
    """

    end_offset: Offset
    epoch: LeaderEpoch
    appended_at_ms: int
    records: Sequence[Message | UnknownRecord]
    begins: bool = True
    ends: bool = True


class MetadataListener(Protocol):
    """A state machine over the metadata log."""

    def apply_committed(self, batch: CommittedBatch) -> None:
        """Replays a committed batch, or the next piece of one. Offsets ascend without gaps."""

    def load_snapshot(self, snapshot: LoadedSnapshot) -> None:
        """Replaces all state when the last piece arrives; the next batch begins at `snapshot.end_offset`."""

    async def lead(self, epoch: LeaderEpoch) -> None:
        """Runs while this node leads `epoch`; the driver cancels it when the epoch ends, and waits for its end.

        It starts when all records below the start offset of the epoch have been applied. Returning early is not an
        error; the listener of a node that never leads returns immediately.
        """
