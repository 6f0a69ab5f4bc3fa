"""The driver processes an input in the step of the task that brings it; an error in the driver ends the node, not that
task.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.cluster.nodes import CLUSTER_ID, until
from tests.cluster.quorum_nodes import QuorumNodes, quorum_nodes
from trimaran.node.runtime import threads
from trimaran.quorum.raft.core import Raft
from trimaran.quorum.raft.messages import FetchRequest, FetchSnapshotRequest, FetchSnapshotResponse
from trimaran.quorum.raft.ready import Send
from trimaran.quorum.raft.types import OffsetAndEpoch, Peer, ReplicaKey
from trimaran.quorum.replica.driver import Driver
from trimaran.quorum.translate.responses import write_snapshot_response
from trimaran.wire.errors import KafkaError

OBSERVER = ReplicaKey(9, bytes([9]) * 16)
ASKED = OffsetAndEpoch(5, 1)


def fetch(offset: int, epoch: int) -> FetchRequest:
    return FetchRequest(CLUSTER_ID, epoch, OBSERVER, offset, 0, -1, 30.0, 1 << 20)


async def leading(cluster: QuorumNodes) -> tuple[Driver, Raft]:
    await cluster.start(1)
    await cluster.propose("a")
    driver = (await cluster.leader()).node._driver
    assert driver is not None
    return driver, driver.raft


async def test_input_is_processed_in_its_own_step(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 1) as cluster:
            driver, raft = await leading(cluster)
            assert driver.handle(fetch(0, raft.epoch)).ready()
            news = fetch(2, raft.epoch)._replace(last_fetched_epoch=raft.epoch, high_watermark=2)
            finish = driver.handle(news)
            assert not finish.ready(), "there is nothing new"
            await cluster.propose("b")
            assert (await finish.wait()).records


async def test_inputs_wait_while_a_vote_is_saved(tmp_path: Path, monkeypatch) -> None:
    released = trio.Event()
    save = threads.run_blocking

    async def slowly(fn, *args):
        await released.wait()
        return await save(fn, *args)

    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 1) as cluster:
            driver, raft = await leading(cluster)
            monkeypatch.setattr("trimaran.quorum.replica.driver.run_blocking", slowly)
            epoch = raft.epoch
            driver.submit(raft.resign)
            await until(lambda: raft.epoch > epoch)
            finish = driver.handle(fetch(0, epoch))
            for _ in range(10):
                await trio.lowlevel.checkpoint()
            assert not finish.ready(), "nobody hears of an epoch before it is on disk"
            released.set()
            assert (await finish.wait()).epoch > epoch


@pytest.mark.parametrize(
    ("snapshot_id", "position"), [(ASKED, 10), (ASKED, 9), (OffsetAndEpoch(6, 1), 10)]
)
async def test_unrequested_snapshot_piece_is_ignored(
    tmp_path: Path, snapshot_id: OffsetAndEpoch, position: int
) -> None:
    request = FetchSnapshotRequest(CLUSTER_ID, 1, OBSERVER, ASKED, 10, 1 << 20)
    answer = FetchSnapshotResponse(
        epoch=1, leader_id=2, snapshot_id=snapshot_id, size=13, position=position, data=b"abc"
    )
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 1) as cluster:
            driver, _ = await leading(cluster)
            send = Send(1, Peer(2, "h", 1), request, 1.0)
            understood = driver._parse_response(send, write_snapshot_response(answer, 1))
            assert (understood is not None) == ((snapshot_id, position) == (ASKED, 10))


async def test_stopped_node_leaves_no_waiter(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with quorum_nodes(tmp_path, 1) as cluster:
            driver, raft = await leading(cluster)
            news = fetch(2, raft.epoch)._replace(last_fetched_epoch=raft.epoch, high_watermark=2)
            parked = driver.handle(news)
            await cluster.members[1].kill()
            with pytest.raises(KafkaError, match="has stopped"):
                await parked.wait()
            with pytest.raises(KafkaError, match="has stopped"):
                driver.handle(news)


async def test_failure_ends_node_not_the_caller(tmp_path: Path, monkeypatch) -> None:
    def broken(_now: float) -> None:
        raise RuntimeError("an invariant")

    came_through = False
    with trio.fail_after(60), pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with quorum_nodes(tmp_path, 1) as cluster:
            driver, raft = await leading(cluster)
            driver.submit(broken)
            came_through = not driver.handle(fetch(0, raft.epoch)).ready()
            await trio.sleep_forever()
    assert came_through
