"""The coordinator of consumer groups of one broker: a shard per partition of `__consumer_offsets` that it leads.

Handlers call it with decoded requests; it finds the shard of a group, or says who is to blame (NOT_COORDINATOR while
another broker leads, COORDINATOR_LOAD_IN_PROGRESS before the log is read). Source: Kafka's `GroupCoordinatorService`.
Left out: the protocols of KIP-848 (consumer, share, streams groups), transactional commits, authorization.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from uuid import uuid4

import trio

from broker.coordination.partitioning import partition_for
from broker.groups.describe import describe_group, described, list_groups
from broker.groups.joining import Join
from broker.groups.limits import GroupLimits
from broker.groups.ports import OFFSETS_TOPIC, Metadata, OffsetsPartition
from broker.groups.shard import GroupShard, Parking, ShardState
from node.runtime.deferred import Deferred
from node.runtime.latest import Latest
from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import MetadataImage
from quorum.metadata.loader import Manifest
from wire.errors import ErrorCode, KafkaError
from wire.messages.describe_groups import DescribedGroup
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from wire.messages.leave_group import LeaveGroupRequest, MemberResponse
from wire.messages.list_groups import ListedGroup
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from wire.primitives import NIL_UUID


class GroupCoordinator:
    """A `LeadershipListener` of `__consumer_offsets`; `run` must be running for shards to load.

    Methods raise KafkaError with the code for the client, unless they say how they answer errors.
    """

    def __init__(
        self,
        limits: GroupLimits,
        metadata: Metadata,
        storage_failed: Callable[[], object] = lambda: None,
    ) -> None:
        """`storage_failed` is called when an append has met KAFKA_STORAGE_ERROR."""
        self.limits = limits
        self._metadata = metadata
        self._storage_failed = storage_failed
        self._shards: dict[int, GroupShard] = {}
        # One entry and one task per partition that was ever led here: at most the partitions of the topic.
        self._reigns: dict[int, Latest[GroupShard | None]] = {}
        self._new_reigns: list[Latest[GroupShard | None]] = []
        self._begun = trio.Event()

    @property
    def commit_timeout_seconds(self) -> float:
        """How long the answer to a write may wait for its commit (`offsets.commit.timeout.ms`)."""
        return self.limits.commit_timeout_ms / 1000

    # -- leadership

    def began(self, partition_index: int, leader: OffsetsPartition) -> None:
        """Begins to load the groups of a partition."""
        shard = GroupShard(
            partition_index, leader, self.limits, self._storage_failed, self._knows_topic
        )
        self._shards[partition_index] = shard
        reign = self._reigns.get(partition_index)
        if reign is not None:
            reign.set(shard)
            return
        reign = self._reigns[partition_index] = Latest[GroupShard | None](shard)
        self._new_reigns.append(reign)
        self._begun.set()

    def ended(self, partition_index: int, leader_epoch: int) -> None:
        """Serves the groups of a partition no longer, from this call on."""
        shard = self._shards.get(partition_index)
        if shard is not None and shard.epoch <= leader_epoch:
            del self._shards[partition_index]
            self._reigns[partition_index].set(None)
            shard.close()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Loads and serves shards for ever; when cancelled, everybody who waits is told NOT_COORDINATOR."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                self._begun = trio.Event()
                while self._new_reigns:
                    nursery.start_soon(_reign_by_reign, self._new_reigns.pop())
                await self._begun.wait()

    def _knows_topic(self, name: str, topic_id: bytes) -> bool:
        """Records are never ahead of the metadata here: whoever wrote them led in an earlier epoch."""
        topics = self._metadata.image.topics
        return name in topics.by_name if topic_id == NIL_UUID else topic_id in topics.by_id

    # -- finding

    def partition_count(self) -> int:
        """Of the topic as it is, or as it would be created."""
        topic = self._metadata.image.topics.by_name.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else self.limits.partition_count

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, self.partition_count())

    def _shard_of(self, group_id: str) -> GroupShard:
        shard = self._shards.get(self.partition_of(group_id))
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        shard.active()
        return shard

    # -- members

    def join(
        self, request: JoinGroupRequest, version: int, client_id: str, client_host: str
    ) -> Parking[JoinGroupResponse]:
        """Enters a group; the response comes when its rebalance has got there."""
        _check_group_id(request.group_id)
        limits = self.limits
        if not (
            limits.session_timeout_ms_min
            <= request.session_timeout_ms
            <= limits.session_timeout_ms_max
        ):
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        shard = self._shard_of(request.group_id)
        parking = Parking[JoinGroupResponse]()
        join = Join(request, version, client_id, client_host, parking, str(uuid4()))
        shard.step(lambda at: shard.active().join(join, at))
        return parking

    def sync(self, request: SyncGroupRequest) -> Parking[SyncGroupResponse]:
        """Gives or awaits the assignment of a generation."""
        _check_group_id(request.group_id)
        shard = self._shard_of(request.group_id)
        parking = Parking[SyncGroupResponse]()
        shard.step(lambda at: shard.active().sync(request, parking, at))
        return parking

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """The code to answer; members of a group that is being loaded are told that all is well."""
        _check_group_id(request.group_id)
        try:
            shard = self._shard_of(request.group_id)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ErrorCode.NONE
            raise
        return shard.step(lambda at: shard.active().heartbeat(request, at))

    def leave(self, request: LeaveGroupRequest, version: int) -> list[MemberResponse]:
        """One response per member that is to go."""
        _check_group_id(request.group_id)
        shard = self._shard_of(request.group_id)
        return shard.step(lambda at: shard.active().leave(request, version, at))

    # -- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int
    ) -> Deferred[OffsetCommitResponse]:
        """Stores offsets of topics that exist; names and ids are filled in. An empty group id is allowed."""
        shard = self._shard_of(request.group_id)
        return shard.submit(
            shard.step(lambda at: shard.active().commit_offsets(request, version, at))
        )

    def fetch_offsets(self, request: OffsetFetchRequestGroup) -> Deferred[OffsetFetchResponseGroup]:
        """Reads offsets; what is not committed yet is waited for. An empty group id is allowed."""
        shard = self._shard_of(request.group_id)
        return shard.submit(shard.active().fetch_offsets(request))

    def delete_offsets(
        self, group_id: str, partitions: Collection[tuple[str, int]]
    ) -> Deferred[dict[tuple[str, int], ErrorCode]]:
        """Deletes offsets of topics that no member reads; answers a code for each."""
        _check_group_id(group_id)
        shard = self._shard_of(group_id)
        return shard.submit(shard.active().delete_offsets(group_id, partitions))

    def publish(self, delta: MetadataDelta, _image: MetadataImage, _manifest: Manifest) -> None:
        """Forgets the offsets of topics that were deleted (a `Publisher` of the metadata loader)."""
        if delta.topics.deleted:
            topic_ids = {topic.name: topic.id for topic in delta.topics.deleted.values()}
            for shard in self._shards.values():
                shard.forget_topics(topic_ids)

    # -- groups

    def delete_groups(
        self, group_ids: Iterable[str]
    ) -> tuple[dict[str, ErrorCode], list[Deferred[dict[str, ErrorCode]]]]:
        """Deletes groups without members; answers codes known now, and codes that stand when committed."""
        refused: dict[str, ErrorCode] = {}
        deferred = []
        for shard, ids in self._by_shard(group_ids, refused).items():
            try:
                deferred.append(shard.submit(shard.active().delete_groups(ids)))
            except KafkaError as error:
                refused.update(dict.fromkeys(ids, error.code))
        return refused, deferred

    def describe_groups(self, group_ids: Iterable[str], version: int) -> list[DescribedGroup]:
        """One description per id, errors included."""
        answers = []
        for group_id in group_ids:
            try:
                core = self._shard_of(group_id).active()
                answers.append(describe_group(core, group_id, version))
            except KafkaError as error:
                answers.append(described(group_id, "", error.code))
        return answers

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """The groups of all shards.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS: some are not known yet.
        """
        listed: list[ListedGroup] = []
        for shard in self._shards.values():
            if shard.state is not ShardState.CLOSED:
                listed += list_groups(shard.active(), states, types)
        return listed

    def _by_shard(
        self, group_ids: Iterable[str], refused: dict[str, ErrorCode]
    ) -> dict[GroupShard, list[str]]:
        found: defaultdict[GroupShard, list[str]] = defaultdict(list)
        for group_id in group_ids:
            try:
                found[self._shard_of(group_id)].append(group_id)
            except KafkaError as error:
                refused[group_id] = error.code
        return found


async def _reign_by_reign(current: Latest[GroupShard | None]) -> None:
    """A shard has unwound, threads included, before the next one of its partition begins to load."""
    shard: GroupShard | None = None
    while True:
        shard = await current.wait_not(shard)
        if shard is not None:
            await shard.reign()


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
