"""A dynamic quorum over real sockets and directories: it grows and shrinks, restarts, and writes its voters into
snapshots.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from tests.cluster.nodes import CLUSTER_ID, until
from tests.cluster.quorum_nodes import HANDLERS, Member, QuorumNodes
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.ports import HOST, port_of, reserve
from trimaran.quorum.formatting.storage import FirstVoters, format_paths
from trimaran.quorum.handlers.add_raft_voter import add_raft_voter
from trimaran.quorum.handlers.fetch import fetch
from trimaran.quorum.handlers.remove_raft_voter import remove_raft_voter
from trimaran.quorum.handlers.update_raft_voter import update_raft_voter
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import Identity, Peer, ReplicaKey, Timeouts, VoterEndpoint
from trimaran.quorum.raft.voters import DYNAMIC_QUORUM, Voter, VoterSet
from trimaran.quorum.raft_log.metadata_log import open_metadata_log
from trimaran.quorum.replica.quorum_state_file import FILE_NAME
from trimaran.quorum.replica.snapshot_writer import SnapshotContent
from trimaran.wire.errors import ErrorCode
from trimaran.wire.records.topics import TopicRecord
from trimaran.wire.transport.dispatch.api_versions import Features
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.server.server import Listener, serve_listener

# A leader gives up a change of voters after `request`; a busy machine may need longer than Kafka's two seconds.
PATIENT = Timeouts(request=15.0, fetch=10.0)
FEATURES = Features(supported={"kraft.version": (0, 1)})


class DynamicCluster(QuorumNodes):
    """Controllers that know each other's addresses as bootstrap servers; the first `voters` are formatted as voters."""

    voters_at_first = 1
    auto_join = False
    cluster_id = CLUSTER_ID

    def identity(self, node_id: int) -> Identity:
        peer = self.voters[node_id]
        return Identity(
            node_id,
            key(node_id).directory_id,
            self.cluster_id,
            bootstrap=tuple(Peer(-2 - i, p.host, p.port) for i, p in self.voters.items()),
            endpoints=(VoterEndpoint("CONTROLLER", peer.host, peer.port),),
            listener="CONTROLLER",
            is_controller=True,
            auto_join=self.auto_join,
        )

    def registry(self) -> Registry[Member]:
        changes = (add_raft_voter, remove_raft_voter, update_raft_voter)
        return Registry((*HANDLERS, *changes), features=lambda _member: FEATURES)

    def _directory(self, node_id: int) -> LogDirectory:
        path = self.root / f"node-{node_id}"
        if not path.exists():
            format_paths([path], CLUSTER_ID, node_id, quorum=self._first_voters(path, node_id))
            identity = MetaProperties.load(path)
            replace(identity, directory_id=key(node_id).directory_id).save(path)
        return LogDirectory(path, now_ms=now_ms)

    def _first_voters(self, path: Path, node_id: int) -> FirstVoters | None:
        if node_id > self.voters_at_first:
            return None
        ids = range(1, self.voters_at_first + 1)
        voters = VoterSet.of(Voter(key(i), self.identity(i).endpoints, 0, 1) for i in ids)
        return FirstVoters(path, voters)

    async def change(self, request: core.Request) -> core.ChangeResponse:
        answer = await (await self.leader()).node.handle(request).wait()
        assert isinstance(answer, core.ChangeResponse)
        return answer

    async def add(self, node_id: int) -> core.ChangeResponse:
        """Adds a voter that the leader has seen in sync: a lagging one is refused."""
        leader = await self.leader()
        await until(lambda: has_seen_in_step(leader, node_id))
        endpoints = self.identity(node_id).endpoints
        return await self.change(
            core.AddVoterRequest(cluster_id=CLUSTER_ID, voter=key(node_id), endpoints=endpoints)
        )

    async def remove(self, node_id: int) -> core.ChangeResponse:
        return await self.change(core.RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=key(node_id)))

    def agree_on(self, *ids: int) -> bool:
        return all(member.node.voters.ids == ids for member in self.members.values())


def has_seen_in_step(leader: Member, node_id: int) -> bool:
    observers = leader.node.describe().observers
    return any(o.id == node_id and o.last_caught_up_ms > 0 for o in observers)


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id]) * 16)


async def test_quorum_grows_shrinks_and_restarts(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            cluster = DynamicCluster(tmp_path, nursery, 3, PATIENT)
            for i in (1, 2, 3):
                await cluster.start(i)
            await cluster.propose("a")
            await until(lambda: all(m.names.names == ["a"] for m in cluster.members.values()))
            for i in (2, 3):
                assert (await cluster.add(i)).error == 0
            await cluster.propose("b")
            await until(lambda: cluster.agree_on(1, 2, 3))
            assert (await cluster.remove(1)).error == 0
            await cluster.leader(above=1)
            await cluster.propose("c")
            await until(lambda: cluster.agree_on(2, 3))
            await until(lambda: cluster.members[1].names.names == ["a", "b", "c"])
            for member in cluster.members.values():
                await member.kill()
            assert (
                '"data_version":1'
                in (tmp_path / f"node-2/__cluster_metadata-0/{FILE_NAME}").read_text()
            )
            for i in (1, 2, 3):
                await cluster.start(i)
            await cluster.propose("d")
            await until(lambda: cluster.members[1].names.names == ["a", "b", "c", "d"])
            assert cluster.agree_on(2, 3)
            cluster.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def listening(registry: Registry[Any], context: Any) -> AsyncIterator[int]:
    """Yields the port of a separate server."""
    listener = Listener.bind("CONTROLLER", HOST, 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_listener, [listener], registry, context)
        yield listener.address[1]
        nursery.cancel_scope.cancel()


async def test_voter_is_written_only_after_its_controller_answers(
    tmp_path: Path,
) -> None:
    """Updates of voter 2, and additions of node 3: at the address of a broker, of another voter, of another cluster, at
    an unused one, and finally at its own.
    """
    dead = reserve()
    async with trio.open_nursery() as nursery:
        at_once = replace(PATIENT, retry_backoff=0.0, retry_backoff_max=0.0)
        cluster = DynamicCluster(tmp_path, nursery, 3, at_once)
        stranger = DynamicCluster(tmp_path / "other", nursery, 2, PATIENT)
        stranger.cluster_id = "another-cluster-of-ours"
        with trio.fail_after(60):
            for i in (1, 2, 3):
                await cluster.start(i)
            other = await stranger.start(2)
            await cluster.propose("a")
            assert (await cluster.add(2)).error == 0
            leader = await cluster.leader()
            await until(lambda: has_seen_in_step(leader, 3))
            broker = Registry((fetch,), features=lambda _member: FEATURES)
            moved, third = cluster.members[2], cluster.members[3]
            async with (
                listening(broker, moved) as no_controller,
                listening(cluster.registry(), moved) as at_2,
                listening(cluster.registry(), third) as at_3,
                listening(stranger.registry(), other) as elsewhere,
            ):
                wrong = {
                    no_controller: ErrorCode.INVALID_REQUEST,
                    elsewhere: ErrorCode.INCONSISTENT_CLUSTER_ID,
                    port_of(dead): ErrorCode.REQUEST_TIMED_OUT,
                }
                answers = {}
                for port in (*wrong, at_3, at_2):
                    answer = await leader.node.handle(update(leader, 2, port)).wait()
                    answers[port] = ErrorCode(answer.error)
                assert answers == wrong | {
                    at_3: ErrorCode.INVALID_REQUEST,
                    at_2: ErrorCode.NONE,
                }
                assert leader.node.voters.by_id[2].endpoints[0].port == at_2
                await leader.node.high_watermark.wait_reached(leader.node.log_end_offset)
                answers = {}
                for port in (*wrong, at_2, at_3):
                    answers[port] = ErrorCode((await cluster.change(addition(3, port))).error)
                assert answers == wrong | {
                    at_2: ErrorCode.INVALID_REQUEST,
                    at_3: ErrorCode.NONE,
                }
                assert leader.node.is_leader
        for item in (cluster, stranger):
            item.close()
        dead.close()
        nursery.cancel_scope.cancel()


def addition(node_id: int, port: int) -> core.AddVoterRequest:
    return core.AddVoterRequest(
        CLUSTER_ID, key(node_id), endpoints=(VoterEndpoint("CONTROLLER", HOST, port),)
    )


def update(leader: Member, node_id: int, port: int) -> core.UpdateVoterRequest:
    endpoints = (VoterEndpoint("CONTROLLER", HOST, port),)
    epoch = leader.node.leader.value.epoch
    return core.UpdateVoterRequest(CLUSTER_ID, epoch, key(node_id), endpoints, 0, 1)


async def test_controller_joins_automatically_from_snapshot(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            cluster = DynamicCluster(tmp_path, nursery, 2, PATIENT)
            cluster.auto_join = True
            await cluster.start(1)
            await cluster.propose("a")
            await write_snapshot(await cluster.leader())
            cluster.timeouts = replace(
                cluster.timeouts, fetch=0.3
            )  # the interval at which it checks the voters
            joining = await cluster.start(2)
            await until(lambda: cluster.agree_on(1, 2))
            assert joining.names.snapshots == 1
            await cluster.propose("b")
            await until(lambda: joining.names.names == ["a", "b"])
            cluster.close()
            nursery.cancel_scope.cancel()
    log = open_metadata_log(LogDirectory(tmp_path / "node-2", now_ms=now_ms), LogConfig())
    assert log.history.voters.ids == (1, 2)
    assert log.history.kraft_version == DYNAMIC_QUORUM
    assert log.history.voters_at(log.start_offset - 1).ids == (1,), "from the snapshot"


async def write_snapshot(member: Member) -> None:
    """Writes a snapshot of everything so far, like the snapshotter, and removes the log before it."""
    node = member.node
    end = node.applied_offset
    records = [TopicRecord(name=name, topic_id=bytes(16)) for name in member.names.names]
    content = SnapshotContent(end, member.names.epochs[-1], 7, records, 30)
    await node.snapshotter.write(content)
    node.log.clean_before(node.log.latest_snapshot, now_ms())
