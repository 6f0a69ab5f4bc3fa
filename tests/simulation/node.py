"""A simulated node: the real core, driven as `trimaran.quorum.replica.node` drives it, over a simulated disk and
network.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from tests.simulation.member import Member
from tests.simulation.snapshots import Content, Damaged, decode, encode
from tests.simulation.storage import GENESIS, Disk, Entry, Refused, SimLog, chain
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.changing import UpgradeRefused
from trimaran.quorum.raft.core import NotLeader, Raft
from trimaran.quorum.raft.ready import (
    ControlBatch,
    FollowerAppend,
    LeaderAppend,
    Proposal,
    Ready,
    SnapshotChunk,
)
from trimaran.quorum.raft.roles import Leader
from trimaran.quorum.raft.types import (
    ElectionState,
    Identity,
    OffsetAndEpoch,
    Timeouts,
    VoterEndpoint,
)
from trimaran.quorum.raft.voters import VoterSet
from trimaran.quorum.replica.node import RECOVERY_POINT_SECONDS
from trimaran.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.world import World


class CrashNow(Exception):
    """Raised when the process dies in the middle of a step."""


class SimNode:
    # With more than thirty instance attributes CPython no longer uses its fast attribute lookups.
    __slots__ = (
        *("world", "checker", "network", "disk", "log", "raft", "metadata"),
        *("id", "identity", "timeouts", "prng"),
        *("alive", "refused", "is_rotten", "life", "skew"),
        *("applied", "applied_epoch", "state", "loading_snapshot"),
        *("_tokens", "_next_token", "_proposals", "_parts", "_sent_at", "_sent"),
        *("_asked", "_flush_wanted", "_flushing", "_saves_at", "_deadline", "_wakes_at"),
    )
    has_disk = True

    def __init__(self, world: World, identity: Identity, timeouts: Timeouts) -> None:
        self.world = world
        self.checker = world.checker
        self.network = world.network
        self.id = identity.node_id
        self.timeouts = timeouts
        self.identity = identity
        self.disk = Disk()
        self.log: SimLog = self.disk.log
        self.prng: random.Random = world.prng
        self.raft: Raft = None  # type: ignore[assignment]
        self.alive = False
        # the reason why it no longer starts
        self.refused: str | None = None
        # the snapshot or vote file has an unnoticed wrong bit
        self.is_rotten = False
        self.life = 0
        self.loading_snapshot = False
        self.skew = 0.0
        # the current second, and the number of requests sent in it
        self._sent_at, self._sent = 0, 0
        self.metadata: Member | None = None
        # the core's deadline after its last input, and the earliest wake-up in the heap
        self._deadline = self._wakes_at = inf

    @property
    def now(self) -> float:
        """This node's clock: the simulated time plus the node's own jumps."""
        return self.world.now + self.skew

    # --- life and death

    def start(self) -> None:
        """Starts a new process with the files that the last crash left."""
        self.life += 1
        self._tokens: dict[int, tuple[int, int, int, core.Request]] = {}
        self._next_token = 0
        self._asked: dict[int, core.Request] = {}
        self._proposals: list[tuple[int, int, int]] = []
        self._parts: dict[OffsetAndEpoch, bytearray] = {}
        self._flush_wanted = self._flushing = False
        self._saves_at = 0.0
        self._wakes_at = inf
        election = self._open()
        if election is None:
            return
        self.alive = True
        self.applied, self.state = 0, GENESIS
        if self.world.metadata is not None:
            self.metadata = self.world.metadata.member(self)
        latest = self.log.latest_snapshot
        # the snapshot at offset 0 has the first voters and no state
        if latest is not None and latest.offset > 0:
            self._load_snapshot(latest)
        if self.prng.random() < self.world.faults.moves:
            there = VoterEndpoint("C", f"sim-{self.life}", self.id)
            self.identity = replace(self.identity, endpoints=(there,))
        self.raft = Raft(
            self.identity, self.log, election, timeouts=self.timeouts, prng=self.prng, now=self.now
        )
        self.world.say("starts", self.raft)
        self.checker.started(self)
        self.settle()

    def _open(self) -> ElectionState | None:
        """Returns the election on disk; None if the node must refuse to start."""
        promised = self.log.durable_chains()
        try:
            is_damaged = self.log.recover()
            election = self.disk.load()
        except Refused as why:
            self.refused = str(why)
            self.world.say(self.id, "refuses to start:", why)
            self.world.happened["refused to start"] += 1
            return None
        self.is_rotten = False  # a damaged snapshot was not needed, or has been replaced
        if is_damaged:
            self.checker.lost(self, promised)
        self.checker.opened(self, election)
        return election

    def crash(self, power_cut: bool) -> None:
        if self.alive:
            self.alive = False
            self.life += 1
            if self.metadata is not None:
                self.metadata.stopped()
            self.checker.crashed(self)
            if power_cut:
                self.world.happened["torn write"] += self.log.power_cut(self.prng)
            if self.world.may_damage(self) and self.prng.random() < self.world.faults.bit_flips:
                self._flip()

    def _flip(self) -> None:
        kind = self.prng.random()
        if kind < 0.6:
            self.world.happened["bit flip"] += self.log.flip_a_bit(self.prng)
        elif kind < 0.8:
            self.rot()
        else:
            self.is_rotten = self.disk.flip_in_vote_file(self.prng)
            self.world.happened["bit flip in vote file"] += self.is_rotten

    def rot(self) -> None:
        """Flips a bit of the newest snapshot, perhaps while the node runs and serves it."""
        self.is_rotten = self.log.flip_in_snapshot(self.prng)
        self.world.happened["bit flip in snapshot"] += self.is_rotten

    @property
    def is_damaged(self) -> bool:
        """Whether any file of the node is damaged, noticed or not."""
        log = self.log
        is_noticed = self.refused is not None or log.refetch_end is not None
        return is_noticed or self.is_rotten or not all(entry.intact for entry in log.entries)

    def jump(self, seconds: float) -> None:
        """Moves the clock forward, as after the suspension of a machine: all timeouts are overdue."""
        self.skew += seconds
        self.tick()

    # --- inputs

    def request(self, source: int, source_life: int, token: int, message: core.Request) -> None:
        if isinstance(message, core.ApiVersionsRequest):
            versions = core.ApiVersionsResponse(kraft_versions=(0, 1))
            self.network.response(self, source, source_life, token, versions)
            return
        if isinstance(message, core.BeginQuorumEpochRequest) and not self.identity.can_vote:
            unserved = core.BeginQuorumEpochResponse(error=int(ErrorCode.UNSUPPORTED_VERSION))
            self.network.response(self, source, source_life, token, unserved)
            return
        arrived = self._remember(source, source_life, token, message)
        self._guard(self.raft.receive, arrived, message, self.now)
        if self.alive and arrived in self._tokens:
            self.checker.fetched(self, message, self.world.now)  # parked, and therefore accepted

    def _remember(self, source: int, source_life: int, token: int, message: core.Request) -> int:
        """Notes the origin of a request; returns our own token for it."""
        self._next_token += 1
        self._tokens[self._next_token] = (source, source_life, token, message)
        return self._next_token

    @property
    def unanswered(self) -> int:
        return len(self._tokens)

    def probe(self, source: int, message: core.Request) -> None:
        """Delivers a request without a waiting sender, at the time of the core's last poll, so that no timeout causes a
        change.
        """
        arrived = self._remember(source, 0, 0, message)
        self._guard(self.raft.receive, arrived, message, self.raft._polled_at)

    @property
    def awaited(self) -> dict[int, core.Request]:
        """The unanswered requests, by token."""
        tokens = self.raft._state.requests._by_token
        self._asked = {token: self._asked[token] for token in tokens}
        return self._asked

    def response(self, token: int, message: core.AnyResponse) -> None:
        self._take_response(token, message, self.now)

    def probe_response(self, token: int, message: core.AnyResponse) -> None:
        """Delivers a response at the time of the core's last poll; see `probe`."""
        self._take_response(token, message, self.raft._polled_at)

    def _take_response(self, token: int, message: core.AnyResponse, now: float) -> None:
        checked = self._check(message)
        if checked is None:
            self._guard(self.raft.request_failed, token, now)
            return
        self._guard(self.raft.receive, token, checked, now)

    def _check(self, message: core.AnyResponse) -> core.AnyResponse | None:
        """Returns the response as the driver passes it to the core: None for damaged records; for the last piece of a
        damaged snapshot, the error of a missing snapshot.
        """
        if isinstance(message, core.FetchResponse) and len(message.records):
            if not [entry for entry in message.records if not entry.intact]:
                return message
            self.world.happened["damaged answer"] += 1
            return None
        if isinstance(message, core.FetchSnapshotResponse) and message.snapshot_id is not None:
            if message.position + len(message.data) < message.size:
                return message
            so_far = self._parts.get(message.snapshot_id, bytearray())[: message.position]
            try:
                decode(bytes(so_far) + bytes(message.data))
            except Damaged:
                self.world.happened["damaged answer"] += 1
                return core.not_found(message)
        return message

    def failed(self, token: int) -> None:
        self._guard(self.raft.request_failed, token, self.now)

    def peer_down(self, node_id: int) -> None:
        self._guard(self.raft.peer_down, node_id, self.now)

    def tick(self, deadline: float = 0.0) -> None:
        """Handles a timeout at `deadline` of the node's clock; adding and subtracting the skew may have rounded `now`
        down.
        """
        self._wakes_at = inf
        self._guard(self.raft.handle_timeout, max(self.now, deadline))

    def propose(self, payloads: list[tuple[int, int]]) -> None:
        """Proposes a batch for each of `payloads` (id, record count) in one turn."""
        if isinstance(self.raft.role, Leader):
            self._guard(self._propose, payloads)

    def upgrade(self) -> None:
        """Sets kraft.version 1 as an operator does; the core refuses until all voters have reported their directory
        ids.
        """
        if isinstance(self.raft.role, Leader):
            self._guard(self._upgrade)

    def _upgrade(self) -> None:
        try:
            self.raft.upgrade_kraft_version(1, self.raft.epoch, validate_only=False)
        except UpgradeRefused:
            return
        self.world.happened["upgrade"] += 1

    def _propose(self, payloads: list[tuple[int, int]]) -> None:
        for payload, count in payloads:
            try:
                self.promise(payload, count, self.raft.epoch)
            except NotLeader:
                return

    def promise(self, payload: int, count: int, epoch: int) -> int:
        """Proposes a batch; `settle` must follow before the next input. Returns its base offset, raises NotLeader."""
        base = self.raft.propose(payload.to_bytes(8, "big"), count, epoch)
        self._proposals.append((base + count, epoch, payload))
        return base

    def settle(self) -> None:
        self._guard(_nothing)

    def resign(self) -> None:
        self._guard(self.raft.resign, self.now)

    # --- the driver

    def _guard(self, step: Callable[..., object], *args: object) -> None:
        if not self.alive:
            return
        try:
            step(*args)
            self._settle()
        except CrashNow:
            self.world.crash(self)
            return
        role = self.raft.role
        self.checker.saw_role(self, role, self.world.now)
        if self._proposals:
            self._ack(role)
        if self.metadata is not None:
            self.metadata.saw_role(role)
        self._deadline = self.raft.deadline()
        self._arm()

    def _settle(self) -> None:
        raft = self.raft
        while (ready := raft.ready()) is not None:
            election, truncate_to, snapshot, append, _, replies, sends, committed = ready
            changes_log = bool(append or snapshot or truncate_to is not None)
            if changes_log or election is not None:
                self._perform(ready)
            for token, response in replies:
                self._reply(token, response)
            for token, peer, request, _timeout in sends:
                # a bootstrap server has no known id; its port identifies it
                self._send(token, peer.port, request)
            if committed is not None:
                self.checker.saw_role(self, raft.role, self.world.now)
                self.world.say(self.id, "commits", committed)
                self.checker.knows_watermark(self, committed)
                self._apply(committed)
            if changes_log:
                raft.log_changed(self.now)

    def _crash_point(self) -> None:
        chance = self.world.faults.crash_inside
        if chance and self.prng.random() < chance:
            raise CrashNow

    def _perform(self, ready: Ready) -> None:
        if ready.election is not None:
            self._crash_point()
            self._persist(ready)
            self.checker.persisted(self)
            self._crash_point()
        if ready.truncate_to is not None:
            self.world.happened["truncation"] += 1
            self.world.say(self.id, "truncates to", ready.truncate_to)
            self.checker.truncates(self, ready.truncate_to)
            self.log.truncate_to(ready.truncate_to)
            self._crash_point()
        if ready.snapshot is not None:
            self._take_chunk(ready.snapshot)
        if isinstance(ready.append, LeaderAppend):
            self._append_as_leader(ready.append)
        elif isinstance(ready.append, FollowerAppend):
            for entry in ready.append.records:
                self._append(entry)  # type: ignore[arg-type]
        if ready.append is not None:
            self._crash_point()
        if ready.needs_flush:
            self._want_flush()

    def _persist(self, ready: Ready) -> None:
        assert ready.election is not None
        self.world.say(self.id, "saves", ready.election)
        self.disk.save(ready.election)

    def _append_as_leader(self, append: LeaderAppend) -> None:
        assert append.base_offset == self.log.end_offset
        for batch in append.batches:
            control = batch.records if isinstance(batch, ControlBatch) else ()
            self.checker.changes_voters(self, control)
            payload = _payload(batch)
            base, end = self.log.end_offset, self.log.end_offset + batch.record_count
            fingerprint = chain(self.log.end_chain, append.epoch, payload)
            self._append(Entry(base, end, append.epoch, payload, fingerprint, control))

    def _append(self, entry: Entry) -> None:
        self.checker.appended(self, entry)
        self.log.append(entry)

    def _want_flush(self) -> None:
        self._flush_wanted = True
        if not self._flushing:
            self._flush()

    def _flush(self) -> None:
        """Starts a flush (group commit): one at a time; later requests wait for the next one."""
        self._flush_wanted, self._flushing = False, True
        claim = self.log.begin_flush()
        life = self.life

        def done() -> None:
            if not self.alive or life != self.life:
                return
            self.log.finish_flush(claim)
            if self.now >= self._saves_at:
                self.log.save_recovery_point()
                self._saves_at = self.now + RECOVERY_POINT_SECONDS
            self._flushing = False
            if self._flush_wanted:
                self._flush()
            self._guard(self.raft.flushed, self.log.flushed_offset, self.now)

        self.world.after(self.world.faults.flush_seconds(self.prng), done)

    def _send(self, token: int, target: int, request: core.Request) -> None:
        if self.world.trace is not None:
            self.world.say(f"{self.id}→{target}", request)
        second = int(self.now)
        self._sent = self._sent + 1 if second == self._sent_at else 1
        self._sent_at = second
        self.checker.is_calm(self, self._sent)
        self._asked[token] = request
        self.checker.sends(self, request)
        if isinstance(request, core.VoteRequest):
            self.checker.stands(self, request)
        self.network.request(self, target, token, request)

    def _reply(self, token: int, response: core.AnyResponse) -> None:
        source, source_life, original, request = self._tokens.pop(token)
        if self.world.trace is not None:
            self.world.say(f"{self.id}→{source}", response)
        self.checker.sends(self, response)
        if isinstance(request, core.VoteRequest) and isinstance(response, core.VoteResponse):
            self.checker.answers_vote(self, request, response)
        if not response.error:
            self.checker.fetched(self, request, self.world.now)
        self.network.response(self, source, source_life, original, self._fill(response))

    def _fill(self, response: core.AnyResponse) -> core.AnyResponse:
        if isinstance(response, core.FetchResponse) and response.read is not None:
            return core.with_records(response, self._read(response.read.offset))
        if isinstance(response, core.FetchSnapshotResponse) and response.read is not None:
            snapshot_id, position, size = response.read
            return core.with_data(
                response, self.log.snapshot_data[snapshot_id][position : position + size]
            )
        return response

    def _read(self, offset: int) -> Any:
        at = self.log.index_of(offset)
        return self.log.entries[at : at + 1 + int(4 * self.prng.random())]

    # --- state machine

    def _apply(self, upto: int) -> None:
        if self.applied < self.log.start_offset:
            assert self.log.latest_snapshot is not None
            self._load_snapshot(self.log.latest_snapshot)
        for entry in self.log.entries[self.log.index_of(self.applied) :]:
            if entry.next > upto:
                break
            assert entry.base == self.applied
            self.applied = entry.next
            self.state = chain(self.state, entry.epoch, entry.payload)
            self.applied_epoch = entry.epoch
            self.checker.applies(self, self.applied, self.state)
            if self.metadata is not None:
                self.metadata.apply(entry)
        if self.log.refetch_end is not None and self.applied >= self.log.refetch_end:
            self.log.refetch_end = None
            self.checker.repaired(self)
            self.world.happened["damage repaired"] += 1
        self._maybe_snapshot()

    def _maybe_snapshot(self) -> None:
        every = self.world.faults.snapshot_every
        if self.metadata is not None and self.metadata.loader.in_transaction:
            return
        if every and self.applied - self.log.start_offset >= every:
            snapshot_id = OffsetAndEpoch(self.applied, self.applied_epoch)
            quorum = self.log.quorum_at(self.applied)
            data = self._snapshot_bytes(*quorum)
            self.checker.snapshots(self, self.applied, self.state)
            if self.metadata is not None:
                self.metadata.save(snapshot_id)
            self.log.add_snapshot(snapshot_id, data, quorum)
            self._crash_point()
            self.log.clean()

    def _snapshot_bytes(self, version: int, voters: VoterSet | None) -> bytes:
        return encode(Content(self.state, version, voters))

    def _take_chunk(self, chunk: SnapshotChunk) -> None:
        part = self._parts.setdefault(chunk.snapshot_id, bytearray())
        assert len(part) == chunk.position or chunk.position == 0
        del part[chunk.position :]
        part += chunk.data
        if not chunk.is_last:
            return
        self.world.happened["snapshot fetched"] += 1
        self.world.say(self.id, "has fetched the snapshot", chunk.snapshot_id)
        data = bytes(self._parts.pop(chunk.snapshot_id))
        content = decode(data)
        self.log.add_snapshot(chunk.snapshot_id, data, content[1:])
        self._crash_point()
        self.log.start_at_snapshot(chunk.snapshot_id, content.state, data)

    def _load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        self.loading_snapshot = self.raft is not None and self.applied > 0
        self.state = decode(self.log.snapshot_data[snapshot_id]).state
        self.applied, self.applied_epoch = snapshot_id
        if self.metadata is not None:
            self.metadata.load(snapshot_id)
        if self.raft is not None:
            self.checker.snapshots(self, self.applied, self.state)
        self.loading_snapshot = False

    def _ack(self, role: object) -> None:
        """Notifies clients whose batch was committed in the epoch in which it was proposed."""
        if not isinstance(role, Leader):
            self._proposals.clear()
            return
        reached = role.leader_state.high_watermark or 0
        while self._proposals and self._proposals[0][0] <= reached:
            end, epoch, payload = self._proposals.pop(0)
            if epoch == role.epoch:
                self._ack_one(end, payload)

    def _ack_one(self, end: int, payload: int) -> None:
        found = self.log.chain_at(end)
        if found is not None:
            self.checker.acks(self, end, found)
            self.checker.acks_payload(self, end, payload)
        self.world.acked += 1

    def _arm(self) -> None:
        deadline = self._deadline
        if deadline < self._wakes_at:
            self._wakes_at = deadline
            self.world.at(deadline - self.skew, partial(self._wake, self.life, deadline))

    def _wake(self, life: int, deadline: float) -> None:
        if self.alive and life == self.life and self._wakes_at == deadline:
            if self._deadline > deadline:  # the deadline has moved
                self._wakes_at = inf
                self._arm()
            else:
                self.tick(deadline)


def _nothing() -> None:
    """A step without input, after which `_guard` performs the pending effects."""


def _payload(batch: ControlBatch | Proposal) -> int:
    """Returns the payload's number, which is negative for a control batch."""
    if isinstance(batch, ControlBatch):
        return -1 - zlib.crc32(repr(batch.records).encode())
    return int.from_bytes(batch.batch, "big")
