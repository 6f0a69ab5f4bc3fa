"""One replica of the metadata quorum.

It works as a voter, as an observer with its log on disk (brokers), and as an observer without a disk (the mirror). Its
driver does the core's work; committed records are applied to a `MetadataListener`, whose `lead` runs while the node
leads. Source: KIP-595.

Failures: a storage error, a violated invariant or an exception of the listener ends `run`; the process must end with
it.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from trimaran.log.batches.records import BatchBuilder, NewRecord
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.latest import Latest
from trimaran.node.runtime.steps import Steps, at_once
from trimaran.node.runtime.threads import run_blocking
from trimaran.node.runtime.watermark import Watermark
from trimaran.quorum import events
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.changing import UpgradeRefused
from trimaran.quorum.raft.core import NotLeader, Raft
from trimaran.quorum.raft.listener import LeaderAndEpoch, MetadataListener
from trimaran.quorum.raft.roles import Leader, describe
from trimaran.quorum.raft.types import ElectionState, Identity, Peer, Timeouts, ensure
from trimaran.quorum.raft.voters import VoterSet
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.replica.appliers import Applier
from trimaran.quorum.replica.driver import Driver
from trimaran.quorum.replica.metrics import QuorumMetrics
from trimaran.quorum.replica.peers import Peers
from trimaran.quorum.replica.quorum_state_file import load_election
from trimaran.quorum.replica.snapshot_writer import SnapshotPolicy, Snapshotter
from trimaran.quorum.replica.status import QuorumStatus, status_of
from trimaran.wire.errors import ErrorCode, KafkaError, LocalProtocolError
from trimaran.wire.identity import Address, LeaderEpoch, NodeId, Offset
from trimaran.wire.records.metadata import encode_metadata_record, metadata_record_version
from trimaran.wire.schema import Message
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.transport.client.channel_traffic import ChannelTraffic

log = logging.getLogger(__name__)

# Kafka's largest batch, which every follower accepts; one proposal is one batch.
BATCH_BYTES_MAX = 8 << 20
# The bytes that may be proposed and not committed: five of the largest batches, as many as Kafka's memory pool holds.
UNCOMMITTED_BYTES_MAX = 5 * BATCH_BYTES_MAX
# The interval at which the recovery point is saved. Damage in data that was flushed within this time before a crash can
# be distinguished from a torn end only by its content (`trimaran.quorum.raft_log.damage`).
RECOVERY_POINT_SECONDS = 1.0
NEWEST_METADATA_VERSION = 1 << 15


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of a node at its start."""

    identity: Identity
    timeouts: Timeouts = field(default_factory=Timeouts)
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    client_id: str = "quorum"
    connect_seconds: float = 1.0
    security: ClientSecurity = PLAINTEXT


class Leading(NamedTuple):
    """Our own leadership: listeners start when all records below `start_offset` are applied."""

    epoch: LeaderEpoch
    start_offset: Offset


class QuorumNode:
    """One replica: create it, then `run` it. Reads and `propose` are for tasks of the loop.

    Args:
        directory: the directory of `quorum-state` (the metadata partition's); None for a node without a disk.
        group_commit: fsyncs the log; needed by voters.
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
        self.leader: Latest[LeaderAndEpoch] = Latest(LeaderAndEpoch(None, LeaderEpoch(0)))
        self.high_watermark = Watermark()
        # The controller sets this from the feature record. Below the level of 4.3, records are written in older
        # versions.
        self.metadata_version = NEWEST_METADATA_VERSION
        self._listener = listener
        self._directory = directory
        self._group_commit = group_commit
        self._prng = prng or random.Random()
        self._driver: Driver | None = None
        self.metrics = QuorumMetrics()
        # End offset, size in bytes and time of each uncommitted proposal.
        self._uncommitted: deque[tuple[int, int, float]] = deque()
        self._uncommitted_bytes = 0
        self._leading: Latest[Leading | None] = Latest(None)
        self._published: tuple[type, LeaderEpoch, int] | None = None
        self._applier = Applier(metadata_log, listener, self.high_watermark)
        self.snapshotter = Snapshotter(metadata_log, settings.snapshots, self._applier)
        self._scope = trio.CancelScope()
        self._hand_over: trio.CancelScope | None = None
        self._pending_successors: set[NodeId] = set()
        self._peers: Peers | None = None

    # --- lifecycle

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled or `stop`ped; reports as started once the log is open and the driver accepts
        requests.
        """
        try:
            with self._scope:
                driver = self._driver = await self._open()
                async with trio.open_nursery() as nursery:
                    peers = self._peers = Peers(
                        nursery,
                        self.settings.client_id,
                        self.peer_down,
                        self.settings.connect_seconds,
                        self.settings.security,
                    )
                    nursery.start_soon(self._applier.run)
                    nursery.start_soon(self.snapshotter.run)
                    nursery.start_soon(self._save_recovery_points)
                    nursery.start_soon(self._run_leader_epochs)
                    nursery.start_soon(driver.run, peers, nursery)
                    task_status.started()
        finally:
            self.high_watermark.close()

    async def stop(self, seconds: float = 2.0) -> None:
        """Hands over leadership if this node leads, then ends `run`.

        It waits at most `seconds` for a successor, and not at all once all other voters have also ended.
        """
        self._pending_successors = {
            voter.id for voter in self.voters.others(self.settings.identity.key)
        }
        with trio.move_on_after(seconds) as self._hand_over:
            if self._driver is not None and self.is_leader:
                epoch = self._driver.raft.epoch
                self._driver.submit(self._driver.raft.shutdown)
                await self.leader.wait_for(lambda leader: leader.epoch > epoch)
        self._scope.cancel()

    async def _open(self) -> Driver:
        """Loads the files on disk; blocks in threads."""
        election = ElectionState()
        if self._directory is not None:
            election = await run_blocking(load_election, self._directory)
        if isinstance(self.log, MetadataLog):
            # Data of an earlier process in the page cache is not durable yet, but the core treats it as durable.
            await run_blocking(self.log.log.flush)
        await self._applier.open()
        identity, timeouts = self.settings.identity, self.settings.timeouts
        now = trio.current_time()
        raft = Raft(identity, self.log, election, timeouts=timeouts, prng=self._prng, now=now)
        return Driver(
            raft,
            self.log,
            self._applier,
            directory=self._directory,
            group_commit=self._group_commit,
            metrics=self.metrics,
            committed=self._committed,
            done=self._publish,
        )

    async def _save_recovery_points(self) -> None:
        if not isinstance(self.log, MetadataLog):
            return
        while True:
            self.log.reach_recovery_point()
            await run_blocking(self.log.save_recovery_point)
            await trio.sleep(RECOVERY_POINT_SECONDS)

    # --- queries

    @property
    def log_end_offset(self) -> Offset:
        return self.log.end_offset

    @property
    def applied_offset(self) -> Offset:
        """Returns the offset below which all records have been passed to the listener."""
        return self._applier.applied.offset

    @property
    def leader_address(self) -> Peer | None:
        """Returns the address of the leader, if it is known."""
        return None if self._driver is None else self._driver.raft.leader_peer

    @property
    def voters(self) -> VoterSet:
        """Returns the newest set in the log, committed or not."""
        return self.log.history.voters

    def address_of(self, node_id: NodeId) -> Address | None:
        """Returns the address of the leader or a voter."""
        leader = self.leader_address
        if leader is not None and leader.id == node_id:
            return Address(leader.host, leader.port)
        voter = self.voters.get(node_id)
        if voter is None:
            return None
        return Address(*voter.peer_on(self.settings.identity.listener)[1:])

    @property
    def kraft_version(self) -> int:
        return self.log.history.kraft_version

    @property
    def is_leader(self) -> bool:
        return self._driver is not None and isinstance(self._driver.raft.role, Leader)

    def describe(self) -> QuorumStatus:
        """Returns the state of the quorum as this node knows it; replicas only if it leads."""
        ensure(self._driver is not None, "the node runs")
        assert self._driver is not None
        return status_of(self._driver.raft, trio.current_time(), now_ms())

    def traffic(self) -> ChannelTraffic:
        """Returns counts of the requests of this replica to other replicas, and of the responses."""
        return ChannelTraffic() if self._peers is None else self._peers.traffic()

    async def wait_caught_up(self) -> None:
        """Waits until all records are applied that were committed when a leader first answered (`broker.starts` uses
        this).
        """
        await self.leader.wait_for(lambda leader: leader.leader_id is not None)
        await self.high_watermark.wait_reached(Offset(1))
        await self._applier.applied.wait_reached(self.high_watermark.offset)

    def propose(
        self, records: Sequence[Message], epoch: LeaderEpoch, batch: bytes | None = None
    ) -> Offset:
        """Appends the records as one atomic batch; returns the last offset. They are committed when `high_watermark`
        has passed it, or never if the leadership ends before. `batch` is the result of `encode` for them, if there is
        one.

        Raises:
            NotLeaderError: this node does not lead `epoch`.
            KafkaError: see `encode`; RECORD_LIST_TOO_LARGE; REQUEST_TIMED_OUT if too many bytes are uncommitted
                already.
        """
        driver = self._leading_driver(epoch)
        if batch is None:
            batch = at_once(self.encode(records))
        self._check_size(batch)
        try:
            base_offset = driver.raft.propose(batch, len(records), epoch)
        except NotLeader:
            raise NotLeaderError from None
        now = time.monotonic()
        self._uncommitted.append((base_offset + len(records), len(batch), now))
        self._uncommitted_bytes += len(batch)
        self.metrics.appended.record(len(records), now)
        self._applier.proposed(base_offset, epoch, records)
        driver.proposed()
        return base_offset + len(records) - 1

    def upgrade_kraft_version(
        self, level: int, epoch: LeaderEpoch, *, validate_only: bool = False
    ) -> None:
        """Makes a static quorum dynamic: appends level 1 and the voters, which take effect immediately.

        Raises:
            NotLeaderError: this node does not lead `epoch`.
            KafkaError: INVALID_UPDATE_VERSION; the message gives the reason.
        """
        driver = self._leading_driver(epoch)
        try:
            driver.raft.upgrade_kraft_version(level, epoch, validate_only=validate_only)
        except NotLeader:
            raise NotLeaderError from None
        except UpgradeRefused as refusal:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, str(refusal)) from None
        driver.proposed()

    def _leading_driver(self, epoch: LeaderEpoch) -> Driver:
        leading = self._leading.value
        if self._driver is None or leading is None or leading.epoch != epoch:
            raise NotLeaderError
        return self._driver

    def encode(self, records: Sequence[Message]) -> Steps[bytes]:
        """Returns the batch that `propose` writes.

        Raises:
            KafkaError: INVALID_REQUEST if a value is too long for a record; RECORD_LIST_TOO_LARGE as soon as the
                records exceed a batch.
        """
        timestamp_ms = now_ms()
        builder = BatchBuilder()
        size = 0
        for record in records:
            value = self._encode_one(record)
            if (size := size + len(value)) > BATCH_BYTES_MAX:
                raise _too_large(size)
            builder.add(NewRecord(None, value, timestamp_ms))
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
            raise _too_large(len(batch))
        if self._uncommitted_bytes + len(batch) > UNCOMMITTED_BYTES_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "too many changes of metadata wait for a majority"
            )

    def peer_down(self, node_id: NodeId) -> None:
        """Handles the end of a node's process: its connection broke, and every address refuses new ones."""
        self._pending_successors.discard(node_id)
        if self._hand_over is not None and not self._pending_successors:
            self._hand_over.cancel()
        if self._driver is not None:
            self._driver.submit(partial(self._driver.raft.peer_down, node_id))

    def resign(self) -> None:
        """Resigns if this node leads; the quorum elects a leader again, possibly this node."""
        if self._driver is not None:
            self._driver.submit(self._driver.raft.resign)

    def handle(self, request: core.Request) -> PendingResponse[core.AnyResponse]:
        """Passes a request to the core now; returns its response, which completes later.

        Raises:
            KafkaError: BROKER_NOT_AVAILABLE.
        """
        if self._driver is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the quorum's node does not run")
        return self._driver.handle(request)

    # --- callbacks of the driver

    def _committed(self, offset: Offset) -> None:
        now = time.monotonic()
        while self._uncommitted and self._uncommitted[0][0] <= offset:
            _, size, began = self._uncommitted.popleft()
            self._uncommitted_bytes -= size
            self.metrics.commit_times.observe(now - began, now)
        self.high_watermark.advance(offset)
        if self.is_leader or not self.settings.identity.can_vote:
            self._applier.wake()
        else:  # our next fetch is urgent for the leader; the application of records is not
            self._applier.wake_later()
        end_offset = self.log.refetch_end
        if end_offset is not None and offset >= end_offset:
            assert isinstance(self.log, MetadataLog)
            events.METADATA_LOG_MENDED.log(log, offset=end_offset)
            self.log.refetch.clear()

    def _publish(self, raft: Raft) -> None:
        """Publishes the leader to the process, if the leader or our role has changed."""
        role_and_leader = raft.role_and_leader
        if role_and_leader == self._published:
            return
        self._published = role_and_leader
        self.metrics.follow(raft)
        known = self.leader.value
        if known.epoch != raft.epoch or known.leader_id != raft.leader_id:
            role_text = describe(raft.role)
            events.QUORUM_ROLE.log(log, node=self.settings.identity.node_id, role=role_text)
            self.leader.set(LeaderAndEpoch(raft.leader_id, raft.epoch))
        role = raft.role
        led = role.epoch if isinstance(role, Leader) else None
        leading = self._leading.value
        if led != (None if leading is None else leading.epoch):
            self._uncommitted.clear()
            self._uncommitted_bytes = 0
            self._applier.forget_proposed()
            self._leading.set(
                Leading(role.epoch, role.start_offset) if isinstance(role, Leader) else None
            )

    # --- leadership

    async def _run_leader_epochs(self) -> None:
        """Runs one block for each epoch that this node leads; its tasks have ended before the next block starts."""
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


def _too_large(size: int) -> KafkaError:
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"{size} bytes in one change of metadata, more than {BATCH_BYTES_MAX}",
    )
