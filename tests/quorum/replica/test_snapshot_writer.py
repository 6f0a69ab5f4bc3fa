"""When a snapshot of the metadata is due."""

import pytest
import trio

from quorum.replica import snapshot_writer as snapshots
from quorum.replica.snapshot_writer import SnapshotPolicy
from tests.cluster.in_process import cluster, connected_to
from tests.cluster.nodes import SECONDS
from tests.quorum.controller.test_server import creation

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
