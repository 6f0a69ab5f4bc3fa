"""The consumer groups of one shard: each input becomes an operation on a draft of a group, and its
records are written.

The shard's store has the groups themselves, which only change by replay. Source: the parts of Kafka's
`GroupMetadataManager` for consumer groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic.group import ClassicGroup
from trimaran.broker.groups.classic.groups import ClassicGroups
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.classic.member import CONSUMER_PROTOCOL
from trimaran.broker.groups.classic.operation import Succession, join_error, sync_error
from trimaran.broker.groups.consumer import (
    assigning,
    classic_members,
    describe,
    fencing,
    heartbeat,
    migration,
    offsets,
    regexes,
)
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.operation import (
    ConsumerOperation,
    GroupWork,
)
from trimaran.broker.groups.consumer.records import group_tombstones
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings
from trimaran.broker.groups.heartbeating.groups import StoredGroups
from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH
from trimaran.broker.groups.heartbeating.offsets import check_fetch
from trimaran.broker.groups.heartbeating.operation import HeartbeatGroupWrite, HeartbeatTimer
from trimaran.broker.groups.kinds import CheckPartition, Due, HeartbeatGroups, ShardParts
from trimaran.broker.groups.outputs import AwaitedWrite, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.consumer_group_describe import DescribedGroup
from trimaran.wire.messages.consumer_group_describe import Member as DescribedMember
from trimaran.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.join_group import JoinGroupResponse
from trimaran.wire.messages.leave_group import MemberIdentity, MemberResponse
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.records.consumer_groups import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
)
from trimaran.wire.records.groups import GroupMetadataKey

# The delay before a member is fenced again if writing the first attempt failed.
RETRY_MS = 1_000


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """One ConsumerGroupHeartbeat request; `new_id` is for a member that has not chosen an id."""

    request: ConsumerGroupHeartbeatRequest
    version: int
    client_id: str
    client_host: str
    new_id: str
    may_see: regexes.MaySee
    # The error of the request's pattern, if any.
    refused: KafkaError | None = None
    # The principal that is charged for the memory of a new member.
    principal: str = ""


class ConsumerGroups(
    StoredGroups[ConsumerGroup, ConsumerOperation],
    HeartbeatGroups[ConsumerHeartbeat, ConsumerGroupHeartbeatResponse],
):
    """The consumer groups. They may be converted to and from classic groups (`classic`)."""

    def __init__(
        self,
        parts: ShardParts,
        settings: Callable[[str], ConsumerGroupSettings],
        classic: ClassicGroups,
    ) -> None:
        super().__init__(parts, describe.CONSUMER, CONSUMER_PROTOCOL)
        self._settings = settings
        self._classic = classic
        self._works: dict[str, GroupWork] = {}

    def has(self, group_id: str) -> bool:
        """Returns whether the group is a consumer group, and no classic group has replaced it while it was empty."""
        return super().has(group_id) and not self._classic.has(group_id)

    def classic_members(self) -> ConsumerGroups:
        """Returns `self`: members of the classic protocol may join a consumer group, for example after its
        conversion.
        """
        return self

    def operation(
        self,
        group: ConsumerGroup,
        at: Instant,
        work: GroupWork | None = None,
        settings: ConsumerGroupSettings | None = None,
    ) -> ConsumerOperation:
        work = work or self._works.get(group.id)
        if work is None:
            work = self._works[group.id] = GroupWork()
        return ConsumerOperation(
            group=group.draft(),
            at=at,
            timers=self._timers,
            settings=settings or self._settings(group.id),
            topics=self._topics(),
            work=work,
        )

    def _expecting(self, group: ConsumerGroup, at: Instant) -> Iterator[None]:
        yield from super()._expecting(group, at)
        if group.epoch > group.assignment_epoch and not group.is_empty:
            self.operation(group, at).set_timer_if_absent(HeartbeatTimer.TARGET, RETRY_MS, "")

    # -- members of the consumer protocol

    def member_heartbeat(
        self, given: ConsumerHeartbeat, at: Instant
    ) -> Result[GroupRecord, ConsumerGroupHeartbeatResponse]:
        """Handles a member that joins, stays or leaves. A joining member may create the group, or convert a classic
        one.

        Raises:
            KafkaError: the reason for a refusal.
        """
        request = given.request
        if request.group_id not in self._groups:
            self._store.check_room_for(request.group_id)
        classic = self._classic.groups.get(request.group_id)
        settings = self._settings(request.group_id)
        heartbeat.check_request(request, given.version, settings.assignors)
        operation = self._open(request, classic, settings, at)
        operation.fits = partial(self._account.member_fits, given.principal)
        if request.member_epoch < JOINING_EPOCH:
            response = heartbeat.leave(operation, request)
        else:
            member_id = request.member_id or given.new_id
            client = (given.client_id, given.client_host)
            response = heartbeat.heartbeat(
                operation, request, member_id, client, given.may_see, given.refused
            )
            if operation.records:
                self._own(operation, member_id, given.principal)
        self._works[request.group_id] = operation.work
        if operation.work.regexes and not operation.work.resolving:
            operation.work.resolving = True
            self._outputs.resolve(request.group_id)
        if classic is not None:
            self._classic.upgrading(classic, at)
        return Result(operation.records, response)

    def _open(
        self,
        request: ConsumerGroupHeartbeatRequest,
        classic: ClassicGroup | None,
        settings: ConsumerGroupSettings,
        at: Instant,
    ) -> ConsumerOperation:
        group = self._groups.get(request.group_id)
        if group is not None and classic is None:
            return self.operation(group, at, settings=settings)
        is_other = classic is not None or self._is_other(request.group_id)
        if request.member_epoch != JOINING_EPOCH or (is_other and classic is None):
            why = "is not a consumer group" if is_other else "not found"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {why}.")
        operation = self.operation(ConsumerGroup(request.group_id), at, GroupWork(), settings)
        if classic is not None:
            records = migration.upgrade(classic, operation.settings, operation.topics, at.now_ms)
            for record in records:
                operation.records.append(record)
                if not isinstance(record.key, GroupMetadataKey):
                    operation.group.apply(record.key, record.value)
        return operation

    # -- members of the classic protocol

    def join(self, join: Join, at: Instant) -> None:
        """Writes the outcome of the join; the response is sent after the commit. A classic group replaces an empty
        consumer group.
        """
        group = self._groups[join.request.group_id]
        if group.is_empty:
            records = list(group_tombstones(group))
            self._outputs.effects.writes.append(Succession(group.id, records))
            self._classic.join(join, at)
            return
        operation = self.operation(group, at)
        operation.fits = partial(self._account.member_fits, join.principal)
        try:
            write = classic_members.join(operation, join)
        except KafkaError as error:
            self._outputs.respond(join.token, join_error(error.code, join.request.member_id))
            return
        assert isinstance(write.response, JoinGroupResponse)
        self._own(operation, write.response.member_id, join.principal)
        self._outputs.effects.writes.append(write)

    def sync(
        self, request: SyncGroupRequest, token: PendingResponse[SyncGroupResponse], at: Instant
    ) -> None:
        operation = self.operation(self._groups[request.group_id], at)
        try:
            response = classic_members.sync(operation, request)
        except KafkaError as error:
            self._outputs.respond(token, sync_error(error.code))
        else:
            self._outputs.effects.writes.append(AwaitedWrite(token, response, sync_error))

    def heartbeat(self, request: HeartbeatRequest, at: Instant) -> ErrorCode:
        operation = self.operation(self._groups[request.group_id], at)
        return classic_members.keep_alive(operation, request)

    def leave(
        self, group_id: str, identities: list[MemberIdentity], at: Instant
    ) -> list[MemberResponse]:
        operation = self.operation(self._groups[group_id], at)
        responses = classic_members.leave(operation, identities)
        self._settle(operation)
        return responses

    # -- offsets

    def check_commit(
        self, request: OffsetCommitRequest, version: int, _at: Instant
    ) -> CheckPartition:
        return offsets.check_commit_request(self._groups[request.group_id], request, version)

    def check_transactional_commit(
        self, request: OffsetCommitRequest, version: int
    ) -> CheckPartition:
        return offsets.check_transactional_commit(self._groups[request.group_id], request, version)

    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        check_fetch(self._groups[request.group_id], request)

    def check_offset_delete(self, _group_id: str) -> None:
        """Refuses no deletion: offsets of topics without subscribers may be deleted."""

    def described_with_members(
        self, group_id: str
    ) -> tuple[DescribedGroup, Iterator[DescribedMember]]:
        """Returns a group as ConsumerGroupDescribe describes it, without its members, and an iterator of its members.

        Raises:
            KafkaError: as `find` does.
        """
        default = self._settings(group_id).assignors[0]
        return describe.described(self.find(group_id), self._topics(), default)

    # -- deletion

    def _tombstones(self, group: ConsumerGroup) -> Iterator[GroupRecord]:
        return group_tombstones(group)

    # -- patterns

    def next_regex(self, group_id: str) -> tuple[str, regexes.MaySee] | None:
        """Returns a pattern of the group to resolve, with the rights of the member that sent it, or None if none is
        left.
        """
        work = self._works.get(group_id)
        if work is None:
            return None
        if not work.regexes:
            work.resolving = False
            return None
        return next(iter(work.regexes.items()))

    def regex_resolved(
        self, group_id: str, regex: str, topics: frozenset[str] | None, version: int, at: Instant
    ) -> None:
        """Stores the topics that a pattern matches at a metadata offset; `topics` is None if this broker cannot resolve
        it.
        """
        group, work = self._groups.get(group_id), self._works.get(group_id)
        if work is None or work.regexes.pop(regex, None) is None:
            return  # no member waits for the pattern any longer
        if group is None or topics is None:
            return
        operation = self.operation(group, at)
        if regexes.resolved(operation, regex, topics, version):
            operation.bump_epoch()
            assigning.assign_if_due(operation)
            self._settle(operation)

    # -- timers

    def timer_due(self, key: TimerKey, at: Instant) -> Due:
        operation = self.operation(self._groups[key.group_id], at)
        if key.kind is HeartbeatTimer.TARGET:
            assigning.work_on_target(operation)
        elif key.kind in fencing.TIMED_OUT:
            fencing.timed_out(operation, key.member_id, key.kind)
        self._settle(operation)
        return Due.NONE if key.kind is HeartbeatTimer.TARGET else Due.OTHER_GROUPS

    # -- writes

    def replayed(self, record: GroupRecord, at_load: bool) -> None:
        if not at_load and isinstance(record.key, ConsumerGroupMetadataKey) and not record.value:
            self.forget(record.key.group_id)

    def _not_written(self, write: HeartbeatGroupWrite, at: Instant) -> None:
        for key, _ in write.records:
            if isinstance(key, ConsumerGroupMemberMetadataKey):
                self._disown(key.group_id, key.member_id)
        group = self._groups.get(write.group_id)
        if group is not None:
            self.forget(write.group_id)
            self._expect_members(group, at)

    def heartbeat_failed(self, given: ConsumerHeartbeat, at: Instant) -> None:
        """Restores timers after a heartbeat whose records were not written: a leaving member is still there, and is
        removed when its session ends. If the group's work was dropped, as when the last member of the consumer protocol
        leaves, it restarts.
        """
        request = given.request
        self._classic.upgrade_failed(request.group_id, at)
        group = self._groups.get(request.group_id)
        if group is None or request.member_epoch < JOINING_EPOCH:
            self.forget(request.group_id)
        self._disown(request.group_id, request.member_id or given.new_id)
        if group is None:
            return
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            member = group.static_member(request.instance_id)
        if member is not None:
            self.operation(group, at).expect(member)

    def forget(self, group_id: str) -> None:
        """Drops the pending work of a group that is gone or must start over."""
        self._works.pop(group_id, None)
        self._timers.cancel(TimerKey(HeartbeatTimer.TARGET, group_id))
