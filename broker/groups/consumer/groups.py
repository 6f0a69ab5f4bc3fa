"""The consumer groups of one shard: each input becomes an operation on a draft of a group, and its
records are written.

The shard's store has the groups themselves, which only change by replay. Source: the parts of Kafka's
`GroupMetadataManager` for consumer groups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from trimaran.broker import events
from trimaran.broker.coordination.shard import Write
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic.group import ClassicGroup
from trimaran.broker.groups.classic.groups import ClassicGroups
from trimaran.broker.groups.classic.joining import Join
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
from trimaran.broker.groups.consumer.member import JOINING_EPOCH, ConsumerMember, MemberState
from trimaran.broker.groups.consumer.operation import (
    ConsumerGroupWrite,
    ConsumerOperation,
    ConsumerTimer,
    GroupWork,
)
from trimaran.broker.groups.consumer.records import group_tombstones
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings
from trimaran.broker.groups.kinds import CheckPartition, Due, HeartbeatGroups, ShardParts
from trimaran.broker.groups.outputs import AwaitedResponse, Timer, TimerKey
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
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.records.consumer_groups import (
    ConsumerGroupKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupValue,
)
from trimaran.wire.records.groups import GroupMetadataKey

# The delay before a member is fenced again if writing the first attempt failed.
RETRY_MS = 1_000

log = logging.getLogger(__name__)


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


class ConsumerGroups(HeartbeatGroups[ConsumerHeartbeat, ConsumerGroupHeartbeatResponse]):
    """The consumer groups. They may be converted to and from classic groups (`classic`)."""

    def __init__(
        self,
        parts: ShardParts,
        settings: Callable[[str], ConsumerGroupSettings],
        classic: ClassicGroups,
    ) -> None:
        self._store = parts.store
        self._groups: Mapping[str, ConsumerGroup] = parts.store.of(describe.CONSUMER)
        self._timers = parts.timers
        self._settings = settings
        self._topics = parts.dependencies.topics
        self._account = parts.account
        self._outputs = parts.outputs
        self._classic = classic
        self._works: dict[str, GroupWork] = {}
        # Returns whether the group is of a kind that has no members in common with consumer groups.
        self._is_other: Callable[[str], bool] = lambda group_id: any(
            groups not in (self, classic) and groups.has(group_id) for groups in parts.made.values()
        )

    def has(self, group_id: str) -> bool:
        """Returns whether the group is a consumer group, and no classic group has replaced it while it was empty."""
        return group_id in self._groups and not self._classic.has(group_id)

    def classic_members(self) -> ConsumerGroups:
        """Returns these groups: a client may not know yet that its group was converted."""
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

    def expecting(self, at: Instant) -> Iterator[None]:
        """Sets the missing timers of all loaded groups, one member per step."""
        for group in list(self._groups.values()):
            yield None
            if self._groups.get(group.id) is group:
                yield from self._expecting(group, at)

    def expect_members(self, group: ConsumerGroup, at: Instant) -> None:
        """Sets the missing timers of a group after a failed write."""
        for _ in self._expecting(group, at):
            pass

    def _expecting(self, group: ConsumerGroup, at: Instant) -> Iterator[None]:
        operation = self.operation(group, at)
        for member_id in list(group.members):
            if (member := group.members.get(member_id)) is not None:
                _expect(operation, member)
            yield None
        if group.epoch > group.assignment_epoch and not group.is_empty:
            operation.set_timer_if_absent(ConsumerTimer.TARGET, RETRY_MS, "")

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
                self._new_for(operation, member_id, given.principal)
        self._works[request.group_id] = operation.work
        if operation.work.regexes and not operation.work.resolving:
            operation.work.resolving = True
            self._outputs.resolve(request.group_id)
        if classic is not None:
            self._classic.upgrading(classic, at)
        return Result(operation.records, response)

    def _new_for(self, operation: ConsumerOperation, member_id: str, principal: str) -> None:
        """Charges the principal of the request for a new member that was admitted."""
        known = self._groups.get(operation.group.id)
        is_known = known is not None and member_id in known.members
        if member_id in operation.group.members and not is_known:
            self._account.owned_by((operation.group.id, member_id), principal)

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
                    operation.group.apply(
                        cast(ConsumerGroupKey, record.key),
                        cast("ConsumerGroupValue | None", record.value),
                    )
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
        self._new_for(operation, write.response.member_id, join.principal)
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
            self._outputs.effects.writes.append(AwaitedResponse(token, response, sync_error))

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
        offsets.check_fetch(self._groups[request.group_id], request)

    def check_offset_delete(self, _group_id: str) -> None:
        """Refuses no deletion: offsets of topics without subscribers may be deleted."""

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return self._groups[group_id].is_subscribed_to(topic)

    def listed(self, group_id: str) -> ListedGroup:
        return describe.listed(self._groups[group_id])

    def find(self, group_id: str) -> ConsumerGroup:
        """Returns an immutable copy of the group.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, also for groups of other kinds.
        """
        if not self.has(group_id):
            is_other = self._classic.has(group_id) or self._store.knows(group_id)
            why = "is not a consumer group" if is_other else "not found"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
        return self._groups[group_id].draft()

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

    def is_empty(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is None or group.is_empty

    def tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        if (group := self._groups.get(group_id)) is not None:
            for record in group_tombstones(group):
                if not self.is_empty(group_id):
                    return
                yield record

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
            return  # no member waits for it any longer
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
        if key.kind is ConsumerTimer.TARGET:
            assigning.work_on_target(operation)
        elif key.kind in fencing.TIMED_OUT:
            fencing.timed_out(operation, key.member_id, key.kind)
        self._settle(operation)
        return Due.NONE if key.kind is ConsumerTimer.TARGET else Due.OTHER_GROUPS

    def _settle(self, operation: ConsumerOperation) -> None:
        if operation.records:
            self._outputs.effects.writes.append(
                ConsumerGroupWrite(group_id=operation.group.id, records=operation.records)
            )

    # -- writes

    def replayed(self, record: GroupRecord, at_load: bool) -> None:
        if not at_load and isinstance(record.key, ConsumerGroupMetadataKey) and not record.value:
            self.forget(record.key.group_id)

    def written(self, write: Write[GroupRecord], code: ErrorCode, at: Instant) -> None:
        """Restarts the group's timers after a failed write, with a delay: otherwise a write in pieces would fail in a
        loop.
        """
        if code is ErrorCode.NONE or not isinstance(write, ConsumerGroupWrite):
            return
        events.GROUP_METADATA_WRITE_FAILED.log(log, group=write.group_id, error=code.name)
        for key, _ in write.records:
            if isinstance(key, ConsumerGroupMemberMetadataKey):
                self._disown(key.group_id, key.member_id)
        group = self._groups.get(write.group_id)
        if group is not None:
            self.forget(write.group_id)
            self.expect_members(group, at)

    def _disown(self, group_id: str, member_id: str) -> None:
        """Releases the account of an id, unless the group has a member with that id."""
        group = self._groups.get(group_id)
        if group is None or member_id not in group.members:
            self._account.gone((group_id, member_id), 0)

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
            _expect(self.operation(group, at), member)

    def forget(self, group_id: str) -> None:
        """Drops the pending work of a group that is gone or must start over."""
        self._works.pop(group_id, None)
        self._timers.cancel(TimerKey(ConsumerTimer.TARGET, group_id))


def _expect(operation: ConsumerOperation, member: ConsumerMember) -> None:
    """Sets the missing timers of a member."""
    if operation.key(Timer.SESSION, member.id) not in operation.timers:
        operation.expect_heartbeat(member)
    if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
        operation.set_timer_if_absent(
            ConsumerTimer.REVOCATION, member.rebalance_timeout_ms, member.id
        )
