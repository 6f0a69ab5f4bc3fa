"""The row of `./dev bench calls` for the ZooKeeper mirror: from a committed metadata record to the transaction that
kazoo receives, in process. A ZooKeeper in memory implements kazoo's interface.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import trio
import trio.testing

from bench.counting import Calls, Counts
from tests.zkcompat import build
from tests.zkcompat.zookeeper.in_memory import Ensemble
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.listener import CommittedBatch
from trimaran.wire.identity import TopicPartition
from trimaran.wire.schema import Message
from trimaran.zkcompat.mirroring.mirror import Mirror, MirrorConfig
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.tree.claim import QuorumLeader
from trimaran.zkcompat.znodes.partition_state import PartitionStateZnode
from trimaran.zkcompat.zookeeper import session
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

TOPIC, NEVER_SECONDS = "t", 1e6
TIMEOUT_SECONDS = 30.0


class Quorum:
    """Commits records to a metadata loader whose publisher is the mirror's feed."""

    def __init__(self) -> None:
        self.feed = ImageFeed(leader=QuorumLeader(1, 1))
        self._loader = MetadataLoader([self.feed])
        self._offset = -1

    def commit(self, *records: Message) -> None:
        base, self._offset = self._offset + 1, self._offset + len(records)
        self._loader.apply_committed(CommittedBatch(base, self._offset, 1, now_ms(), 100, records))

    async def shown(self, mirror: Mirror) -> None:
        """Returns when the tree shows the last committed record."""
        with trio.fail_after(TIMEOUT_SECONDS):
            await mirror.wait_status(lambda s: s.published_offset == self._offset)


@contextmanager
def zookeeper_in_memory() -> Iterator[Ensemble]:
    """Replaces kazoo's client by one of a ZooKeeper in memory."""
    ensemble = Ensemble(now_ms)
    with patch.object(session, "make_client", ensemble.client):
        yield ensemble


async def record_to_znode(
    calls: Calls, blocks: Iterable[AbstractContextManager[object]]
) -> list[Counts]:
    """Changes the leader of a partition in each block, until its znode is written; returns the calls of each block."""
    quorum, taken = Quorum(), list[Counts]()
    quorum.commit(build.topic(TOPIC, build.T1), build.partition(build.T1, 0, [1, 2], leader=1))
    quorum.feed.caught_up()
    config = MirrorConfig(
        batch_operations=200, verify_interval_seconds=NEVER_SECONDS, verify_share=0.0
    )
    with zookeeper_in_memory() as ensemble:
        async with (
            open_keeper(KeeperConfig("memory/chroot", 12_000)) as keeper,
            trio.open_nursery() as nursery,
        ):
            mirror = Mirror(quorum.feed, keeper, build.CLUSTER_ID, config)
            nursery.start_soon(mirror.run)
            await quorum.shown(mirror)
            ensemble.before = _marking(calls)
            for block, leader in zip(blocks, itertools.cycle((2, 1)), strict=False):
                await trio.testing.wait_all_tasks_blocked()
                with block:
                    quorum.commit(build.change(build.T1, 0, leader=leader))
                    await quorum.shown(mirror)
                taken.append(calls.take())
            nursery.cancel_scope.cancel()
    return taken


def _marking(calls: Calls) -> Callable[[Any, Any], None]:
    """Marks the request that writes the partition's state."""
    path = PartitionStateZnode.path(TopicPartition(TOPIC, 0))

    def before(_client: Any, request: Any) -> None:
        operations = getattr(request, "operations", ())
        if any(operation.path.endswith(path) for operation in operations):
            calls.mark()

    return before
