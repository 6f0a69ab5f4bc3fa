"""When a snapshot of the metadata is due."""

from types import SimpleNamespace

import pytest
import trio
import trio.testing

from tests.cluster.in_process import cluster, connected_to
from tests.cluster.nodes import SECONDS
from tests.log.helpers import fill, open_log
from tests.quorum.controller.test_server import creation
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.metadata_log import MetadataLog
from trimaran.quorum.raft_log.snapshot_files import SnapshotFiles
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.quorum.replica import snapshot_writer as snapshots
from trimaran.quorum.replica.snapshot_writer import SnapshotPolicy, Snapshotter

MIB = 1 << 20


@pytest.mark.parametrize(
    ("snapshot_bytes", "due"),
    [(0, MIB), (1000, MIB), (3 * MIB, 6 * MIB), (10 * MIB, 20 * MIB), (500 * MIB, 20 * MIB)],
)
def test_log_size_is_bounded_by_state_multiple(snapshot_bytes, due):
    assert SnapshotPolicy().bytes_due(snapshot_bytes) == due


@pytest.mark.parametrize("snapshot_bytes", [0, 10 * MIB])
def test_configured_size_is_the_maximum(snapshot_bytes):
    assert SnapshotPolicy(bytes_between=1000).bytes_due(snapshot_bytes) == 1000


async def test_node_writes_snapshots_by_these_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "FIRST_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(snapshots, "BYTES_MIN", 2000)
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection:
            await nodes.scripted_broker(connection, 1).join()
            await connection.call(creation("t", partitions=100), timeout=SECONDS)
        log = active.node.log
        with trio.fail_after(SECONDS):
            while log.latest_snapshot is None:
                await trio.lowlevel.checkpoint()
            assert log.snapshots.size(log.latest_snapshot) > 0


SNAPSHOTS = [OffsetAndEpoch(offset, 1) for offset in (10, 20, 30)]


def encoded(snapshot_id):
    return encode_snapshot(snapshot_id, [], appended_at_ms=1, now_ms=1)


async def test_snapshot_fetch_survives_removal_of_old_ones(tmp_path):
    """A node was suspended for a long time: its own snapshot is due when it wakes, and the part of the log that it was
    reading is deleted.
    """
    directory = tmp_path / "__cluster_metadata-0"
    log = fill(open_log(directory), 10, epoch=1)
    files = SnapshotFiles(directory)
    metadata_log = MetadataLog(log, files)
    for snapshot_id in SNAPSHOTS[:2]:
        files.write(snapshot_id, encoded(snapshot_id))
        files.added(snapshot_id)
    snapshotter = Snapshotter(metadata_log, SnapshotPolicy(retention_ms=0), SimpleNamespace())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(snapshotter.clean)
        await trio.testing.wait_all_tasks_blocked()
        files.write(SNAPSHOTS[2], encoded(SNAPSHOTS[2]))
        files.unlink(metadata_log.start_at_snapshot(SNAPSHOTS[2]))
    assert files.ids == SNAPSHOTS[2:]
    assert metadata_log.start_offset == 30
