"""The work that the core hands to the driver: a frozen value with its fields in the order of the work.

The driver completes each `Ready` before the next input (except `propose`), so the log that the core sees always
reflects its own orders. `Raft.flushed` reports later that appended data is flushed. Source: the obligations of etcd's
`Ready`, made a value that a driver processes from top to bottom.
"""

from __future__ import annotations

from typing import NamedTuple

from trimaran.quorum.raft.messages import AnyResponse, Request
from trimaran.quorum.raft.types import ElectionState, OffsetAndEpoch, Peer
from trimaran.quorum.raft.voters import VoterSet
from trimaran.wire.identity import LeaderEpoch, NodeId, Offset, Position


class LeaderChange(NamedTuple):
    """The control record that begins an epoch."""

    leader_id: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]


class KRaftVersionChange(NamedTuple):
    """A control record with the level of kraft.version from this offset on."""

    version: int


class VotersChange(NamedTuple):
    """A control record with the voters from this offset on."""

    voters: VoterSet


ControlRecord = LeaderChange | KRaftVersionChange | VotersChange


class ControlBatch(NamedTuple):
    """Control records that are appended, truncated and replicated together; each takes one offset."""

    records: tuple[ControlRecord, ...]

    @property
    def record_count(self) -> int:
        return len(self.records)


class Proposal(NamedTuple):
    """One atomic batch of `record_count` records, encoded by the driver, without offset and epoch yet."""

    batch: bytes
    record_count: int


class LeaderAppend(NamedTuple):
    """Batches to append in this order from `base_offset` on, with `epoch`."""

    base_offset: Offset
    epoch: LeaderEpoch
    batches: tuple[ControlBatch | Proposal, ...]


class FollowerAppend(NamedTuple):
    """Bytes from the leader of `epoch`, appended unchanged; no batch in them has a later epoch."""

    epoch: LeaderEpoch
    records: bytes | memoryview


class SnapshotChunk(NamedTuple):
    """A chunk of a snapshot being fetched. With the last chunk the snapshot replaces the whole log."""

    snapshot_id: OffsetAndEpoch
    position: Position
    data: bytes | memoryview
    is_last: bool


class Send(NamedTuple):
    """A request to a peer; its response is returned under `token`, its failure by `Raft.request_failed`."""

    token: int
    to: Peer
    request: Request
    timeout: float


class Reply(NamedTuple):
    """The response to the request that arrived under `token`."""

    token: int
    response: AnyResponse


class Ready(NamedTuple):
    """The work of one step, with fields in the order of the work.

    election: write and fsync; no message of the new epoch may be sent before (R2, R3).
    truncate_to: truncate the log; never below the high watermark (R7).
    snapshot: write; on the last chunk fsync, rename, and restart the log at its end.
    append: one write.
    needs_flush: start a group commit; `Raft.flushed` reports its end. A follower sends its next fetch only then.
    replies, sends: in order; fill in `read`s at this moment.
    committed: the new high watermark; apply the records below it.
    """

    election: ElectionState | None = None
    truncate_to: Offset | None = None
    snapshot: SnapshotChunk | None = None
    append: LeaderAppend | FollowerAppend | None = None
    needs_flush: bool = False
    replies: tuple[Reply, ...] = ()
    sends: tuple[Send, ...] = ()
    committed: Offset | None = None
