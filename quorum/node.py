"""One replica of the metadata quorum: the trio driver around `quorum.raft`.

Works as a voter, as an observer with its log on disk (brokers), and as an observer that keeps nothing (the mirror). It does what
the core's `Ready` values say, from top to bottom, applies what is committed to a `MetadataListener`, and runs the listener's
`lead` while it leads. Source: KIP-595, Kafka's `KafkaRaftClientDriver`.

Failures: a storage error, a violated invariant or an exception of the listener ends `run`; the process must end with it.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from log.records import BatchBuilder, NewRecord
from quorum.appliers import Applier
from quorum.listener import LeaderAndEpoch, MetadataListener
from quorum.memory_log import MemoryLog
from quorum.metadata_log import MetadataLog, validate_fetched
from quorum.peers import CALL_ERRORS, Peers
from quorum.questions import Finish, Questions
from quorum.quorum_state_file import load_election, save_election
from quorum.raft import messages as core
from quorum.raft.changing import UpgradeRefused
from quorum.raft.core import NotLeader, Raft
from quorum.raft.ready import FollowerAppend, LeaderAppend, Ready, Send
from quorum.raft.roles import Leader, describe
from quorum.raft.types import Election, Identity, Peer, Timeouts, ensure
from quorum.raft.voters import VoterSet
from quorum.runtime.alarm import Alarm
from quorum.runtime.clock import now_ms
from quorum.runtime.errors import NotLeaderError
from quorum.runtime.group_commit import GroupCommit
from quorum.runtime.latest import Latest
from quorum.runtime.steps import Steps, at_once
from quorum.runtime.threads import run_blocking
from quorum.runtime.watermark import Watermark
from quorum.snapshot_fetch import SnapshotFetch
from quorum.snapshots import SnapshotPolicy, Snapshotter
from quorum.status import QuorumStatus, status_of
from quorum.strangers import Strangers
from quorum.translate.answers import read_answer
from wire.client.errors import VersionMismatch
from wire.errors import ErrorCode, KafkaError, LocalProtocolError, RemoteProtocolError
from wire.records.metadata import encode_metadata_record, metadata_record_version
from wire.schema import Message
from wire.security.listener import PLAINTEXT, ClientSecurity
from wire.transport.node_connection import OnAnswer

log = logging.getLogger(__name__)

# Kafka's largest batch, hence what any follower takes; one propose is one batch.
BATCH_BYTES_MAX = 8 << 20
# What may be proposed and not committed: five of the largest batches, as Kafka's memory pool allows.
UNCOMMITTED_BYTES_MAX = 5 * BATCH_BYTES_MAX
# Requests of other nodes that wait for the driver's turn; each connection has few, so this is never reached but by a flood.
INBOX_MAX = 20_000
# Damage in what was flushed within so long before a crash is told from a torn end by its looks only (`quorum.log_damage`).
RECOVERY_POINT_SECONDS = 1.0
NEWEST_METADATA_VERSION = 1 << 15
Address = tuple[str, int]

# What a peer that does not know the request might have answered.
_TOO_OLD: dict[type, core.AnyAnswer] = {
    core.VoteRequest: core.VoteAnswer(error=ErrorCode.UNSUPPORTED_VERSION),
    core.UpdateVoterRequest: core.UpdateVoterAnswer(error=ErrorCode.UNSUPPORTED_VERSION),
}


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node is told at start."""

    identity: Identity
    timeouts: Timeouts = field(default_factory=Timeouts)
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    client_id: str = "quorum"
    connect_seconds: float = 1.0
    security: ClientSecurity = PLAINTEXT


class Leading(NamedTuple):
    """Our own leadership: listeners begin when everything below `start_offset` is applied."""

    epoch: int
    start_offset: int


class QuorumNode:
    """Made, then `run`. Reads and `propose` are for the loop's tasks.

    Args:
        directory: where `quorum-state` lives (the metadata partition's directory); None for a node without a disk.
        group_commit: who fsyncs the log; needed by voters.
    """

    def __init__(
        self,
        settings: NodeSettings,
        metadata_log: MetadataLog | MemoryLog,
        listener: MetadataListener,
        *,
        directory: Path | None = None,
        group_commit: GroupCommit | None = None,
        prng: random.Random | None = None,
    ) -> None:
        voter_without_disk = settings.identity.can_vote and (
            directory is None or group_commit is None
        )
        ensure(not voter_without_disk, "a voter needs a disk")
        self.settings = settings
        self.log = metadata_log
        self.leader: Latest[LeaderAndEpoch] = Latest(LeaderAndEpoch(None, 0))
        self.high_watermark = Watermark(0)
        # Levels below 4.3's make the records older; the controller sets it from the feature record.
        self.metadata_version = NEWEST_METADATA_VERSION
        self._listener = listener
        self._directory = directory
        self._group_commit = group_commit
        self._prng = prng or random.Random()
        self._core: Raft | None = None
        self._inbox: deque[Callable[[float], object]] = deque()
        self._awake = trio.Event()
        self._questions = Questions()
        self._uncommitted: deque[tuple[int, int]] = deque()
        self._uncommitted_bytes = 0
        self._leading: Latest[Leading | None] = Latest(None)
        self._applier = Applier(metadata_log, listener, self.high_watermark)
        self.snapshotter = Snapshotter(metadata_log, settings.snapshots, self._applier)
        self._snapshot_fetch = SnapshotFetch(metadata_log, self._applier)
        self._scope = trio.CancelScope()
        self._hand_over: trio.CancelScope | None = None
        self._heirs: set[int] = set()
        self._strangers = Strangers(settings.identity)

    # --- life

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled or `stop`ped; started once the log is open and the driver takes requests."""
        try:
            with self._scope:
                self._core = await self._open()
                async with trio.open_nursery() as nursery:
                    peers = Peers(
                        nursery,
                        self.settings.client_id,
                        self.peer_gone,
                        self.settings.connect_seconds,
                        self.settings.security,
                    )
                    nursery.start_soon(self._applier.run)
                    nursery.start_soon(self.snapshotter.run)
                    nursery.start_soon(self._save_recovery_points)
                    nursery.start_soon(self._reign)
                    nursery.start_soon(self._drive, self._core, peers, nursery)
                    task_status.started()
        finally:
            self._close()

    async def stop(self, seconds: float = 2.0) -> None:
        """Hands leadership over if we have it, then ends `run`.

        Waits at most so long for a successor, and for none once every other voter is gone too.
        """
        self._heirs = {voter.id for voter in self.voters.others(self.settings.identity.key)}
        with trio.move_on_after(seconds) as self._hand_over:
            if self._core is not None and isinstance(self._core.role, Leader):
                epoch = self._core.epoch
                self._submit(self._core.shutdown)
                await self.leader.wait_for(lambda leader: leader.epoch > epoch)
        self._scope.cancel()

    async def _open(self) -> Raft:
        """Loads what is on disk; blocks in threads."""
        election = Election()
        if self._directory is not None:
            election = await run_blocking(load_election, self._directory)
        if isinstance(self.log, MetadataLog):
            # what an earlier process left in the page cache is not durable yet, and the core counts it as such
            await run_blocking(self.log.log.flush)
        await self._applier.open()
        identity, timeouts = self.settings.identity, self.settings.timeouts
        now = trio.current_time()
        return Raft(identity, self.log, election, timeouts=timeouts, prng=self._prng, now=now)

    async def _save_recovery_points(self) -> None:
        if not isinstance(self.log, MetadataLog):
            return
        while True:
            self.log.reach_recovery_point()
            await run_blocking(self.log.save_recovery_point)
            await trio.sleep(RECOVERY_POINT_SECONDS)

    def _close(self) -> None:
        self.high_watermark.close()
        self._questions.close()

    # --- what others ask

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    @property
    def applied_offset(self) -> int:
        """Everything below has been given to the listener."""
        return self._applier.applied.offset

    @property
    def leader_address(self) -> Peer | None:
        """Where to reach the leader, if it is known."""
        return None if self._core is None else self._core.leader_peer

    @property
    def voters(self) -> VoterSet:
        """The newest set that the log says, committed or not."""
        return self.log.history.voters

    def address_of(self, node_id: int) -> Address | None:
        """Where the leader or a voter listens."""
        leader = self.leader_address
        if leader is not None and leader.id == node_id:
            return leader.host, leader.port
        voter = self.voters.get(node_id)
        return None if voter is None else voter.peer_on(self.settings.identity.listener)[1:]

    @property
    def kraft_version(self) -> int:
        return self.log.history.kraft_version

    @property
    def is_leader(self) -> bool:
        return self._core is not None and isinstance(self._core.role, Leader)

    def describe(self) -> QuorumStatus:
        """What this node knows of the quorum; replicas only if it leads."""
        ensure(self._core is not None, "the node runs")
        assert self._core is not None
        return status_of(self._core, trio.current_time(), now_ms())

    async def wait_caught_up(self) -> None:
        """Until everything that was committed when a leader first answered is applied (`broker.starts` waits so)."""
        await self.leader.wait_for(lambda leader: leader.leader_id is not None)
        await self.high_watermark.wait_reached(1)
        await self._applier.applied.wait_reached(self.high_watermark.offset)

    def propose(self, records: Sequence[Message], epoch: int, batch: bytes | None = None) -> int:
        """Appends the records as one atomic batch; returns the last offset. They are committed when
        `high_watermark` has passed it, or never if leadership ends before. `batch` is what `encode` made of them, if it did.

        Raises:
            NotLeaderError: this node does not lead `epoch`.
            KafkaError: as `encode`; RECORD_LIST_TOO_LARGE; REQUEST_TIMED_OUT, too much waits for a majority already.
        """
        leading = self._leading.value
        if self._core is None or leading is None or leading.epoch != epoch:
            raise NotLeaderError
        if batch is None:
            batch = at_once(self.encode(records))
        self._check_size(batch)
        try:
            base_offset = self._core.propose(batch, len(records), epoch)
        except NotLeader:
            raise NotLeaderError from None
        self._uncommitted.append((base_offset + len(records), len(batch)))
        self._uncommitted_bytes += len(batch)
        self._applier.proposed(base_offset, epoch, records)
        self._awake.set()
        return base_offset + len(records) - 1

    def upgrade_kraft_version(self, level: int, epoch: int, *, validate_only: bool = False) -> None:
        """Makes a static quorum dynamic: level 1 and the voters are appended, and count at once.

        Raises:
            NotLeaderError: this node does not lead `epoch`.
            KafkaError: INVALID_UPDATE_VERSION, and why.
        """
        leading = self._leading.value
        if self._core is None or leading is None or leading.epoch != epoch:
            raise NotLeaderError
        try:
            self._core.upgrade_kraft_version(level, epoch, validate_only=validate_only)
        except NotLeader:
            raise NotLeaderError from None
        except UpgradeRefused as refusal:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, str(refusal)) from None
        self._awake.set()

    def encode(self, records: Sequence[Message]) -> Steps[bytes]:
        """The batch that `propose` writes.

        Raises:
            KafkaError: INVALID_REQUEST, something is longer than a record can hold.
        """
        timestamp_ms = now_ms()
        builder = BatchBuilder()
        for record in records:
            builder.add(NewRecord(None, self._encode_one(record), timestamp_ms))
            yield 1
        return builder.build()

    def _encode_one(self, record: Message) -> bytes:
        version = metadata_record_version(type(record), self.metadata_version)
        try:
            return encode_metadata_record(record, version)
        except LocalProtocolError as error:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"it has no room in the metadata log: {error}"
            ) from error

    def _check_size(self, batch: bytes) -> None:
        if len(batch) > BATCH_BYTES_MAX:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(batch)} bytes in one change of metadata"
            )
        if self._uncommitted_bytes + len(batch) > UNCOMMITTED_BYTES_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "too many changes of metadata wait for a majority"
            )

    def peer_gone(self, node_id: int) -> None:
        """The process of a node is gone: its connection broke and every address refuses (idea 11)."""
        self._heirs.discard(node_id)
        if self._hand_over is not None and not self._heirs:
            self._hand_over.cancel()
        if self._core is not None:
            self._submit(partial(self._core.peer_gone, node_id))

    def resign(self) -> None:
        """Gives up leadership, if we have it; another node is elected, or we again."""
        if self._core is not None:
            self._submit(self._core.resign)

    def ask(self, request: core.Request) -> Finish:
        """Gives a request to the core now; the result, awaited, is its answer."""
        if self._core is None or len(self._inbox) >= INBOX_MAX:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the quorum's node does not run")
        token, finish = self._questions.open()
        self._submit(partial(self._core.receive, core.Envelope(token, request)))
        return finish

    # --- the driver

    def _submit(self, step: Callable[[float], object]) -> None:
        self._inbox.append(step)
        self._awake.set()

    async def _drive(self, raft: Raft, peers: Peers, nursery: trio.Nursery) -> None:
        """Feeds the core one input at a time, each followed by all the work that comes of it."""
        alarm = Alarm(lambda: self._submit(raft.handle_timeout))
        nursery.start_soon(alarm.run)
        while True:
            await self._settle(raft, peers, nursery)
            if self._inbox:
                self._inbox.popleft()(trio.current_time())
            else:
                alarm.set(raft.deadline())
                await self._awake.wait()
                self._awake = trio.Event()

    async def _settle(self, raft: Raft, peers: Peers, nursery: trio.Nursery) -> None:
        while (ready := raft.ready()) is not None:
            await self._perform(ready)
            for reply in ready.replies:
                self._questions.answer(reply.token, self._fill(reply.answer))
            for send in ready.sends:
                peers.ask(send.to, send.request, send.timeout, self._taker(raft, send, nursery))
            if ready.committed is not None:
                self._committed(ready.committed)
            log_changed = ready.append or ready.snapshot or ready.truncate_to is not None
            if log_changed:
                raft.log_changed(trio.current_time())
            self._publish(raft)
            if not log_changed:
                return  # nothing of it was news to the core

    async def _perform(self, ready: Ready) -> None:
        """The work on disk, in the order of the fields."""
        if ready.election is not None and self._directory is not None:
            await run_blocking(save_election, self._directory, ready.election, self.log.history)
        if ready.truncate_to is not None:
            self._ensure_unapplied(ready.truncate_to)
            self.log.truncate_to(ready.truncate_to)
        if ready.snapshot is not None:
            await self._snapshot_fetch.take(ready.snapshot)
        if isinstance(ready.append, LeaderAppend):
            assert isinstance(self.log, MetadataLog)
            self.log.append_as_leader(ready.append, now_ms())
        elif isinstance(ready.append, FollowerAppend):
            self.log.append_fetched(ready.append.records)
        if ready.needs_flush:
            assert isinstance(self.log, MetadataLog)
            assert self._group_commit is not None
            self._group_commit.mark_dirty(self.log.log, self._on_flushed)

    def _ensure_unapplied(self, offset: int) -> None:
        applied = self._applier.applied.offset
        ensure(offset >= applied, "R7 nothing applied is truncated", offset, applied)

    def _on_flushed(self, _offset: int) -> None:
        if not self._inbox or self._inbox[-1] != self._flushed:
            self._submit(self._flushed)

    def _flushed(self, now: float) -> None:
        # the log's own word at this moment: a truncation since has lowered it
        assert isinstance(self.log, MetadataLog)
        assert self._core is not None
        self._core.flushed(self.log.log.flushed_offset, now)

    def _fill(self, answer: core.AnyAnswer) -> core.AnyAnswer:
        """Puts the bytes that the core names into an answer."""
        if isinstance(answer, core.FetchAnswer) and answer.read is not None:
            assert isinstance(self.log, MetadataLog)
            read = answer.read
            data = self.log.read_bytes(read.offset, read.max_bytes, self.log.end_offset)
            return core.with_records(answer, data)
        if isinstance(answer, core.FetchSnapshotAnswer) and answer.read is not None:
            assert isinstance(self.log, MetadataLog)
            return core.with_data(answer, self.log.snapshots.read(*answer.read))
        return answer

    def _taker(self, raft: Raft, send: Send, nursery: trio.Nursery) -> OnAnswer:
        """Takes what comes of a request to the driver."""
        return lambda found: self._submit(partial(self._take, raft, send, nursery, found))

    def _take(
        self, raft: Raft, send: Send, nursery: trio.Nursery, found: Message | Exception, now: float
    ) -> None:
        answer = self._understood(send, found)
        if answer is None:
            raft.request_failed(send.token, now)
        elif isinstance(answer, core.FetchSnapshotAnswer) and len(answer.data):
            nursery.start_soon(self._take_snapshot, raft, send.token, answer)
        else:
            raft.receive(core.Envelope(send.token, answer), now)

    def _understood(self, send: Send, found: Message | Exception) -> core.AnyAnswer | None:
        """Nothing damaged or out of place reaches the core; None is no answer."""
        try:
            if isinstance(found, Exception):
                raise found
            answer = read_answer(found)
            self._strangers.note(send.to, answer, len(self.voters))
            return _with_checked_records(send, answer)
        except VersionMismatch as error:
            log.info("%s: %s", send.to, error)
            return _TOO_OLD.get(type(send.request))
        except (*CALL_ERRORS, KafkaError) as error:
            log.debug("%s to %s: %r", send.request, send.to, error)
            return None

    async def _take_snapshot(
        self, raft: Raft, token: int, answer: core.FetchSnapshotAnswer
    ) -> None:
        step: Callable[[float], object] = partial(raft.request_failed, token)
        try:
            checked = await self._snapshot_fetch.check(answer)
            step = partial(raft.receive, core.Envelope(token, checked))
        except (RemoteProtocolError, KafkaError) as error:
            log.debug("a piece of a snapshot cannot be checked: %r", error)
        self._submit(step)

    def _committed(self, offset: int) -> None:
        while self._uncommitted and self._uncommitted[0][0] <= offset:
            self._uncommitted_bytes -= self._uncommitted.popleft()[1]
        self.high_watermark.advance(offset)
        self._applier.wake()
        upto = self.log.refetch_upto
        if upto is not None and offset >= upto:
            assert isinstance(self.log, MetadataLog)
            log.info("all that was damaged is here again, up to offset %d", upto)
            self.log.refetch.clear()

    def _publish(self, raft: Raft) -> None:
        """Tells the rest of the process who leads."""
        role = raft.role
        leader = LeaderAndEpoch(raft.leader_id, raft.epoch)
        if leader != self.leader.value:
            log.info("node %s: %s", self.settings.identity.node_id, describe(role))
            self.leader.set(leader)
        leading = Leading(role.epoch, role.start_offset) if isinstance(role, Leader) else None
        if leading != self._leading.value:
            self._uncommitted.clear()
            self._uncommitted_bytes = 0
            self._applier.forget_proposed()
            self._leading.set(leading)

    # --- leadership

    async def _reign(self) -> None:
        """One block per epoch that we lead: nothing of it is alive when the next begins."""
        while True:
            leading = await self._leading.wait_for(lambda value: value is not None)
            assert leading is not None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._lead, leading)
                await self._leading.wait_not(leading)
                nursery.cancel_scope.cancel()

    async def _lead(self, leading: Leading) -> None:
        await self._applier.applied.wait_reached(leading.start_offset)
        await self._listener.lead(leading.epoch)


def _with_checked_records(send: Send, answer: core.AnyAnswer) -> core.AnyAnswer:
    """Raises RemoteProtocolError or KafkaError: the records are not what was asked for."""
    if not isinstance(answer, core.FetchAnswer) or not len(answer.records):
        return answer
    assert isinstance(send.request, core.FetchRequest)
    epoch = max(answer.epoch, send.request.epoch)
    return core.with_records(
        answer, validate_fetched(answer.records, send.request.fetch_offset, epoch)
    )
