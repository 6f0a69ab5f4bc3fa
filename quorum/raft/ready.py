"""Work that the core orders: a frozen value whose field order is the order of work.

The driver does each `Ready` completely before it feeds the next input (`propose` excepted), so the log that the core
sees is always the log that it asked for. Flushing what was appended is reported later by `Raft.flushed`.
Source: the obligations of etcd's `Ready`, made a value that a driver walks through from top to bottom.
"""

from __future__ import annotations

from typing import NamedTuple

from trimaran.quorum.raft.messages import AnyResponse, Request
from trimaran.quorum.raft.types import ElectionState, OffsetAndEpoch, Peer
from trimaran.quorum.raft.voters import VoterSet
from trimaran.wire.identity import LeaderEpoch, NodeId, Offset, Position


class LeaderChange(NamedTuple):
    """The control record that opens an epoch."""

    leader_id: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]


class KRaftVersionChange(NamedTuple):
    """The level of kraft.version from here on."""

    version: int


class VotersChange(NamedTuple):
    """The voters from here on."""

    voters: VoterSet


ControlRecord = LeaderChange | KRaftVersionChange | VotersChange


class ControlBatch(NamedTuple):
    """Control records that are appended, truncated and replicated together; each takes one offset."""

    records: tuple[ControlRecord, ...]

    @property
    def record_count(self) -> int:
        return len(self.records)


class Proposal(NamedTuple):
    """One atomic batch of `record_count` records, encoded by the driver, still without offset and epoch."""

    batch: bytes
    record_count: int


class LeaderAppend(NamedTuple):
    """Batches to append in this order from `base_offset` on, stamped with `epoch`."""

    base_offset: Offset
    epoch: LeaderEpoch
    batches: tuple[ControlBatch | Proposal, ...]


class FollowerAppend(NamedTuple):
    """Bytes from the leader of `epoch`, appended as they are; no batch in them is of a later epoch."""

    epoch: LeaderEpoch
    records: bytes | memoryview


class SnapshotChunk(NamedTuple):
    """A piece of a snapshot being fetched. With the last one the snapshot takes the place of the whole log."""

    snapshot_id: OffsetAndEpoch
    position: Position
    data: bytes | memoryview
    is_last: bool


class Send(NamedTuple):
    """A request to a peer; its answer comes back under `token`, its failure by `Raft.request_failed`."""

    token: int
    to: Peer
    request: Request
    timeout: float


class Reply(NamedTuple):
    """The answer to the request that arrived under `token`."""

    token: int
    response: AnyResponse


class Ready(NamedTuple):
    """Fields in the order of work.

    election: write and fsync; nothing of the new epoch may be seen outside before (R2, R3).
    truncate_to: cut the log; never below the high watermark (R7).
    snapshot: write; on the last chunk fsync, rename, start the log again at its end.
    append: one write.
    needs_flush: start a group commit; `Raft.flushed` reports it. A follower fetches on only then.
    replies, sends: in order; fill in `read`s at this moment.
    committed: the new high watermark; apply up to there.
    """

    election: ElectionState | None = None
    truncate_to: Offset | None = None
    snapshot: SnapshotChunk | None = None
    append: LeaderAppend | FollowerAppend | None = None
    needs_flush: bool = False
    replies: tuple[Reply, ...] = ()
    sends: tuple[Send, ...] = ()
    committed: Offset | None = None
