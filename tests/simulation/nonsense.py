"""Arbitrary messages of a peer: well-formed, so that the translation and the driver accept them, but often wrong in
content. Numbers are drawn close to the node's own, because others would fail the first check. Records and snapshots
chain and have correct checksums, like those that reach a real core.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.simulation.snapshots import Content, encode, key_of, voter_of
from tests.simulation.storage import Entry, SimLog, chain
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.core import Raft
from trimaran.quorum.raft.ready import ControlRecord, KRaftVersionChange, LeaderChange, VotersChange
from trimaran.quorum.raft.types import (
    EPOCH_JUMP_MAX,
    EPOCH_LIMIT,
    EPOCH_MAX,
    NO_DIRECTORY,
    OffsetAndEpoch,
    Peer,
    ReplicaKey,
    VoterEndpoint,
)
from trimaran.quorum.raft.voters import VoterSet
from trimaran.wire.errors import ErrorCode

FAR = (1 << 63) - 1
IDS = (1, 2, 3, 4)
# As an exponent of 2, too large for a float.
MANY_SUCCESSORS = 1100
# A snapshot size that no piece reaches.
LARGE = 1 << 40


class Nonsense(NamedTuple):
    """Possible messages to the node of `raft`, with its `log`."""

    prng: random.Random
    raft: Raft
    log: SimLog

    # --- parts of messages

    def id(self) -> int:
        return self.prng.choice((*IDS, *IDS, -1, 77, (1 << 31) - 1))

    def epoch(self) -> int:
        now = self.raft.epoch
        if self.prng.random() < 0.6:
            return now
        far = (now + EPOCH_JUMP_MAX + 1, EPOCH_LIMIT - 1, EPOCH_LIMIT, EPOCH_MAX)
        return self.prng.choice((now + 1, now + 1, now + 2, now - 1, 0, -1, *far))

    def offset(self) -> int:
        log, latest = self.log, self.log.latest_snapshot
        known = (log.end_offset, log.start_offset, self.raft.high_watermark or 0)
        near = self.prng.choice(known) + self.prng.choice((0, 0, 0, 1, -1, 5))
        return self.prng.choice((near, near, near, 0, -1, FAR, latest.offset if latest else 7))

    def place(self) -> OffsetAndEpoch:
        """Returns an offset and epoch that are not negative, which the translation ensures."""
        return OffsetAndEpoch(max(self.offset(), 0), max(self.epoch(), 0))

    def key(self) -> ReplicaKey:
        node_id = self.id()
        own = key_of(node_id).directory_id if node_id in IDS else NO_DIRECTORY
        return ReplicaKey(node_id, self.prng.choice((own, own, NO_DIRECTORY, b"another director")))

    def cluster_id(self) -> str | None:
        return self.prng.choice(("sim", "sim", "sim", None, "theirs"))

    def endpoints(self) -> tuple[VoterEndpoint, ...]:
        one = VoterEndpoint("C", "sim", self.prng.choice(IDS))
        return self.prng.choice(((one,), (one,), (), (VoterEndpoint("", "", 0),), (one, one)))

    def voters(self) -> VoterSet:
        size = self.prng.randint(0, len(IDS))
        return VoterSet.of(voter_of(i) for i in self.prng.sample(IDS, size))

    def is_so(self) -> bool:
        return self.prng.random() < 0.5

    # --- requests

    def request(self) -> core.Request:
        return self.prng.choice(
            (
                *(self.vote, self.begin, self.end, self.fetch, self.fetch_snapshot),
                *(self.add, self.remove, self.update),
            )
        )()

    def vote(self) -> core.Request:
        return core.VoteRequest(
            cluster_id=self.cluster_id(),
            epoch=self.epoch(),
            candidate=self.key(),
            voter=self.prng.choice((None, self.key())),
            last_epoch=self.epoch() - self.prng.randint(0, 1),
            end_offset=self.offset(),
            pre_vote=self.is_so(),
        )

    def begin(self) -> core.Request:
        voter = self.prng.choice((None, self.key()))
        return core.BeginQuorumEpochRequest(
            self.cluster_id(), self.epoch(), self.id(), voter, self.endpoints()
        )

    def end(self) -> core.Request:
        successors = tuple(self.key() for _ in range(self.prng.randint(0, 4)))
        if self.prng.random() < 0.1:
            successors = (key_of(4),) * MANY_SUCCESSORS + (self.raft.identity.key,)
        return core.EndQuorumEpochRequest(
            self.cluster_id(), self.epoch(), self.id(), successors, self.endpoints()
        )

    def fetch(self) -> core.Request:
        return core.FetchRequest(
            cluster_id=self.cluster_id(),
            epoch=self.epoch(),
            replica=self.key(),
            fetch_offset=self.offset(),
            last_fetched_epoch=self.prng.choice((self.log.last_epoch, self.epoch())),
            high_watermark=self.offset(),
            max_wait=self.prng.choice((0.0, 0.5, -1.0, 1e9)),
            max_bytes=self.prng.choice((1 << 20, 0, -1, FAR)),
        )

    def fetch_snapshot(self) -> core.Request:
        known = self.log.latest_snapshot or self.place()
        return core.FetchSnapshotRequest(
            cluster_id=self.cluster_id(),
            epoch=self.epoch(),
            replica=self.key(),
            snapshot_id=self.prng.choice((known, self.place())),
            position=self.prng.choice((0, 0, 24, -1, FAR)),
            max_bytes=self.prng.choice((1 << 20, 0, -1, FAR)),
        )

    def add(self) -> core.Request:
        voter = self.prng.choice((None, self.key(), self.key()))
        return core.AddVoterRequest(self.cluster_id(), voter, self.endpoints(), self.is_so())

    def remove(self) -> core.Request:
        return core.RemoveVoterRequest(self.cluster_id(), self.prng.choice((None, self.key())))

    def update(self) -> core.Request:
        return core.UpdateVoterRequest(
            cluster_id=self.cluster_id(),
            epoch=self.epoch(),
            voter=self.prng.choice((None, self.key(), self.key())),
            endpoints=self.endpoints(),
            kraft_version_min=self.prng.choice((0, 0, 1, -1, 9)),
            kraft_version_max=self.prng.choice((1, 1, 0, -1, 9)),
        )

    # --- answers

    def response(self, request: core.Request) -> core.AnyResponse:
        """Returns a response of the class that answers `request`, which the translation ensures."""
        match request:
            case core.VoteRequest():
                return core.VoteResponse(**self._head(), granted=self.prng.random() < 0.8)
            case core.BeginQuorumEpochRequest():
                return core.BeginQuorumEpochResponse(**self._head())
            case core.EndQuorumEpochRequest():
                return core.EndQuorumEpochResponse(**self._head())
            case core.FetchRequest():
                return self._fetched(request)
            case core.FetchSnapshotRequest():
                return self._snapshot_fetched(request)
            case core.AddVoterRequest():
                return core.AddVoterResponse(error=self._error(), message=None)
            case core.RemoveVoterRequest():
                return core.RemoveVoterResponse(error=self._error(), message="no")
            case core.UpdateVoterRequest():
                return core.UpdateVoterResponse(**self._head())
            case core.ApiVersionsRequest():
                versions = self.prng.choice((None, (0, 1), (0, 1), (1, 0), (-1, 9)))
                return core.ApiVersionsResponse(error=self._error(), kraft_versions=versions)

    def _error(self) -> int:
        if self.prng.random() < 0.8:
            return 0
        return self.prng.choice((*map(int, ErrorCode), -9999, 9999))

    def _head(self) -> dict[str, object]:
        leader_id = self.id()
        host = self.prng.choice(("sim", "sim", ""))
        leader = self.prng.choice((None, Peer(leader_id, host, max(leader_id, 0))))
        return {
            "error": self._error(),
            "epoch": self.epoch(),
            "leader_id": leader_id,
            "leader": leader,
        }

    def _fetched(self, request: core.FetchRequest) -> core.AnyResponse:
        head = self._head()
        response = core.FetchResponse(**head, high_watermark=self.offset())  # type: ignore[arg-type]
        response.log_start_offset = self.offset()
        kind = self.prng.random()
        if kind < 0.2:
            response.diverging = self.place()
        elif kind < 0.4:
            response.snapshot_id = self.place()
        if self.prng.random() < 0.6:
            response.records = self._entries(request, response)  # type: ignore[assignment]
        return response

    def _entries(self, request: core.FetchRequest, response: core.FetchResponse) -> list[Entry]:
        """Returns batches that `validate_fetched` accepts."""
        newest = max(response.epoch, request.epoch)
        found, offset, fingerprint = [], request.fetch_offset, self.log.end_chain
        epoch = request.last_fetched_epoch
        for _ in range(self.prng.randint(0, 3)):
            epoch = self.prng.choice((epoch, newest, newest)) if epoch <= newest else newest
            control = self._control() if self.prng.random() < 0.3 else ()
            end = offset + (len(control) or self.prng.randint(1, 3))
            payload = self.prng.randrange(1 << 30)
            fingerprint = chain(fingerprint, epoch, payload)
            found.append(Entry(offset, end, epoch, payload, fingerprint, control))
            offset = end
        return found

    def _control(self) -> tuple[ControlRecord, ...]:
        possible = (
            LeaderChange(self.id(), IDS, ()),
            KRaftVersionChange(self.prng.choice((0, 1, 1, 7))),
            VotersChange(self.voters()),
        )
        return tuple(self.prng.choices(possible, k=self.prng.randint(1, 3)))

    def _snapshot_fetched(self, request: core.FetchSnapshotRequest) -> core.AnyResponse:
        """Returns a response; if it has bytes, they are the requested piece, which the driver ensures."""
        content = Content(7, self.prng.choice((0, 1)), self.prng.choice((None, self.voters())))
        data = encode(content)
        response = core.FetchSnapshotResponse(
            **self._head(),  # type: ignore[arg-type]
            snapshot_id=request.snapshot_id,
            size=self.prng.choice((len(data), len(data), LARGE, 0, -1)),
            position=request.position,
            data=data[request.position : request.position + self.prng.choice((24, 1 << 20, 0))],
        )
        if not response.data:
            response.snapshot_id = self.prng.choice((request.snapshot_id, self.place()))
            response.position = self.offset()
        return response
