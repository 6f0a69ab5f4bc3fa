"""The messages of the core: flat values for the one partition of the metadata log.

The wire structs nest topics and partitions and differ by version; `trimaran.quorum.translate` converts between the two,
so that the core and its simulation see only the content of the protocol. Responses share a header: error, epoch and its
leader. Source: KIP-595, KIP-630 (snapshots), KIP-853 (keys and endpoints), KIP-996 (pre-vote).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar, dataclass_transform

from trimaran.quorum.raft.types import OffsetAndEpoch, Peer, ReplicaKey, VoterEndpoint
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_NODE,
    NO_OFFSET,
    LeaderEpoch,
    NodeId,
    Offset,
    Position,
)


class VoteRequest(NamedTuple):
    cluster_id: str | None
    epoch: LeaderEpoch
    candidate: ReplicaKey
    voter: ReplicaKey | None
    last_epoch: LeaderEpoch
    end_offset: Offset
    pre_vote: bool

    def __str__(self) -> str:
        name = "PreVote" if self.pre_vote else "Vote"
        return f"{name} epoch={self.epoch} log={self.end_offset}@{self.last_epoch}"


class BeginQuorumEpochRequest(NamedTuple):
    cluster_id: str | None
    epoch: LeaderEpoch
    leader_id: NodeId
    voter: ReplicaKey | None
    endpoints: tuple[VoterEndpoint, ...] = ()

    def __str__(self) -> str:
        return f"Begin epoch={self.epoch} leader={self.leader_id}"


class EndQuorumEpochRequest(NamedTuple):
    cluster_id: str | None
    epoch: LeaderEpoch
    leader_id: NodeId
    successors: tuple[ReplicaKey, ...]
    endpoints: tuple[VoterEndpoint, ...] = ()

    def __str__(self) -> str:
        successors = ",".join(map(str, self.successors))
        return f"End epoch={self.epoch} leader={self.leader_id} successors={successors}"


class FetchRequest(NamedTuple):
    """A Fetch request. `high_watermark` is that of the fetcher (-1: unknown, KIP-1166); `max_wait` is in seconds."""

    cluster_id: str | None
    epoch: LeaderEpoch
    replica: ReplicaKey
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    high_watermark: Offset
    max_wait: float
    max_bytes: int

    def __str__(self) -> str:
        return (
            f"Fetch epoch={self.epoch} from={self.fetch_offset}@{self.last_fetched_epoch}"
            f" hw={self.high_watermark}"
        )


class FetchSnapshotRequest(NamedTuple):
    cluster_id: str | None
    epoch: LeaderEpoch
    replica: ReplicaKey
    snapshot_id: OffsetAndEpoch
    position: Position
    max_bytes: int

    def __str__(self) -> str:
        return f"FetchSnapshot epoch={self.epoch} {self.snapshot_id} at={self.position}"


class AddVoterRequest(NamedTuple):
    """An AddRaftVoter request. `voter` is None if the message names none; without `ack_when_committed` it is answered
    when the record is appended.
    """

    cluster_id: str | None
    voter: ReplicaKey | None
    endpoints: tuple[VoterEndpoint, ...]
    ack_when_committed: bool = True

    def __str__(self) -> str:
        return f"AddVoter {self.voter}" + ("" if self.ack_when_committed else " early")


class RemoveVoterRequest(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey | None

    def __str__(self) -> str:
        return f"RemoveVoter {self.voter}"


class UpdateVoterRequest(NamedTuple):
    """A voter's report of its endpoints and supported kraft.versions."""

    cluster_id: str | None
    epoch: LeaderEpoch
    voter: ReplicaKey | None
    endpoints: tuple[VoterEndpoint, ...]
    kraft_version_min: int
    kraft_version_max: int

    def __str__(self) -> str:
        return f"UpdateVoter {self.voter} epoch={self.epoch}"


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """The query for the kraft.versions that a future voter supports."""

    def __str__(self) -> str:
        return "ApiVersions"


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | ApiVersionsRequest
)


A = TypeVar("A")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _response(cls: type[A]) -> type[A]:
    """Declares the class frozen to type checkers only: enforcing it at run time would double the cost of handling a
    response.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)


@_response
class Response:
    """The header of every response. A top-level error has no epoch and no leader (`epoch` is -1)."""

    error: int = 0
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    leader_id: NodeId = NO_NODE
    leader: Peer | None = None

    @property
    def is_top_level(self) -> bool:
        return self.epoch < 0

    def _head(self, name: str) -> str:
        error = f" {ErrorCode.of(self.error).name}" if self.error else ""
        leader = f" leader={self.leader_id}" if self.leader_id >= 0 else ""
        return f"{name}{error} epoch={self.epoch}{leader}"


@_response
class VoteResponse(Response):
    granted: bool = False

    def __str__(self) -> str:
        return self._head("Granted" if self.granted else "Refused")


@_response
class BeginQuorumEpochResponse(Response):
    def __str__(self) -> str:
        return self._head("Begun")


@_response
class EndQuorumEpochResponse(Response):
    def __str__(self) -> str:
        return self._head("Ended")


class Read(NamedTuple):
    """A range of our log that the driver reads into a response: whole batches from `offset`, at least one if there is
    one.
    """

    offset: Offset
    max_bytes: int


@_response
class FetchResponse(Response):
    """The response to a Fetch. A leader makes it with `read`, which the driver fills in; a follower receives it with
    validated `records`.

    Validated records are whole batches with valid checksums that continue from the offset of the request.
    """

    high_watermark: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    read: Read | None = None
    records: bytes | memoryview = b""

    def __str__(self) -> str:
        parts = [self._head("Fetched"), f"hw={self.high_watermark}"]
        if self.diverging:
            parts.append(f"diverging={self.diverging}")
        if self.snapshot_id:
            parts.append(f"snapshot={self.snapshot_id}")
        if self.read:
            parts.append(f"read={self.read.offset}")
        if len(self.records):
            parts.append(f"bytes={len(self.records)}")
        return " ".join(parts)


class SnapshotRead(NamedTuple):
    """A range of one of our snapshots that the driver reads into a response."""

    snapshot_id: OffsetAndEpoch
    position: Position
    max_bytes: int


@_response
class FetchSnapshotResponse(Response):
    snapshot_id: OffsetAndEpoch | None = None
    size: int = 0
    position: Position = Position(0)
    read: SnapshotRead | None = None
    data: bytes | memoryview = b""

    def __str__(self) -> str:
        return f"{self._head('FetchedSnapshot')} {self.snapshot_id} at={self.position}/{self.size}"


@_response
class ChangeResponse(Response):
    """The response to AddVoter and RemoveVoter; on the wire it has a message, but no epoch and leader."""

    message: str | None = None

    def _outcome_text(self, name: str) -> str:
        return f"{name} {ErrorCode.of(self.error).name}" if self.error else name


@_response
class AddVoterResponse(ChangeResponse):
    def __str__(self) -> str:
        return self._outcome_text("VoterAdded")


@_response
class RemoveVoterResponse(ChangeResponse):
    def __str__(self) -> str:
        return self._outcome_text("VoterRemoved")


@_response
class UpdateVoterResponse(Response):
    def __str__(self) -> str:
        return self._head("VoterUpdated")


@_response
class ApiVersionsResponse(Response):
    """The response to the query. `kraft_versions` is the lowest and highest supported level; None if the node names
    none.
    """

    kraft_versions: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"ApiVersions kraft.version={self.kraft_versions}"


AnyResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | AddVoterResponse
    | RemoveVoterResponse
    | UpdateVoterResponse
    | ApiVersionsResponse
)
Message = Request | AnyResponse


def with_records(response: FetchResponse, records: bytes | memoryview) -> FetchResponse:
    """Returns the response with its bytes filled in or validated. It does not use `replace`, which takes three times as
    long, for every fetch.
    """
    return FetchResponse(
        error=response.error,
        epoch=response.epoch,
        leader_id=response.leader_id,
        leader=response.leader,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        diverging=response.diverging,
        snapshot_id=response.snapshot_id,
        records=records,
    )


def with_data(response: FetchSnapshotResponse, data: bytes | memoryview) -> FetchSnapshotResponse:
    return replace(response, read=None, data=data)


def not_found(response: FetchSnapshotResponse) -> FetchSnapshotResponse:
    """Returns the response of a leader without that snapshot, so that the follower starts again."""
    return replace(response, error=int(ErrorCode.SNAPSHOT_NOT_FOUND), data=b"")
