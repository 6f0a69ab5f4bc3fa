"""The fetchers of this broker, one for each leader that it follows.

Source: `ReplicaFetcherManager` of Kafka with num.replica.fetchers = 1.
"""

from __future__ import annotations

import trio

from trimaran.broker.channels.broker_connector import Connector
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.replication.fetch_client import FetchSettings
from trimaran.broker.replication.fetcher import Fetcher
from trimaran.wire.identity import BrokerId, TopicIdPartition
from trimaran.wire.transport.scheduling.events import AutoResetEvent


class Fetchers:
    """Starts a fetcher when the first partition follows a leader, and stops it after the last."""

    def __init__(
        self,
        connector: Connector,
        settings: FetchSettings,
    ) -> None:
        self._connector = connector
        self._settings = settings
        self._fetchers: dict[BrokerId, Fetcher] = {}
        self._leader_of: dict[TopicIdPartition, BrokerId] = {}
        self._changed = AutoResetEvent()

    def follow(self, partition: Partition) -> None:
        leader_id = partition.state.leader
        self._leader_of[partition.topic_id_partition] = leader_id
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = Fetcher(
                leader_id, self._connector, self._settings
            )
            self._changed.set()
        fetcher.add(partition)

    def unfollow(self, partition: Partition) -> None:
        leader_id = self._leader_of.pop(partition.topic_id_partition, None)
        if leader_id is not None and (fetcher := self._fetchers.get(leader_id)):
            fetcher.remove(partition)
            if not len(fetcher):
                self._changed.set()

    async def run(self) -> None:
        """Runs the fetchers until cancelled."""
        running: dict[BrokerId, trio.CancelScope] = {}
        async with trio.open_nursery() as nursery:
            while True:
                for leader_id, fetcher in list(self._fetchers.items()):
                    if not len(fetcher):
                        del self._fetchers[leader_id]
                        if scope := running.pop(leader_id, None):
                            scope.cancel()
                    elif leader_id not in running:
                        scope = running[leader_id] = trio.CancelScope()
                        nursery.start_soon(_run_in, scope, fetcher)
                await self._changed.wait()


async def _run_in(scope: trio.CancelScope, fetcher: Fetcher) -> None:
    with scope:
        await fetcher.run()
