"""The share groups of one shard: each input becomes an operation on a draft of a group, and its records are written.

The shard's store has the groups themselves, which only change by replay. Source: the parts of Kafka's
`GroupMetadataManager` for share groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.heartbeating.groups import StoredGroups
from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, LEAVING_EPOCH
from trimaran.broker.groups.heartbeating.operation import HeartbeatGroupWrite, HeartbeatTimer
from trimaran.broker.groups.kinds import CheckPartition, Due, HeartbeatGroups, ShardParts
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.share import assigning, describe, heartbeat, initializing, offsets
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.operation import (
    Initialization,
    ShareOperation,
    ShareWork,
)
from trimaran.broker.groups.share.records import group_tombstones, states_record
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.groups.share.start_offsets import NewOffsets
from trimaran.broker.groups.walks import Walk
from trimaran.broker.share_state.changes import InitializedStates
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.share_group_describe import DescribedGroup
from trimaran.wire.messages.share_group_describe import Member as DescribedMember
from trimaran.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from trimaran.wire.records.share_groups import ShareGroupMetadataKey


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """One ShareGroupHeartbeat request; `principal` is charged for the memory of a new member."""

    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str
    principal: str = ""


class ShareGroups(
    StoredGroups[ShareGroup, ShareOperation],
    HeartbeatGroups[ShareHeartbeat, ShareGroupHeartbeatResponse],
):
    """The share groups of a shard, and the operations on them. Members of other protocols may not join them, and they
    have no committed offsets.
    """

    def __init__(self, parts: ShardParts, settings: Callable[[str], ShareGroupSettings]) -> None:
        super().__init__(parts, describe.SHARE, describe.SHARE)
        self._settings = settings
        self._works: dict[str, ShareWork] = {}
        # Whether the last heartbeat has begun an initialization, which is dropped if the heartbeat's records are not
        # written.
        self._has_begun = False

    def operation(self, group: ShareGroup, at: Instant) -> ShareOperation:
        return ShareOperation(
            group=group.draft(),
            at=at,
            timers=self._timers,
            settings=self._settings(group.id),
            topics=self._topics(),
            work=self._works.get(group.id) or ShareWork(),
        )

    def _known(self, group_id: str) -> ShareGroup:
        """Returns the group, or an empty one that is not stored."""
        return self._groups.get(group_id) or ShareGroup(group_id)

    def opened(self, group_id: str, at: Instant) -> ShareOperation:
        """Returns an operation on the group, which it may create.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND if the group is of another kind; GROUP_MAX_SIZE_REACHED if the broker has no
                room for another group.
        """
        group = self._groups.get(group_id)
        if group is None:
            if self._is_other(group_id) or self._store.knows(group_id):
                raise self._not_found(group_id)
            self._store.check_room_for(group_id)
            group = ShareGroup(group_id)
        return self.operation(group, at)

    # -- members

    def member_heartbeat(
        self, given: ShareHeartbeat, at: Instant
    ) -> Result[GroupRecord, ShareGroupHeartbeatResponse]:
        """Handles a member that joins, stays or leaves; a joining member may create the group. The request must have
        passed `heartbeat.check_request`.

        Raises:
            KafkaError: the reason for a refusal.
        """
        request = given.request
        if request.member_epoch == JOINING_EPOCH:
            operation = self.opened(request.group_id, at)
        else:
            operation = self.operation(self.find(request.group_id), at)
        operation.fits = partial(self._account.member_fits, given.principal)
        if request.member_epoch == LEAVING_EPOCH:
            response = heartbeat.leave(operation, request)
        else:
            client = (given.client_id, given.client_host)
            response = heartbeat.heartbeat(operation, request, client)
            self._own(operation, request.member_id, given.principal)
        self.keep(operation)
        return Result(operation.records, response)

    def keep(self, operation: ShareOperation) -> None:
        """Keeps the work of an operation that will be written. If the operation begins an initialization, requests the
        follow-up that carries it out.
        """
        self._works[operation.group.id] = operation.work
        self._has_begun = operation.begun is not None
        if operation.begun is not None:
            operation.work.waiting = operation.begun
            self._outputs.resolve(operation.group.id)

    def timer_due(self, key: TimerKey, at: Instant) -> Due:
        if (group := self._groups.get(key.group_id)) is not None:
            operation = self.operation(group, at)
            if key.kind is HeartbeatTimer.TARGET:
                assigning.work_on_target(operation)
            else:
                heartbeat.timed_out(operation, key.member_id)
            self._works[group.id] = operation.work
            self._settle(operation)
        return Due.NONE if key.kind is HeartbeatTimer.TARGET else Due.OTHER_GROUPS

    # -- offsets, which share groups do not have

    def _no_consumer_group(self, group_id: str) -> KafkaError:
        return KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
        )

    def check_commit(
        self, request: OffsetCommitRequest, _version: int, _at: Instant
    ) -> CheckPartition:
        raise self._no_consumer_group(request.group_id)

    def check_transactional_commit(
        self, request: OffsetCommitRequest, _version: int
    ) -> CheckPartition:
        raise self._no_consumer_group(request.group_id)

    def check_fetch(self, _request: OffsetFetchRequestGroup) -> None:
        """Accepts every request: as in an unknown group, no partition has a committed offset."""

    def check_offset_delete(self, group_id: str) -> None:
        raise self._no_consumer_group(group_id)

    # -- descriptions

    def described_with_members(
        self, group_id: str
    ) -> tuple[DescribedGroup, Iterator[DescribedMember]]:
        """Returns the description of a group without its members, and an iterator that describes its members.

        Raises:
            KafkaError: as `find` does.
        """
        assignor = self._settings(group_id).assignor
        return describe.described(self.find(group_id), self._topics(), assignor)

    # -- deletion

    def expired(self, _group_id: str, _at: Instant) -> Iterator[GroupRecord]:
        """Yields nothing: an empty group stays until it is deleted."""
        return iter(())

    def _tombstones(self, group: ShareGroup) -> Iterator[GroupRecord]:
        return group_tombstones(group)

    def of_gone_topics(self) -> Walk:
        """Yields records without the share partitions of deleted topics: their states are gone, too."""
        for group_id in list(self._groups):
            group, topics = self._groups.get(group_id), self._topics()
            states = None if group is None else group.states
            gone = [
                topic_id
                for topic_id in (() if states is None else states.topic_ids)
                if topics.name_of(topic_id) is None
            ]
            yield None
            if states is not None and gone:
                yield states_record(group_id, states.without_topics(gone))

    # -- the states of share partitions

    def alter_offsets(
        self, group_id: str, alteration: offsets.Alteration, at: Instant
    ) -> Result[GroupRecord, offsets.Altered | None]:
        """Returns the initialization that must succeed for the response. May create the group.

        Raises:
            KafkaError: as `opened` and `offsets.alter` do.
        """
        operation = self.opened(group_id, at)
        begun = offsets.alter(operation, alteration)
        return Result(operation.records, begun)

    def delete_offsets(
        self, group_id: str, topics: list[str], at: Instant
    ) -> Result[GroupRecord, offsets.Deletion]:
        """Returns the states to delete. Raises KafkaError as `find` does; NON_EMPTY_GROUP."""
        operation = self.operation(self.find(group_id), at)
        deletion = offsets.delete(operation, topics)
        return Result(operation.records, deletion)

    def offsets_deleted(
        self, group_id: str, topic_ids: Collection[bytes], at: Instant
    ) -> Result[GroupRecord, None]:
        """Applies the outcome of a deletion."""
        operation = self.operation(self._known(group_id), at)
        offsets.deleted(operation, topic_ids)
        return Result(operation.records, None)

    def release(self, group_id: str, at: Instant) -> Result[GroupRecord, offsets.States]:
        """Returns the partitions whose states must be deleted before the group. Raises KafkaError as `find` does;
        NON_EMPTY_GROUP.
        """
        operation = self.operation(self.find(group_id), at)
        released = offsets.release(operation)
        return Result(operation.records, released)

    def begin_initialization(self, group_id: str) -> Initialization[NewOffsets] | None:
        """Starts and returns the waiting initialization, without partitions that an alteration has initialized
        meanwhile, because their states may be in use. Returns None if there is nothing to initialize.
        """
        work = self._works.get(group_id)
        if work is None or work.waiting is None:
            return None
        begun = initializing.unfinished(work.waiting, self._known(group_id).known_states)
        work.waiting = None
        work.running = begun if begun.offsets else None
        return work.running

    def initialized(
        self,
        group_id: str,
        begun: Initialization[NewOffsets],
        outcome: InitializedStates,
        at: Instant,
    ) -> None:
        """Applies the outcome of the running initialization; ignores it if the group was deleted meanwhile."""
        work = self._works.get(group_id)
        if work is not None and work.running is begun:
            work.running = None
            self._settle(self._finished(group_id, outcome, at))

    def finish(
        self, group_id: str, outcome: InitializedStates, at: Instant
    ) -> Result[GroupRecord, None]:
        """Applies the outcome of an initialization."""
        return Result(self._finished(group_id, outcome, at).records, None)

    def _finished(self, group_id: str, outcome: InitializedStates, at: Instant) -> ShareOperation:
        operation = self.operation(self._known(group_id), at)
        initializing.finish(operation, outcome)
        if self.has(group_id):
            self._works[group_id] = operation.work
        return operation

    # -- writes

    def replayed(self, record: GroupRecord, at_load: bool) -> None:
        if not at_load and isinstance(record.key, ShareGroupMetadataKey) and not record.value:
            self.forget(record.key.group_id)

    def _not_written(self, write: HeartbeatGroupWrite, at: Instant) -> None:
        self._restart(write.group_id, at)

    def heartbeat_failed(self, given: ShareHeartbeat, at: Instant) -> None:
        """Restores timers and memory after a heartbeat whose records were not written; a later heartbeat begins the
        initialization instead.
        """
        request = given.request
        if self._disown(request.group_id, request.member_id):
            self._timers.cancel(TimerKey(Timer.SESSION, request.group_id, request.member_id))
        if self._has_begun and (work := self._works.get(request.group_id)) is not None:
            work.waiting = None
        self._restart(request.group_id, at)

    def _restart(self, group_id: str, at: Instant) -> None:
        """Drops what was decided but not written, and sets the missing sessions. The records are checked again by the
        next heartbeat.
        """
        group, work = self._groups.get(group_id), self._works.get(group_id)
        if group is None:
            self.forget(group_id)
            return
        if work is not None:
            work.checked_topics = work.checked_target = work.target = None
            self._timers.cancel(TimerKey(HeartbeatTimer.TARGET, group_id))
        self._expect_members(group, at)

    def forget(self, group_id: str) -> None:
        """Drops the work of a group that is gone or was never written."""
        self._works.pop(group_id, None)
        self._timers.cancel(TimerKey(HeartbeatTimer.TARGET, group_id))
