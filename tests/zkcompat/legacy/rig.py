"""A real cluster in this process, with a real mirror that carries out requests, and a client of its real ZooKeeper."""

from contextlib import asynccontextmanager

import trio
from kazoo.exceptions import NodeExistsError, NoNodeError

from tests.cluster.in_process import cluster
from tests.cluster.nodes import CLUSTER_ID
from tests.zkcompat.rig import PATIENCE, SESSION_MS, connected
from trimaran.zkcompat.legacy.admin import LegacyAdmin
from trimaran.zkcompat.legacy.controller_client import ControllerClient
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.mirroring.mirror import Mirror, MirrorConfig
from trimaran.zkcompat.quorum_feed.observer import open_observer
from trimaran.zkcompat.zookeeper.kazoo_client import Security
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

# The kinds that need neither secrets nor our own controller.
ALL = frozenset(RequestKind) - {RequestKind.SCRAM}
POLL_SECONDS = 0.01
# Znodes as the tools of each version write them.
CREATED = b'{"version":1,"partitions":{"0":[11],"1":[11]}}'


class Admin:
    """`feed` is the quorum's metadata; `hands` is the session of a tool."""

    def __init__(self, running, feed, mirror, hands, connect):
        self.cluster, self.feed, self.mirror, self.hands = running, feed, mirror, hands
        self.connect = connect

    @property
    def image(self):
        return self.feed.image

    @property
    def topics(self):
        return self.image.topics.by_name

    async def until(self, wanted):
        """Returns when the quorum has committed a matching state."""
        with trio.fail_after(PATIENCE):
            await self.feed.wait_for(lambda feed: wanted(feed.image))

    async def until_tree(self, wanted):
        """Returns when `wanted`, a function that reads the tree, holds."""
        with trio.fail_after(PATIENCE):
            while not await wanted():  # noqa: ASYNC110 - no event tells what others see
                await trio.sleep(POLL_SECONDS)

    async def gone(self, path):
        async def is_gone():
            return await self.hands.read(path) is None

        await self.until_tree(is_gone)

    async def write(self, path, data):
        """Creates or writes a znode with `setOrCreate`, as tools do."""
        client, answer = self.hands._client, self.hands._answer
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    return await answer(client.set_async(path, data), path, NoNodeError)
                except NoNodeError:
                    pass
                try:
                    return await answer(client.create_async(path, data), path, NodeExistsError)
                except NodeExistsError:
                    pass

    async def delete(self, path):
        await self.hands._answer(self.hands._client.delete_async(path))

    async def note(self, prefix, data):
        await self.hands._answer(self.hands._client.create_async(prefix, data, sequence=True))

    async def create(self, topic, data=CREATED):
        await self.write(f"/brokers/topics/{topic}", data)
        await self.until(lambda image: topic in image.topics.by_name)
        await self.in_step()

    async def in_step(self):
        """Returns when the mirror shows the quorum's current metadata."""
        offset = self.image.provenance.offset
        with trio.fail_after(PATIENCE):
            await self.mirror.wait_status(
                lambda s: s.state == "in step" and s.published_offset >= offset
            )


@asynccontextmanager
async def mirroring(running, connect, kinds=ALL, verify_seconds=600.0, companion=None, auth=()):
    """Runs one mirror of the cluster; `companion` creates a companion from its feed. With `auth` it shows secrets."""
    bootstrap = [("127.0.0.1", port) for port in running.voters.values()]
    async with (
        open_observer(CLUSTER_ID, bootstrap) as feed,
        open_keeper(KeeperConfig(connect, SESSION_MS, security=Security(auth=auth))) as keeper,
        trio.open_nursery() as nursery,
    ):
        admin = LegacyAdmin(ControllerClient(feed.leader_address), kinds)
        if companion is not None:
            admin = companion(feed)
        config = MirrorConfig(
            batch_operations=200, verify_interval_seconds=verify_seconds, secrets=bool(auth)
        )
        mirror = Mirror(feed, keeper, CLUSTER_ID, config, [admin])
        nursery.start_soon(mirror.run)
        yield feed, mirror
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def obeying(path, connect, kinds=ALL, *, brokers=1, verify_seconds=600.0, **settings):
    """Returns the cluster, its mirror, and a tool's session."""
    async with (
        cluster(path, brokers=brokers, **settings) as running,
        mirroring(running, connect, kinds, verify_seconds) as (feed, mirror),
        connected(connect) as hands,
    ):
        admin = Admin(running, feed, mirror, hands, connect)
        await mirror.wait_status(lambda s: s.state == "in step")
        yield admin
