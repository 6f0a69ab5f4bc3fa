"""Drives the Raft core: passes it one input at a time and does all the resulting work, in the order of its `Ready`
values.

Usually this happens within the step of the task with the input, because a turn of the loop for each input costs more
than the work. `run` does the work that blocks (a vote file, a snapshot), and appends proposals together with all others
of their turn; inputs that arrive meanwhile wait. Source: Kafka's `KafkaRaftClientDriver`.

Failures: a storage error or a violated invariant, in any task's step, ends `run`; the process must end with it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

import trio

from trimaran.log.durability.group_commit import GroupCommit
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.errors import WrongCluster
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum import events
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.core import Raft
from trimaran.quorum.raft.ready import FollowerAppend, LeaderAppend, Ready, Send
from trimaran.quorum.raft.types import Identity, Peer, ensure
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import MetadataLog, validate_fetched
from trimaran.quorum.replica.appliers import Applier
from trimaran.quorum.replica.metrics import QuorumMetrics
from trimaran.quorum.replica.peers import CALL_ERRORS, Peers
from trimaran.quorum.replica.quorum_state_file import save_election
from trimaran.quorum.replica.snapshot_fetch import SnapshotReceiver
from trimaran.quorum.translate.responses import read_response
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import Address, Offset
from trimaran.wire.schema import Message
from trimaran.wire.transport.client.node_connection import OnResponse
from trimaran.wire.transport.scheduling.alarm import Alarm
from trimaran.wire.transport.scheduling.events import AutoResetEvent


class PendingRequests:
    """Requests of other nodes that wait for the core's response, by token. Their number is bounded by the connections,
    each of which has few requests in flight. A request is forgotten when no task holds its response any longer.
    """

    __slots__ = ("_closed", "_next_token", "_pending")

    def __init__(self) -> None:
        self._pending = WeakValueDictionary[int, PendingResponse[core.AnyResponse]]()
        self._next_token = 0
        self._closed = False

    def open(self) -> tuple[int, PendingResponse[core.AnyResponse]]:
        """Returns a token for the core, and the pending response. Raises KafkaError BROKER_NOT_AVAILABLE once
        closed.
        """
        if self._closed:
            raise _stopped()
        self._next_token += 1
        pending = self._pending[self._next_token] = PendingResponse()
        return self._next_token, pending

    def complete(self, token: int, response: core.AnyResponse) -> None:
        """Completes a request; an unknown token belongs to a forgotten request."""
        pending = self._pending.pop(token, None)
        if pending is not None:
            pending.complete(response)

    def close(self) -> None:
        """Fails all present and future requests with BROKER_NOT_AVAILABLE."""
        self._closed = True
        for pending in list(self._pending.values()):
            pending.fail(_stopped())


def _stopped() -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the node has stopped")


class ClusterIdCheck:
    """Ends the process if its directory belongs to another cluster: if a majority reports that before any node has
    accepted us.

    A single node may itself belong to another cluster.
    """

    __slots__ = ("_addresses", "_identity")

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._addresses: set[Address] | None = set()

    def note(self, peer: Peer, response: core.AnyResponse, voter_count: int) -> None:
        """Notes a response; raises WrongCluster as described above."""
        if self._addresses is None:
            return
        if response.error != ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._addresses = None
            return
        self._addresses.add(Address(peer.host, peer.port))
        if 2 * len(self._addresses) > max(1, voter_count or len(self._identity.bootstrap)):
            listed = ", ".join(str(address) for address in sorted(self._addresses))
            raise WrongCluster(
                f"this directory is of cluster {self._identity.cluster_id}, {listed} of another"
            )


log = logging.getLogger(__name__)

# The maximum number of requests of other nodes that wait for their turn. Each connection has few, so only a flood of
# requests can reach this number.
INBOX_MAX = 20_000

# Responses of a peer that does not support the request.
_UNSUPPORTED_RESPONSES: dict[type, core.AnyResponse] = {
    core.VoteRequest: core.VoteResponse(error=ErrorCode.UNSUPPORTED_VERSION),
    core.BeginQuorumEpochRequest: core.BeginQuorumEpochResponse(
        error=ErrorCode.UNSUPPORTED_VERSION
    ),
    core.UpdateVoterRequest: core.UpdateVoterResponse(error=ErrorCode.UNSUPPORTED_VERSION),
}
Input = Callable[[float], object]
"""A method of the core that takes the present time."""


class Driver:
    """The driver of one open log. Inputs that arrive before `run` wait for it; those after its end are never processed.

    Args:
        directory: the directory of the vote file; None for a node without a disk.
        group_commit: fsyncs the log; None for a log in memory.
        committed: called with the new high watermark.
        done: called when a `Ready` is done: the leader may have changed.
    """

    def __init__(
        self,
        raft: Raft,
        metadata_log: MetadataLog | MemoryLog,
        applier: Applier,
        *,
        directory: Path | None,
        group_commit: GroupCommit | None,
        metrics: QuorumMetrics,
        committed: Callable[[Offset], object],
        done: Callable[[Raft], object],
    ) -> None:
        self.raft = raft
        self._log = metadata_log
        self._applier = applier
        self._directory = directory
        self._group_commit = group_commit
        self._metrics = metrics
        self._on_committed = committed
        self._on_done = done
        self._inbox: deque[Input] = deque()
        self._pending_requests = PendingRequests()
        self._snapshot_fetch = SnapshotReceiver(metadata_log, applier)
        self._cluster_id_check = ClusterIdCheck(raft.identity)
        self._alarm = Alarm(lambda: self.submit(raft.handle_timeout))
        # If False, the task with an input does the work itself. True while another task works, before and after `run`,
        # and while `run` waits for a disk.
        self._is_busy = True
        self._unfinished: Ready | None = None
        self._failure: Exception | None = None
        self._wanted = AutoResetEvent()
        self._peers: Peers
        self._nursery: trio.Nursery

    async def run(self, peers: Peers, nursery: trio.Nursery) -> None:
        """Works until cancelled or until an error."""
        self._peers, self._nursery = peers, nursery
        nursery.start_soon(self._alarm.run)
        try:
            self._drain()
            while True:
                await self._wanted.wait()
                if self._failure is not None:
                    raise self._failure
                if self._unfinished is not None:
                    ready, self._unfinished = self._unfinished, None
                    await self._wait_for(ready)
                    self._finish(ready)
                self._drain()
        finally:
            self._is_busy = True
            self._pending_requests.close()

    # --- inputs

    def submit(self, step: Input) -> None:
        """Passes an input to the core; it has been processed when this returns, unless it must wait."""
        self._inbox.append(step)
        if not self._is_busy:
            self._drain()

    def proposed(self) -> None:
        """Schedules the append of a proposal that the core has received, together with all others of this turn."""
        self._wanted.set()

    def handle(self, request: core.Request) -> PendingResponse[core.AnyResponse]:
        """Passes a request to the core now; returns its response, which completes later.

        Raises:
            KafkaError: BROKER_NOT_AVAILABLE if too many requests wait, or the node has stopped.
        """
        if len(self._inbox) >= INBOX_MAX:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the quorum's node is too busy")
        token, pending = self._pending_requests.open()
        self.submit(partial(self.raft.receive, token, request))
        return pending

    # --- the work

    def _drain(self) -> None:
        """Works until no work is left, or until work must block."""
        self._is_busy = True
        try:
            while (ready := self._next()) is not None:
                if ready.snapshot is not None or self._has_vote_to_save(ready):
                    self._unfinished = ready
                    self._wanted.set()
                    return
                self._finish(ready)
        except Exception as error:  # noqa: BLE001 - it is not the fault of who brought the input
            self._failure = error
            self._wanted.set()
            return
        self._is_busy = False
        self._alarm.set(self.raft.deadline())

    def _next(self) -> Ready | None:
        """Returns the next work of the core, after passing inputs to it until there is work."""
        while (ready := self.raft.ready()) is None and self._inbox:
            self._inbox.popleft()(trio.current_time())
        return ready

    def _has_vote_to_save(self, ready: Ready) -> bool:
        return ready.election is not None and self._directory is not None

    async def _wait_for(self, ready: Ready) -> None:
        """Does the part of the work that blocks."""
        if self._directory is not None and ready.election is not None:
            await run_blocking(save_election, self._directory, ready.election, self._log.history)
        if ready.snapshot is not None:
            ensure(ready.truncate_to is None, "an answer is a piece of a snapshot or truncates")
            await self._snapshot_fetch.take(ready.snapshot)

    def _finish(self, ready: Ready) -> None:
        """Does the remaining work."""
        if ready.truncate_to is not None:
            self._truncate_to(ready.truncate_to)
        if ready.append is not None:
            self._append(ready.append)
        if ready.needs_flush:
            assert isinstance(self._log, MetadataLog)
            assert self._group_commit is not None
            self._group_commit.mark_dirty(self._log.log, self._on_flushed)
        for reply in ready.replies:
            self._pending_requests.complete(reply.token, self._fill(reply.response))
        for send in ready.sends:
            self._peers.send(send.to, send.request, send.timeout, self._response_callback(send))
        if ready.committed is not None:
            self._on_committed(ready.committed)
        if ready.append or ready.snapshot or ready.truncate_to is not None:
            self.raft.log_changed(trio.current_time())
        self._on_done(self.raft)

    def _truncate_to(self, offset: Offset) -> None:
        applied = self._applier.applied.offset
        ensure(offset >= applied, "R7 nothing applied is truncated", offset, applied)
        self._log.truncate_to(offset)

    def _append(self, append: LeaderAppend | FollowerAppend) -> None:
        if isinstance(append, FollowerAppend):
            end = self._log.end_offset
            self._log.append_fetched(append.records)
            self._metrics.fetched.record(self._log.end_offset - end, time.monotonic())
        else:
            assert isinstance(self._log, MetadataLog)
            self._log.append_as_leader(append, now_ms())

    # --- flushes

    def _on_flushed(self, _offset: Offset) -> None:
        self.submit(self._flushed)

    def _flushed(self, now: float) -> None:
        # The present value of the log, because a truncation since the flush may have lowered it.
        assert isinstance(self._log, MetadataLog)
        self.raft.flushed(self._log.log.flushed_offset, now)

    # --- outgoing responses

    def _fill(self, response: core.AnyResponse) -> core.AnyResponse:
        """Reads the bytes that the core requests into a response."""
        if isinstance(response, core.FetchResponse) and response.read is not None:
            assert isinstance(self._log, MetadataLog)
            read = response.read
            data = self._log.read_bytes(read.offset, read.max_bytes, self._log.end_offset)
            return core.with_records(response, data)
        if isinstance(response, core.FetchSnapshotResponse) and response.read is not None:
            assert isinstance(self._log, MetadataLog)
            return core.with_data(response, self._log.snapshots.read(*response.read))
        return response

    # --- incoming responses

    def _response_callback(self, send: Send) -> OnResponse:
        return lambda found: self.submit(partial(self._on_response, send, found))

    def _on_response(self, send: Send, found: Message | Exception, now: float) -> None:
        response = self._parse_response(send, found)
        if response is None:
            self.raft.request_failed(send.token, now)
        elif isinstance(response, core.FetchSnapshotResponse) and len(response.data):
            self._nursery.start_soon(self._take_snapshot, send.token, response)
        else:
            self.raft.receive(send.token, response, now)

    def _parse_response(self, send: Send, found: Message | Exception) -> core.AnyResponse | None:
        """Parses a response, so that no damaged or unexpected data reaches the core; None counts as no response."""
        try:
            if isinstance(found, Exception):
                raise found
            response = read_response(found)
            self._cluster_id_check.note(send.to, response, len(self._log.history.voters))
            return _checked(send, response)
        except VersionMismatch as error:
            events.QUORUM_PEER_REFUSED.log(log, peer=send.to, error=error)
            return _UNSUPPORTED_RESPONSES.get(type(send.request))
        except (*CALL_ERRORS, KafkaError) as error:
            log.debug("%s to %s: %r", send.request, send.to, error)
            return None

    async def _take_snapshot(self, token: int, response: core.FetchSnapshotResponse) -> None:
        step: Input = partial(self.raft.request_failed, token)
        try:
            checked = await self._snapshot_fetch.check(response)
            step = partial(self.raft.receive, token, checked)
        except (RemoteProtocolError, KafkaError) as error:
            log.debug("a piece of a snapshot cannot be checked: %r", error)
        self.submit(step)


def _checked(send: Send, response: core.AnyResponse) -> core.AnyResponse:
    """Returns the response. Raises RemoteProtocolError or KafkaError if its records, or its part of a snapshot, are not
    the requested ones.
    """
    request = send.request
    if isinstance(response, core.FetchResponse) and len(response.records):
        assert isinstance(request, core.FetchRequest)
        epoch = max(response.epoch, request.epoch)
        records = validate_fetched(
            response.records, request.fetch_offset, epoch, request.last_fetched_epoch
        )
        return core.with_records(response, records)
    if isinstance(response, core.FetchSnapshotResponse) and len(response.data):
        assert isinstance(request, core.FetchSnapshotRequest)
        asked = (request.snapshot_id, request.position)
        if (response.snapshot_id, response.position) != asked:
            raise RemoteProtocolError(f"{response} answers {request}")
    return response
