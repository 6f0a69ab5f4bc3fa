"""Three real nodes over real sockets, with real directories: elect, commit, fail over, restart, snapshot, mirror."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from tests.cluster.nodes import until
from tests.cluster.quorum_nodes import Member, Names, QuorumNodes, quorum_nodes
from trimaran.node.runtime.errors import NotLeaderError, WrongCluster
from trimaran.quorum.raft.types import Identity, Timeouts
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.partition import DIRECTORY_NAME
from trimaran.quorum.raft_log.recovery_point import RecoveryPoint
from trimaran.quorum.replica.node import BATCH_BYTES_MAX, NodeSettings, QuorumNode
from trimaran.quorum.replica.quorum_state_file import FILE_NAME, QuorumStateError, load_election
from trimaran.quorum.replica.snapshot_writer import SnapshotContent
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.topics import TopicRecord

pytestmark = pytest.mark.slow

# So long that a busy machine deposes no leader, and that a successor within a test's time limit cannot have waited for
# a fetch timeout.
PATIENT = Timeouts(fetch=60.0)


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=bytes(16))


async def start_all(cluster: QuorumNodes) -> None:
    for node_id in cluster.voters:
        await cluster.start(node_id)


async def until_all(cluster: QuorumNodes, names: list[str]) -> None:
    await until(lambda: all(m.names.names == names for m in cluster.members.values()))


async def test_committed_records_are_applied_by_all(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, timeouts=PATIENT) as cluster:
            await start_all(cluster)
            await cluster.propose("a", "b")
            await cluster.propose("c")
            await until_all(cluster, ["a", "b", "c"])
            status = (await cluster.leader()).node.describe()
            assert status.role == "Leader"
            assert len(status.voters) == 3
            assert (
                status.high_watermark == status.log_end_offset == 4
            )  # the start of one epoch, three topics


async def test_proposals_of_one_turn_share_a_round(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 1) as cluster:
            await start_all(cluster)
            node = (await cluster.leader()).node
            epoch = node.leader.value.epoch
            offsets = [node.propose([topic(f"t{i}")] * 2, epoch) for i in range(5)]
            assert offsets == [2, 4, 6, 8, 10]
            assert node.log_end_offset == 1, "nothing is appended before the turn ends"
            await node.high_watermark.wait_reached(11)
            with pytest.raises(NotLeaderError):
                node.propose([topic("x")], epoch + 1)
            with pytest.raises(KafkaError, match="bytes in one change"):
                node.propose([topic("x" * 30_000)] * (BATCH_BYTES_MAX // 30_000 + 1), epoch)


async def test_oversized_change_stops_encoding_at_limit(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 1) as cluster:
            await start_all(cluster)
            node = (await cluster.leader()).node
            done: list[int] = []
            with pytest.raises(KafkaError, match="bytes in one change") as caught:
                done.extend(node.encode([topic("x" * 30_000)] * 1_000))
            assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
            assert sum(done) == BATCH_BYTES_MAX // 30_020  # a record has 20 bytes besides the name


async def test_proposals_linger_and_are_committed_together(tmp_path: Path) -> None:
    """A linger of an hour: only a full batch of proposals ends it."""
    timeouts = Timeouts(append_linger=3600.0, linger_max_bytes=3000)
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 1, timeouts) as cluster:
            await start_all(cluster)
            member = await cluster.leader()
            node, epoch = member.node, member.node.leader.value.epoch
            assert node.propose([topic("a" * 1000)], epoch) == 1
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert node.log_end_offset == 1, "it waits for company"
            assert node.propose([topic("b" * 1000), topic("c" * 1000)], epoch) == 3
            await node.high_watermark.wait_reached(4)
            await until(lambda: [name[0] for name in member.names.names] == ["a", "b", "c"])


async def test_killed_leader_is_succeeded_at_once(tmp_path: Path) -> None:
    """The election does not wait for a fetch timeout."""
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, timeouts=PATIENT) as cluster:
            await start_all(cluster)
            await cluster.propose("a")
            first = await cluster.leader()
            epoch = first.node.leader.value.epoch
            await first.kill()
            second = await cluster.leader(above=epoch)
            await cluster.propose("b")
            assert second is not first
            assert first.names.ended == first.names.leads, "its epoch has unwound"


async def test_a_stopped_leader_hands_over(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, timeouts=PATIENT) as cluster:
            await start_all(cluster)
            await cluster.propose("a")
            first = await cluster.leader()
            epoch = first.node.leader.value.epoch
            await first.node.stop(seconds=60.0)
            await first.kill()
            assert await cluster.leader(above=epoch) is not first


async def test_all_records_survive_a_full_restart(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, timeouts=PATIENT) as cluster:
            await start_all(cluster)
            await cluster.propose("a")
            await until_all(cluster, ["a"])
            epoch = (await cluster.leader()).node.leader.value.epoch
            for member in cluster.members.values():
                member.scope.cancel()  # all at once, so that no survivor is elected
            for member in cluster.members.values():
                await member.gone.wait()
            elections = [load_election(tmp_path / f"node-{i}" / DIRECTORY_NAME) for i in (1, 2, 3)]
            assert [election.epoch for election in elections] == [epoch] * 3
            await start_all(cluster)
            await cluster.leader(above=epoch)
            await cluster.propose("b")
            await until_all(cluster, ["a", "b"])


async def with_a_snapshot(cluster: QuorumNodes) -> Member:
    """Runs two of three nodes with a snapshot of forty topics; returns the leader."""
    await cluster.start(1)
    await cluster.start(2)
    for i in range(40):
        await cluster.propose(f"t{i}")
    await until_all(cluster, [f"t{i}" for i in range(40)])
    leader = await cluster.leader()
    content = SnapshotContent(
        end_offset=leader.node.applied_offset,
        epoch=leader.names.epochs[-1],
        appended_at_ms=1,
        records=[topic(name) for name in leader.names.names],
        metadata_version=30,
    )
    for member in cluster.members.values():
        await member.node.snapshotter.write(content)
    return leader


async def test_a_new_node_begins_with_a_snapshot(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path) as cluster:
            leader = await with_a_snapshot(cluster)
            snapshot = leader.node.log.latest_snapshot
            assert snapshot is not None
            await cluster.propose("last")
            third = await cluster.start(3)
            await until_all(cluster, [f"t{i}" for i in range(40)] + ["last"])
            assert third.names.snapshots == 1
            assert third.node.log.start_offset == snapshot.offset
            await third.kill()
            third = await cluster.start(3)
            await until(lambda: third.names.names[-1:] == ["last"])
            assert third.names.snapshots == 1


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


async def test_a_damaged_snapshot_is_fetched_again(tmp_path: Path) -> None:
    """The log after it cannot replace it. Until everything is fetched again, the node neither votes nor leads, even
    after restarts.
    """
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path) as cluster:
            leader = await with_a_snapshot(cluster)
            third = await cluster.start(3)
            everything = [*leader.names.names, "last"]
            await cluster.propose("last")
            await until_all(cluster, everything)
            snapshot, end = third.node.log.latest_snapshot, third.node.log_end_offset
            assert snapshot is not None
            path = third.node.log.snapshots.path(snapshot)
            for member in list(cluster.members.values()):
                await member.kill()
            flip_a_bit(path)

            for _ in range(2):
                third = await cluster.start(3)
                assert (third.node.log_end_offset, third.node.log.refetch_end) == (0, end)
                assert third.names.names == []
                await third.kill()
            assert path.with_name(path.name + ".damaged").exists()

            third = await cluster.start(3)
            await cluster.start(1)
            await until(lambda: cluster.members[1].node.leader.value.epoch > 0)
            assert third.node.describe().role in ("Unattached", "Follower")
            await cluster.start(2)
            assert await cluster.leader() is not third, "it must not lead before it has all"
            await until_all(cluster, everything)
            await until(lambda: third.node.log.refetch_end is None)
            assert third.names.snapshots == 1
            await third.kill()
            third = await cluster.start(3)
            assert third.node.log.refetch_end is None
            assert third.node.log.start_offset == snapshot.offset
            await until_all(cluster, everything)


async def test_flipped_bit_after_crash_is_fetched_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R15: flushed data is fetched again; the recovery point is saved while the node runs."""
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path) as cluster:
            await start_all(cluster)
            everything = [f"t{i}" for i in range(10)]
            for name in everything:
                await cluster.propose(name)
            await until_all(cluster, everything)
            leader = await cluster.leader()
            number, member = next((i, m) for i, m in cluster.members.items() if m is not leader)
            path, end = member.node.log.log.directory, member.node.log_end_offset
            await until(lambda: RecoveryPoint(path).offset >= end)
            await member.kill()
            flip_a_bit(path / f"{0:020d}.log")
            member = await cluster.start(number)
            assert f"fetching it again up to {end}" in caplog.text
            await until(lambda: member.node.log.refetch_end is None)
            assert member.node.log_end_offset >= end
            await until_all(cluster, everything)


async def test_mirror_stores_nothing_on_disk(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path) as cluster:
            await start_all(cluster)
            await cluster.propose("a")
            # the mirror has only one address, a follower's
            leader = await cluster.leader()
            follower = next(i for i in cluster.voters if i != leader.node.settings.identity.node_id)
            mirror = await cluster.start_mirror((cluster.voters[follower]._replace(id=-2),))
            await mirror.node.wait_caught_up()
            await until(lambda: mirror.names.names == ["a"])
            await cluster.propose("b")
            await until(lambda: mirror.names.names == ["a", "b"])
            assert list(mirror.node.log.batches(0, 100)) == []
            assert mirror.node.leader.value == leader.node.leader.value
            assert leader.node.describe().observers == (), "id -1 stays invisible"


async def test_an_observer_on_disk_is_seen_and_restarts(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path) as cluster:
            await start_all(cluster)
            observer = await cluster.start(11)
            await cluster.propose("a")
            await until(lambda: observer.names.names == ["a"])
            leader = await cluster.leader()
            assert [observer.id for observer in leader.node.describe().observers] == [11]
            await observer.kill()
            observer = await cluster.start(11)
            await until(lambda: observer.names.names == ["a"])


async def test_node_with_damaged_vote_file_refuses_start(tmp_path: Path) -> None:
    async with quorum_nodes(tmp_path, 1) as cluster:
        member = await cluster.start(1)
        await cluster.leader()
        await member.kill()
    path = tmp_path / "node-1" / DIRECTORY_NAME / FILE_NAME
    path.write_text(path.read_text()[:-9])
    with pytest.RaisesGroup(QuorumStateError, flatten_subgroups=True):
        async with quorum_nodes(tmp_path, 1) as cluster:
            await cluster.start(1)


async def test_node_of_another_cluster_ends(tmp_path: Path) -> None:
    """A single voter that reports this may itself be the stranger; a majority is believed."""
    async with quorum_nodes(tmp_path) as cluster:
        await start_all(cluster)
        await cluster.leader()
        stranger = Identity(-1, cluster_id="another", bootstrap=tuple(cluster.voters.values()))
        node = QuorumNode(NodeSettings(stranger), MemoryLog(), Names())
        with trio.fail_after(60), pytest.RaisesGroup(WrongCluster, flatten_subgroups=True):
            await node.run()
