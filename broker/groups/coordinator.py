"""The group coordinator of one broker: a shard for each partition of `__consumer_offsets` that it leads.

Handlers call it with decoded requests; it finds the shard of a group, or raises NOT_COORDINATOR if another broker
leads, or COORDINATOR_LOAD_IN_PROGRESS until the log has been read. Source: Kafka's
`GroupCoordinatorService`. The handlers authorize.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakSet

from trimaran.broker.coordination.ports import Metadata
from trimaran.broker.coordination.runtime import CoordinatorRuntime, partition_for
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.broker.coordination.shard_epoch import ShardEpoch, ShardState
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.kinds import (
    FollowUpParts,
    G,
    GroupDependencies,
    GroupKind,
    H,
    HeartbeatGroups,
    R,
    Settings,
)
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.loaded_rows import LoadedRows
from trimaran.broker.groups.memory import GroupAccount
from trimaran.broker.groups.records import OFFSETS_TOPIC, GroupRecord
from trimaran.broker.groups.registry import KINDS, serde_of
from trimaran.broker.groups.shard import GroupCoordinatorShard
from trimaran.broker.groups.topics import newest_topics
from trimaran.broker.metadata.topic_patterns import TopicPatterns
from trimaran.broker.share_state.states import ShareStates
from trimaran.log.partitions.partition_log import AppendInfo
from trimaran.log.producers.marker import EndMarker
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberResponse
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.records.groups import OffsetCommitValue

# The number of groups processed without a pause: 2 ms.
GROUPS_PER_STEP = 1_000

# The wait for the shard of a group: a new one is opened in milliseconds. Clients give a request 30 s, so a client that
# gets COORDINATOR_LOAD_IN_PROGRESS after a second has time to retry.
LOADED_SECONDS_MAX = 1.0

NO_SETTINGS: Mapping[str, Settings] = {}

T = TypeVar("T")

_GroupEpoch = ShardEpoch[GroupCoordinatorShard, GroupRecord]


class GroupCoordinator:
    """The entry point for handlers. `runtime` has the shards, listens to the leadership of the topic, and must be
    running.

    Methods raise KafkaError with the code for the client, unless documented otherwise.
    """

    def __init__(
        self,
        limits: GroupLimits,
        metadata: Metadata,
        settings: Mapping[str, Settings] = NO_SETTINGS,
        kinds: Sequence[GroupKind[Any]] = KINDS,
        share_states: ShareStates | None = None,
    ) -> None:
        """`settings` has, by name of a kind, a function from a group's id to its settings; kinds without an entry use
        their defaults. `share_states` stores the states of share groups.
        """
        self.limits = limits
        self._metadata = metadata
        self._dependencies = GroupDependencies(settings, newest_topics(lambda: metadata.image))
        self.rebalances = self._dependencies.rebalances
        self._kinds = kinds
        self.patterns = TopicPatterns()
        self.share_states = share_states
        self._follow_up_parts = FollowUpParts(metadata, self.patterns, share_states)
        self.accounts = WeakSet[GroupAccount]()
        serde = serde_of(kinds, limits.offset_value_version)
        self.runtime = CoordinatorRuntime(
            CoordinatorSpec(
                topic=OFFSETS_TOPIC,
                make_shard=lambda: GroupCoordinatorShard(
                    limits, self._knows_topic, self._dependencies, self.accounts, kinds
                ),
                serde=serde,
                taking_rows=lambda shard: LoadedRows(serde, shard).take,
                commit_timeout_ms=limits.commit_timeout_ms,
                load_buffer_bytes=limits.load_buffer_bytes,
                follow_up=self._follow_up,
            )
        )

    def _knows_topic(self, name: str, topic_id: bytes) -> bool:
        """Returns whether the topic exists. A topic of a record that is missing here was deleted: the record's writer
        led in an earlier epoch, so its metadata was not newer than this broker's.
        """
        topics = self._metadata.image.topics
        return name in topics.by_name if topic_id == NIL_UUID else topic_id in topics.by_id

    # -- finding

    def partition_count(self) -> int:
        """Returns the number of partitions of the topic, existing or yet to be created."""
        topic = self._metadata.image.topics.by_name.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else self.limits.partition_count

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, self.partition_count())

    def _epoch_of(self, group_id: str) -> _GroupEpoch:
        """Returns the epoch of the group's shard; its inputs raise KafkaError if it does not serve (`serving`).

        Raises:
            KafkaError: NOT_COORDINATOR if another broker leads.
        """
        return self.runtime.epoch_of(partition_for(group_id, self.partition_count()))

    async def wait_loaded(self, group_ids: Iterable[str] | None = None) -> None:
        """Waits until the shards of these groups, or of all, are loaded or have ended, at most for
        `LOADED_SECONDS_MAX`.
        """
        if self.runtime.is_loading:
            asked = None if group_ids is None else set(map(self.partition_of, group_ids))
            await self.runtime.wait_loaded(asked, LOADED_SECONDS_MAX)

    # -- members

    def join(
        self,
        request: JoinGroupRequest,
        version: int,
        client_id: str,
        client_host: str,
        principal: str = "",
        connection: int = 0,
    ) -> PendingResponse[JoinGroupResponse]:
        """Joins a group; the response follows when its join phase ends. `closing` must be called when the connection
        ends.
        """
        _check_group_id(request.group_id)
        limits = self.limits
        if not (
            limits.session_timeout_ms_min
            <= request.session_timeout_ms
            <= limits.session_timeout_ms_max
        ):
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        epoch = self._epoch_of(request.group_id)
        pending = PendingResponse[JoinGroupResponse]()
        suffix = str(uuid4())
        join = Join(
            request, version, client_id, client_host, pending, suffix, principal, connection
        )
        epoch.step(lambda shard, at: shard.join(join, at))
        return pending

    def closing(self, connection: int) -> ConnectionClosing:
        """Returns the function to call when the connection of a joined member ends."""
        return ConnectionClosing(self, connection)

    def sync(self, request: SyncGroupRequest) -> PendingResponse[SyncGroupResponse]:
        """Returns the assignment of a generation when it is known; the leader's request provides it."""
        _check_group_id(request.group_id)
        epoch = self._epoch_of(request.group_id)
        pending = PendingResponse[SyncGroupResponse]()
        epoch.step(lambda shard, at: shard.sync(request, pending, at))
        return pending

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Returns the code of the response; it is NONE while the group is being loaded."""
        _check_group_id(request.group_id)
        try:
            epoch = self._epoch_of(request.group_id)
            return epoch.step(lambda shard, at: shard.heartbeat(request, at))
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ErrorCode.NONE
            raise

    def member_heartbeat(
        self, kind: GroupKind[HeartbeatGroups[H, R]], group_id: str, given: H
    ) -> PendingResponse[R]:
        """Handles a member that joins, stays or leaves by the heartbeat of a kind that has its own.

        Raises KafkaError INVALID_REQUEST for an empty group id, unlike the classic requests (GroupCoordinatorService).
        """
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
        epoch = self._epoch_of(group_id)
        return epoch.decide(
            lambda shard, at: shard.of_kind[kind].member_heartbeat(given, at),
            unwritten=lambda shard, at: shard.of(kind).heartbeat_failed(given, at),
        )

    async def _follow_up(self, epoch: _GroupEpoch, group_id: str) -> None:
        """Carries out the follow-up for a group that its shard has named."""
        for kind in self._kinds:
            if kind.follow_up is not None:
                await kind.follow_up(self._follow_up_parts, epoch, group_id)

    def leave(self, request: LeaveGroupRequest, version: int) -> list[MemberResponse]:
        """Returns one response per leaving member."""
        _check_group_id(request.group_id)
        epoch = self._epoch_of(request.group_id)
        return epoch.step(lambda shard, at: shard.leave(request, version, at))

    # -- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int
    ) -> PendingResponse[OffsetCommitResponse]:
        """Stores offsets of existing topics; the request has both names and ids. An empty group id is allowed."""
        epoch = self._epoch_of(request.group_id)
        return epoch.decide(lambda shard, at: shard.commit_offsets(request, version, at))

    def commit_offsets_in_transaction(
        self,
        request: OffsetCommitRequest,
        version: int,
        producer: Producer,
        verified_from: Offset | None,
    ) -> PendingResponse[OffsetCommitResponse]:
        """Stores offsets that take effect when the producer's transaction is committed.

        Args:
            version: the version of the TxnOffsetCommit.
            verified_from: the end of the log when the transaction's coordinator verified it; None if no verification
                was needed.

        Raises:
            KafkaError: INVALID_TXN_STATE if the transaction has ended since.
        """
        _check_group_id(request.group_id)
        epoch = self._epoch_of(request.group_id)
        epoch.active()
        if verified_from is not None and epoch.producers.ended_since(producer.id, verified_from):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return epoch.decide(lambda shard, at: shard.commit_offsets(request, version, at, producer))

    def unverified_from(self, group_id: str, producer: Producer) -> Offset | None:
        """Returns the end of the log of the group's offsets if the producer has no open transaction there, else
        None.
        """
        epoch = self._epoch_of(group_id)
        epoch.active()
        is_known = epoch.producers.in_transaction(producer.id, producer.epoch)
        return None if is_known else epoch.log_end_offset

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> PendingResponse[OffsetFetchResponseGroup]:
        """Fetches offsets; the response waits until they are committed. An empty group id is allowed."""
        epoch = self._epoch_of(request.group_id)
        found = epoch.active().fetch_offsets(request, require_stable=require_stable)
        return epoch.submit(found)

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> PendingResponse[dict[TopicPartition, ErrorCode]]:
        """Deletes offsets of topics without subscribers; the response has a code for each."""
        _check_group_id(group_id)
        epoch = self._epoch_of(group_id)
        return epoch.submit(epoch.active().delete_offsets(group_id, partitions))

    def complete_transaction(
        self, partition_index: int, producer: Producer, marker: EndMarker, transaction_version: int
    ) -> AppendInfo:
        """Ends a transaction in a partition of `__consumer_offsets`, as
        `CoordinatorRuntime.complete_transaction` does.
        """
        return self.runtime.complete_transaction(
            partition_index, producer, marker, transaction_version
        )

    def publish(self, delta: MetadataDelta, _image: MetadataImage, _manifest: Manifest) -> None:
        """Removes the offsets of deleted topics (a `Publisher` of the metadata loader)."""
        if delta.topics.deleted:
            topic_ids = {topic.name: topic.id for topic in delta.topics.deleted.values()}
            for epoch in self.runtime.epochs:
                epoch.step_when_loaded(lambda shard, at: shard.topics_deleted(topic_ids, at))

    # -- groups

    def delete_groups(
        self,
        group_ids: Iterable[str],
        codes: dict[str, ErrorCode],
        pending: list[PendingResponse[dict[str, ErrorCode]]],
    ) -> Steps[None]:
        """Deletes groups without members, each of them once, in steps of one record. Adds final codes to `codes`, and
        codes that await a commit to `pending`. A group that a member joins meanwhile stays, but without the offsets
        already deleted.
        """
        for epoch, ids in (yield from self._by_shard(group_ids, codes)).items():
            left = dict.fromkeys(ids)
            while left:
                try:
                    deleted = epoch.active().delete_groups(list(islice(left, GROUPS_PER_STEP)))
                    pending.append(epoch.submit(deleted))
                except KafkaError as error:
                    codes.update(dict.fromkeys(left, error.code))
                    break
                for group_id in deleted.response:
                    del left[group_id]
                yield len(deleted.records)

    def describe_group(
        self, group_id: str, version: int
    ) -> tuple[DescribedGroup, Iterator[DescribedGroupMember]]:
        """Returns a group for DescribeGroups: its description without members, and an iterator over its members."""
        return self._epoch_of(group_id).active().kind_of(group_id).described(group_id, version)

    def groups_of(self, kind: GroupKind[G], group_id: str) -> G:
        """Returns the groups of a kind in the shard of `group_id`, for data that only this kind has."""
        return self._epoch_of(group_id).active().of(kind)

    def has(self, kind: GroupKind[G], group_id: str) -> bool:
        """Returns whether this broker coordinates the group, and it is of this kind."""
        try:
            return self.groups_of(kind, group_id).has(group_id)
        except KafkaError:
            return False

    def decide(
        self,
        kind: GroupKind[G],
        group_id: str,
        act: Callable[[G, Instant], Result[GroupRecord, T]],
    ) -> PendingResponse[T]:
        """Writes a decision about a group that only its kind knows."""
        _check_group_id(group_id)
        return self._epoch_of(group_id).decide(lambda shard, at: act(shard.of(kind), at))

    def list_groups(
        self, states: Collection[str], types: Collection[str]
    ) -> Iterator[list[ListedGroup]]:
        """Yields the groups of all shards, in pieces of `GROUPS_PER_STEP` before filtering.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS while a shard is being loaded.
        """
        for epoch in list(self.runtime.epochs):
            if epoch.state is not ShardState.CLOSED:
                yield from self.listed(epoch.active(), states, types)

    def listed(
        self,
        shard: GroupCoordinatorShard,
        states: Collection[str] = (),
        types: Collection[str] = (),
    ) -> Iterator[list[ListedGroup]]:
        """Yields the groups of one shard, in pieces small enough for a turn of the event loop."""
        group_ids = shard.group_ids()
        while some := list(islice(group_ids, GROUPS_PER_STEP)):
            yield shard.list_groups(some, states, types)

    def committed_partitions(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        """Returns the group's committed offsets by topic and partition. Raises KafkaError as `fetch_offsets` does."""
        return self._epoch_of(group_id).active().store.offsets.get(group_id, {})

    def _by_shard(
        self, group_ids: Iterable[str], refused: dict[str, ErrorCode]
    ) -> Steps[dict[_GroupEpoch, list[str]]]:
        """Returns the groups by the epochs of their shards, in steps of one group; adds refused groups to `refused`."""
        found: defaultdict[_GroupEpoch, list[str]] = defaultdict(list)
        for group_id in group_ids:
            try:
                found[self._epoch_of(group_id)].append(group_id)
            except KafkaError as error:
                refused[group_id] = error.code
            yield 1
        return found


@dataclass(frozen=True)
class ConnectionClosing:
    """A callback for the end of a connection; equal for the same connection, so that it is only called once."""

    groups: GroupCoordinator
    connection: int

    def __call__(self) -> None:
        for epoch in list(self.groups.runtime.epochs):
            if epoch.state is ShardState.ACTIVE:
                epoch.step(
                    lambda shard, at: shard.of(classic.KIND).connection_closed(self.connection, at)
                )


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
