"""From a quorum over the wire to ZooKeeper: three real voters, the observer, the mirror, a real tree."""

import pytest
import trio

from tests.cluster.nodes import CLUSTER_ID
from tests.cluster.quorum_nodes import quorum_nodes
from tests.zkcompat import build
from tests.zkcompat.build import T1
from tests.zkcompat.model import verify
from tests.zkcompat.rig import PATIENCE, SESSION_MS, connected, reached
from trimaran.zkcompat.mirroring.mirror import Mirror
from trimaran.zkcompat.quorum_feed.observer import open_observer
from trimaran.zkcompat.settings import mirror_config
from trimaran.zkcompat.znodes.controller import ControllerZnode
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


async def _propose(cluster, *records):
    """Returns the offset of the last record once it is committed."""
    node = (await cluster.leader()).node
    last = node.propose(records, node.leader.value.epoch)
    await node.high_watermark.wait_reached(last + 1)
    return last


async def test_tree_follows_quorum_and_its_leader(connect, tmp_path):
    with trio.fail_after(2 * PATIENCE):
        async with quorum_nodes(tmp_path) as cluster:
            for node_id in cluster.voters:
                await cluster.start(node_id)
            bootstrap = [(peer.host, peer.port) for peer in cluster.voters.values()]
            await _propose(
                cluster, build.broker(1), build.topic("t", T1), build.partition(T1, 0, [1])
            )
            async with (
                open_observer(CLUSTER_ID, bootstrap) as feed,
                open_keeper(KeeperConfig(connect, SESSION_MS)) as keeper,
                trio.open_nursery() as nursery,
                connected(connect) as person,
            ):
                mirror = Mirror(feed, keeper, CLUSTER_ID, mirror_config({}))
                nursery.start_soon(mirror.run)
                offset = await _propose(cluster, build.change(T1, 0, isr=[2], leader=2))
                await reached(
                    mirror, lambda s: s.published_offset >= offset and s.state == "in step"
                )
                await assert_in_step(person, feed, (await cluster.leader()).node)

                leader = await cluster.leader()
                await leader.kill()
                successor = await cluster.leader(above=leader.node.leader.value.epoch)
                offset = await _propose(cluster, build.producer_ids(1000))
                await reached(
                    mirror,
                    lambda s: (
                        s.published_offset >= offset and s.state == "in step" and s.claims > 1
                    ),
                )
                await assert_in_step(person, feed, successor.node)
                nursery.cancel_scope.cancel()


async def assert_in_step(person, feed, leader):
    report = await verify(feed, person, CLUSTER_ID, PATIENCE)
    assert report.in_step, report
    assert report.lag_records == 0
    controller = ControllerZnode.decode((await person.read(ControllerZnode.PATH)).data)
    seen = leader.leader.value
    assert (controller.broker_id, controller.kraft_controller_epoch) == (seen.leader_id, seen.epoch)
