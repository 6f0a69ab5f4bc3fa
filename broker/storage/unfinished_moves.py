"""Finishes moves between log directories after a crash: keeps one copy of each replica (KAFKA-8069).

A move renames the copy first and the old replica second, so that a crash leaves two complete directories of the same
name. Earlier releases, and Kafka before 2.4, renamed the old replica first: then the complete copy is the only one.
Topic ids take precedence over all other rules, and only the metadata of the cluster shows which topic id is the current
one. Source: `LogManager.recoverAbandonedFutureLogs` of Kafka.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import combinations

from trimaran.broker import events
from trimaran.broker.storage.directories import LogDirectories
from trimaran.broker.storage.new_replicas import NOWHERE_YET, Standing
from trimaran.log.directories.aside_replicas import ReplicaToRemove
from trimaran.log.directories.directory import LogDirectory
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum.metadata.image import PartitionImage, TopicImage, TopicsImage
from trimaran.wire.identity import BrokerId, TopicPartition

log = logging.getLogger(__name__)


async def finish_moves(directories: LogDirectories, topics: TopicsImage, node_id: BrokerId) -> None:
    """Finishes moves before any log is opened; `topics` are the cluster's current topics. If a disk fails meanwhile,
    the next start continues.
    """
    await _Moves(directories, topics, node_id).finish()


@dataclass(frozen=True, slots=True)
class _Moves:
    directories: LogDirectories
    topics: TopicsImage
    node_id: BrokerId

    async def finish(self) -> None:
        online = self.directories.online
        twins = {
            key
            for one, other in combinations(online, 2)
            for key in one.partitions() & other.partitions()
        }
        for key in sorted(twins):
            with self.directories.noting_failure(f"{key} is in two directories"):
                await self._resolve_twins(key)
        for directory in online:
            for key in directory.futures:
                if self.directories.holding(key) is None:
                    with self.directories.noting_failure(f"{key} does not move"):
                        self._promote(directory, key)
        for directory in online:
            with self.directories.noting_failure(f"deletion in {directory.path}"):
                for replica in await run_blocking(directory.aside.to_be_removed):
                    self._keep_if_last(directory, replica)

    def _placed(self, topic: TopicImage | None, index: int) -> PartitionImage | None:
        """Returns the partition's metadata if this broker has a replica of it, else None."""
        state = None if topic is None else topic.partitions.get(index)
        return state if state is not None and self.node_id in state.replicas else None

    async def _resolve_twins(self, key: TopicPartition) -> None:
        """Settles a replica found in two directories. Copies with another topic id are put aside. The longest remaining
        copy stays; if they have the same length, the copy in the directory named by the controller's metadata.
        """
        topic = self.topics.by_name.get(key.topic)
        state = self._placed(topic, key.partition)
        if topic is None or state is None:
            return  # put aside later, like all strays
        twins = []
        for directory in [directory for directory in self.directories.online if key in directory]:
            if directory.is_of(key, topic.id):
                twins.append(directory)
            else:
                events.REPLICA_OF_DELETED_TOPIC.log(log, topic=key.topic, index=key.partition)
                directory.put_aside(key)
        if len(twins) < 2:
            return
        assigned = state.directory_of(self.node_id)
        ranks = {
            twin: (await run_blocking(twin.end_of, key), twin.directory_id == assigned)
            for twin in twins
        }
        twins.sort(key=lambda one: ranks[one])
        for twin in twins[:-1]:
            events.REPLICA_TWICE.log(
                log,
                topic=key.topic,
                index=key.partition,
                directory=twins[-1].path,
                put_aside=twin.path,
            )
            twin.put_aside(key)

    def _promote(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Completes the move of a copy whose source is missing, if the source is known to have been on this broker: the
        copy is then complete. Otherwise it may be partial.
        """
        topic = self.topics.by_name.get(key.topic)
        state = self._placed(topic, key.partition)
        if topic is None or state is None or not directory.futures.is_of(key, topic.id):
            return
        assigned = state.directory_of(self.node_id)
        all_are_read = not self.directories.failed_at_start
        is_known = assigned in self.directories.online_ids() or (
            all_are_read and assigned in NOWHERE_YET
        )
        if is_known or Standing.of(state, self.node_id) is Standing.SPARE:
            directory.promote_future(key)

    def _keep_if_last(self, directory: LogDirectory, replica: ReplicaToRemove) -> None:
        """Keeps a replica that was marked for deletion if no directory has it under its name."""
        topic_id, index = replica.key
        topic = self.topics.by_id.get(topic_id)
        state = self._placed(topic, index)
        if topic is None or state is None or Standing.of(state, self.node_id) is Standing.SPARE:
            return
        if self.directories.holding(TopicPartition(topic.name, index)) is None:
            directory.aside.keep(replica.directory)
