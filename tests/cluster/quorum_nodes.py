"""Real quorum nodes over real sockets in one process, with directories of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from tests.cluster.nodes import CLUSTER_ID, format_directory
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.ports import HOST, port_of, reserve
from trimaran.quorum.handlers.begin_quorum_epoch import begin_quorum_epoch
from trimaran.quorum.handlers.describe_quorum import describe_quorum
from trimaran.quorum.handlers.end_quorum_epoch import end_quorum_epoch
from trimaran.quorum.handlers.fetch import fetch
from trimaran.quorum.handlers.fetch_snapshot import fetch_snapshot
from trimaran.quorum.handlers.vote import vote
from trimaran.quorum.raft.listener import CommittedBatch, LoadedSnapshot
from trimaran.quorum.raft.types import Identity, Peer, Timeouts, VoterEndpoint
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import open_metadata_log
from trimaran.quorum.replica.node import NodeSettings, QuorumNode
from trimaran.quorum.replica.snapshot_writer import SnapshotPolicy
from trimaran.wire.records.topics import TopicRecord
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.server.server import Listener, serve_listener

HANDLERS = (vote, begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, describe_quorum)


class Names:
    """A state machine that remembers the topic names of the log, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.epochs: list[int] = []
        self.leads: list[int] = []
        self.ended: list[int] = []
        self.snapshots = 0

    def apply_committed(self, batch: CommittedBatch) -> None:
        self.names += [r.name for r in batch.records if isinstance(r, TopicRecord)]
        self.epochs.append(batch.epoch)

    def load_snapshot(self, snapshot: LoadedSnapshot) -> None:
        self.names = [r.name for r in snapshot.records if isinstance(r, TopicRecord)]
        self.snapshots += 1

    async def lead(self, epoch: int) -> None:
        self.leads.append(epoch)
        try:
            await trio.sleep_forever()
        finally:
            self.ended.append(epoch)


@dataclass
class Member:
    """One node with its server; `scope.cancel()` is a kill."""

    node: QuorumNode
    names: Names
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    gone: trio.Event = field(default_factory=trio.Event)

    async def kill(self) -> None:
        self.scope.cancel()
        await self.gone.wait()


class QuorumNodes:
    """Voters 1…n on free ports; every node keeps its port over restarts."""

    def __init__(
        self, root: Path, nursery: trio.Nursery, size: int, timeouts: Timeouts | None
    ) -> None:
        self.root = root
        self.nursery = nursery
        self.timeouts = timeouts or Timeouts()
        self.policy = SnapshotPolicy()
        self._ports = {i: reserve() for i in range(1, size + 1)}
        self.voters = {i: Peer(i, HOST, port_of(port)) for i, port in self._ports.items()}
        self._listeners = {i: self._bind(i) for i in self.voters}
        self.members: dict[int, Member] = {}

    def identity(self, node_id: int) -> Identity:
        peer = self.voters.get(node_id)
        endpoints = (VoterEndpoint("CONTROLLER", peer.host, peer.port),) if peer else ()
        return Identity(
            node_id, bytes([node_id]) * 16, CLUSTER_ID, self.voters, endpoints=endpoints
        )

    def registry(self) -> Registry[Member]:
        return Registry(HANDLERS)

    async def start(self, node_id: int) -> Member:
        ready: trio.Event = trio.Event()
        self.nursery.start_soon(self._run, node_id, ready)
        await ready.wait()
        return self.members[node_id]

    async def _run(self, node_id: int, ready: trio.Event) -> None:
        directory = self._directory(node_id)
        group_commit = GroupCommit(directory)
        has_others = len(self.voters) > 1
        log = open_metadata_log(
            directory, LogConfig(max_message_bytes=8 << 20), lambda _history: has_others
        )
        peer = self.voters.get(node_id)
        names = Names()
        node = QuorumNode(
            NodeSettings(self.identity(node_id), self.timeouts, self.policy),
            log,
            names,
            directory=log.log.directory,
            group_commit=group_commit,
        )
        member = self.members[node_id] = Member(node, names)
        try:
            with member.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(group_commit.run)
                    await nursery.start(node.run)
                    if peer is not None:
                        await nursery.start(
                            serve_listener, [self._listener(node_id)], self.registry(), member
                        )
                    ready.set()
        finally:
            directory._lock.release()  # as at the end of a process, nothing is flushed or recorded
            member.gone.set()

    def close(self) -> None:
        """Closes the listeners of nodes that were never started, and gives the ports back."""
        for listener in self._listeners.values():
            listener.socket.close()
        for port in self._ports.values():
            port.close()

    def _listener(self, node_id: int) -> Listener:
        return self._listeners.pop(node_id, None) or self._bind(node_id)

    def _bind(self, node_id: int) -> Listener:
        peer = self.voters[node_id]
        return Listener.bind("CONTROLLER", peer.host, peer.port)

    def _directory(self, node_id: int) -> LogDirectory:
        path = self.root / f"node-{node_id}"
        format_directory(path, node_id, bytes([node_id]) * 16)
        return LogDirectory(path, now_ms=now_ms)

    async def start_mirror(self, bootstrap: tuple[Peer, ...]) -> Member:
        names = Names()
        node = QuorumNode(
            NodeSettings(Identity(-1, cluster_id=CLUSTER_ID, bootstrap=bootstrap), self.timeouts),
            MemoryLog(),
            names,
        )
        await self.nursery.start(node.run)
        return Member(node, names)

    async def leader(self, *, above: int = 0) -> Member:
        """Returns the member that leads an epoch above `above`, once its state machine has been notified, too."""
        while True:
            for member in self.members.values():
                node = member.node
                if (
                    not member.gone.is_set()
                    and node.is_leader
                    and member.names.leads[-1:] == [node.leader.value.epoch]
                ) and node.leader.value.epoch > above:
                    return member
            await trio.sleep(0.002)

    async def propose(self, *names: str) -> None:
        """Proposes topics at the leader and waits until they are committed."""
        member = await self.leader()
        node = member.node
        records = [TopicRecord(name=name, topic_id=bytes(16)) for name in names]
        last = node.propose(records, node.leader.value.epoch)
        await node.high_watermark.wait_reached(last + 1)


@asynccontextmanager
async def quorum_nodes(
    root: Path, size: int = 3, timeouts: Timeouts | None = None
) -> AsyncIterator[QuorumNodes]:
    async with trio.open_nursery() as nursery:
        cluster = QuorumNodes(root, nursery, size, timeouts)
        try:
            yield cluster
        finally:
            cluster.close()
            nursery.cancel_scope.cancel()
