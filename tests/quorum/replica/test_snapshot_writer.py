"""When a snapshot of the metadata is due."""

from types import SimpleNamespace

import pytest
import trio

from log.batches.records import NewRecord, build_batch
from quorum.raft.types import OffsetAndEpoch
from quorum.raft_log.metadata_log import MetadataLog
from quorum.raft_log.snapshot_files import SnapshotFiles
from quorum.raft_log.snapshot_format import encode_snapshot
from quorum.replica import snapshot_writer as snapshots
from quorum.replica.snapshot_writer import SnapshotPolicy, Snapshotter
from tests.log.helpers import open_log
from tests.quorum.controller.test_server import creation
from tests.quorum.controllers import SECONDS, connected_to, open_controllers

MIB = 1 << 20


@pytest.mark.parametrize(
    ("snapshot_bytes", "due"),
    [(0, MIB), (1000, MIB), (3 * MIB, 6 * MIB), (10 * MIB, 20 * MIB), (500 * MIB, 20 * MIB)],
)
def test_the_log_is_held_to_a_multiple_of_the_state(snapshot_bytes, due):
    assert SnapshotPolicy().bytes_due(snapshot_bytes) == due


@pytest.mark.parametrize("snapshot_bytes", [0, 10 * MIB])
def test_what_is_configured_is_the_most(snapshot_bytes):
    assert SnapshotPolicy(bytes_between=1000).bytes_due(snapshot_bytes) == 1000


async def test_a_node_follows_that(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "FIRST_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(snapshots, "BYTES_MIN", 2000)
    async with open_controllers(tmp_path) as controllers:
        active = await controllers.active()
        async with connected_to(active) as connection:
            await controllers.broker(connection, 1).join()
            await connection.call(creation("t", partitions=100), timeout=SECONDS)
        log = active.node.log
        with trio.fail_after(SECONDS):
            while log.latest_snapshot is None:
                await trio.lowlevel.checkpoint()
            assert log.snapshots.size(log.latest_snapshot) > 0


@pytest.mark.parametrize(
    ("retention_ms", "left"), [(-1, [10, 20, 30]), (5000, [20, 30]), (0, [30])]
)
async def test_snapshots_and_the_log_before_them_go_by_age(
    tmp_path, monkeypatch, retention_ms, left
):
    """metadata.max.retention.ms; the newest snapshot stays, whatever its age."""
    monkeypatch.setattr(snapshots, "now_ms", lambda: 10_000)
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    files = SnapshotFiles(directory)
    metadata_log = MetadataLog(open_log(directory), files)
    for number in range(30):
        metadata_log.append_fetched(
            build_batch([NewRecord(None, b"x", 0)], base_offset=number, leader_epoch=0)
        )
    for offset, appended_at_ms in ((10, 1000), (20, 6000), (30, 6001)):
        one = OffsetAndEpoch(offset, 0)
        files.write(one, encode_snapshot(one, [], appended_at_ms=appended_at_ms, now_ms=9999))
        files.added(one)
    applier = SimpleNamespace(bytes_applied=0)
    snapshotter = Snapshotter(metadata_log, SnapshotPolicy(retention_ms=retention_ms), applier)
    await snapshotter.clean()
    assert [one.offset for one in files.ids] == left
    assert metadata_log.start_offset == (0 if left[0] == 10 else left[0])
