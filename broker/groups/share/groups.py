"""The share groups of one shard: each input becomes an operation on a draft of a group, and its records are written.

The shard's store has the groups themselves, which only change by replay. Source: the parts of Kafka's
`GroupMetadataManager` for share groups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from trimaran.broker import events
from trimaran.broker.coordination.shard import Write
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.kinds import CheckPartition, Due, HeartbeatGroups, ShardParts
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.share import describe, heartbeat, initializing, offsets
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.member import JOINING_EPOCH, LEAVING_EPOCH
from trimaran.broker.groups.share.operation import (
    Initialization,
    ShareGroupWrite,
    ShareOperation,
    ShareWork,
)
from trimaran.broker.groups.share.records import group_tombstones, states_record
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.groups.walks import Walk
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponseTopic,
)
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.share_group_describe import DescribedGroup
from trimaran.wire.messages.share_group_describe import Member as DescribedMember
from trimaran.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from trimaran.wire.records.share_groups import ShareGroupMetadataKey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """One ShareGroupHeartbeat request; `principal` is charged for the memory of a new member."""

    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str
    principal: str = ""


class ShareGroups(HeartbeatGroups[ShareHeartbeat, ShareGroupHeartbeatResponse]):
    """The share groups. Members of other protocols may not join them, and they have no committed offsets."""

    def __init__(self, parts: ShardParts, settings: Callable[[str], ShareGroupSettings]) -> None:
        self._store = parts.store
        self._groups: Mapping[str, ShareGroup] = parts.store.of(describe.SHARE)
        self._is_other: Callable[[str], bool] = lambda group_id: any(
            groups is not self and groups.has(group_id) for groups in parts.made.values()
        )
        self._timers = parts.timers
        self._settings = settings
        self._topics = parts.dependencies.topics
        self._account = parts.account
        self._outputs = parts.outputs
        self._works: dict[str, ShareWork] = {}
        # The initialization that the last request has begun, until it is known whether it was written.
        self._begun: Initialization | None = None

    def has(self, group_id: str) -> bool:
        return group_id in self._groups

    def operation(self, group: ShareGroup, at: Instant) -> ShareOperation:
        return ShareOperation(
            group=group.draft(),
            at=at,
            timers=self._timers,
            settings=self._settings(group.id),
            topics=self._topics(),
            work=self._works.get(group.id) or ShareWork(),
        )

    def find(self, group_id: str) -> ShareGroup:
        """Returns an immutable copy of the group.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, also for groups of other kinds.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise self._not_found(group_id)
        return group.draft()

    def _not_found(self, group_id: str) -> KafkaError:
        is_other = self._is_other(group_id) or self._store.knows(group_id)
        why = "is not a share group" if is_other else "not found"
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")

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
            self._charge(operation, request.member_id, given.principal)
        self.keep(operation)
        return Result(operation.records, response)

    def _charge(self, operation: ShareOperation, member_id: str, principal: str) -> None:
        """Charges the principal of the request for a new member."""
        known = self._groups.get(operation.group.id)
        if known is None or member_id not in known.members:
            self._account.owned_by((operation.group.id, member_id), principal)

    def keep(self, operation: ShareOperation) -> None:
        """Keeps the work of an operation that will be written, and names it to the coordinator."""
        self._works[operation.group.id] = operation.work
        self._begun = operation.begun
        if operation.begun is not None:
            operation.work.initializations.append(operation.begun)
            self._outputs.resolve(operation.group.id)

    def expecting(self, at: Instant) -> Iterator[None]:
        """Sets the missing sessions of all loaded members, one per step."""
        for group in list(self._groups.values()):
            yield None
            if self._groups.get(group.id) is group:
                yield from self._expecting(group, at)

    def _expecting(self, group: ShareGroup, at: Instant) -> Iterator[None]:
        operation = self.operation(group, at)
        for member_id in list(group.members):
            if member_id in group.members and operation.session(member_id) not in self._timers:
                operation.expect_heartbeat(member_id)
            yield None

    def timer_due(self, key: TimerKey, at: Instant) -> Due:
        if (group := self._groups.get(key.group_id)) is not None:
            operation = self.operation(group, at)
            heartbeat.timed_out(operation, key.member_id)
            self._settle(operation)
        return Due.OTHER_GROUPS

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
        """Refuses no request: the partitions have no offset, as those of an unknown group."""

    def check_offset_delete(self, group_id: str) -> None:
        raise self._no_consumer_group(group_id)

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return topic in self._groups[group_id].name_counts

    # -- descriptions

    def listed(self, group_id: str) -> ListedGroup:
        return describe.listed(self._groups[group_id])

    def described_with_members(
        self, group_id: str
    ) -> tuple[DescribedGroup, Iterator[DescribedMember]]:
        """Returns a group as ShareGroupDescribe describes it, without its members, and these.

        Raises:
            KafkaError: as `find`.
        """
        assignor = self._settings(group_id).assignor
        return describe.described(self.find(group_id), self._topics(), assignor)

    # -- deletion

    def is_empty(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is None or group.is_empty

    def expired(self, _group_id: str, _at: Instant) -> Iterator[GroupRecord]:
        """Yields nothing: an empty group stays until it is deleted."""
        return iter(())

    def tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        if (group := self._groups.get(group_id)) is not None:
            for record in group_tombstones(group):
                if not self.is_empty(group_id):
                    return
                yield record

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
        self, group_id: str, topics: list[AlterShareGroupOffsetsRequestTopic], at: Instant
    ) -> Result[
        GroupRecord, tuple[list[AlterShareGroupOffsetsResponseTopic], Initialization | None]
    ]:
        """Returns the response, and the initialization that must succeed for it. May create the group.

        Raises:
            KafkaError: as `opened`; NON_EMPTY_GROUP.
        """
        operation = self.opened(group_id, at)
        responses = offsets.alter(operation, topics)
        self._works[group_id] = operation.work
        return Result(operation.records, (responses, operation.begun))

    def delete_offsets(
        self, group_id: str, topics: list[str], at: Instant
    ) -> Result[GroupRecord, offsets.Deletion]:
        """Returns the states to delete. Raises KafkaError as `find`; NON_EMPTY_GROUP."""
        operation = self.operation(self.find(group_id), at)
        deletion = offsets.delete(operation, topics)
        return Result(operation.records, deletion)

    def offsets_deleted(
        self, group_id: str, topic_ids: Collection[bytes], at: Instant
    ) -> Result[GroupRecord, None]:
        """Takes the outcome of a deletion."""
        operation = self.operation(self._groups.get(group_id) or ShareGroup(group_id), at)
        offsets.deleted(operation, topic_ids)
        return Result(operation.records, None)

    def release(self, group_id: str, at: Instant) -> Result[GroupRecord, list[TopicIdPartition]]:
        """Returns the partitions whose states must be deleted before the group. Raises KafkaError as `find`;
        NON_EMPTY_GROUP.
        """
        operation = self.operation(self.find(group_id), at)
        partitions = offsets.release(operation)
        return Result(operation.records, partitions)

    def next_initialization(self, group_id: str) -> Initialization | None:
        """Returns an initialization of the group that has not begun, or None if none is left."""
        work = self._works.get(group_id)
        return work.initializations.pop(0) if work is not None and work.initializations else None

    def initialized(
        self,
        group_id: str,
        done: Collection[TopicIdPartition],
        failed: Collection[TopicIdPartition],
        at: Instant,
    ) -> None:
        """Takes the outcome of an initialization that `next_initialization` has returned."""
        records = self.finish(group_id, done, failed, at).records
        if records:
            self._outputs.effects.writes.append(ShareGroupWrite(group_id=group_id, records=records))

    def finish(
        self,
        group_id: str,
        done: Collection[TopicIdPartition],
        failed: Collection[TopicIdPartition],
        at: Instant,
    ) -> Result[GroupRecord, None]:
        """Takes the outcome of an initialization."""
        operation = self.operation(self._groups.get(group_id) or ShareGroup(group_id), at)
        initializing.finish(operation, done, failed)
        return Result(operation.records, None)

    # -- writes

    def _settle(self, operation: ShareOperation) -> None:
        self._works[operation.group.id] = operation.work
        if operation.records:
            self._outputs.effects.writes.append(
                ShareGroupWrite(group_id=operation.group.id, records=operation.records)
            )

    def replayed(self, record: GroupRecord, at_load: bool) -> None:
        if not at_load and isinstance(record.key, ShareGroupMetadataKey) and not record.value:
            self._works.pop(record.key.group_id, None)

    def written(self, write: Write[GroupRecord], code: ErrorCode, at: Instant) -> None:
        """Restarts the sessions of members that a failed write would have removed."""
        if code is ErrorCode.NONE or not isinstance(write, ShareGroupWrite):
            return
        events.GROUP_METADATA_WRITE_FAILED.log(log, group=write.group_id, error=code.name)
        self._check_again(write.group_id, at)

    def heartbeat_failed(self, given: ShareHeartbeat, at: Instant) -> None:
        """Restores timers and memory after a heartbeat whose records were not written; what it would have begun, a
        later one begins.
        """
        request = given.request
        group = self._groups.get(request.group_id)
        if group is None or request.member_id not in group.members:
            self._account.gone((request.group_id, request.member_id), 0)
            self._timers.cancel(TimerKey(Timer.SESSION, request.group_id, request.member_id))
        self.not_written(request.group_id, at)

    def not_written(self, group_id: str, at: Instant) -> None:
        """Forgets what the last request would have begun, if it was not written."""
        work = self._works.get(group_id)
        if work is not None and self._begun is not None:
            work.initializations.remove(self._begun)
        self._begun = None
        self._check_again(group_id, at)

    def _check_again(self, group_id: str, at: Instant) -> None:
        """Sets the missing sessions, and drops what was found out for records that may not be written."""
        if (work := self._works.get(group_id)) is not None:
            work.checked_topics = work.checked_target = None
        if (group := self._groups.get(group_id)) is not None:
            for _ in self._expecting(group, at):
                pass
