"""The classic groups of one shard: `GroupsOfKind`, also for groups that only have offsets.

Kafka calls those simple groups, and keeps a classic group without a protocol for each of them. Source: the parts of
Kafka's `GroupMetadataManager` for classic groups.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from functools import partial

from trimaran.broker import events
from trimaran.broker.coordination.shard import Write
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic import describe, joining, offsets, rebalance, syncing
from trimaran.broker.groups.classic.arrivals import ABANDONED_SECONDS, Arrivals, is_arriving
from trimaran.broker.groups.classic.group import ClassicGroup, GroupState, restore_group
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.classic.operation import (
    ClassicTimer,
    GroupOperation,
    GroupWrite,
    Succession,
    join_error,
    leave_response,
    sync_error,
)
from trimaran.broker.groups.classic.records import group_record
from trimaran.broker.groups.kinds import CheckPartition, Due, GroupsOfKind, ShardParts, all_may
from trimaran.broker.groups.memory import ByGroup
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.walks import Walk
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.leave_group import MemberIdentity, MemberResponse
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.records.groups import GroupMetadataKey, GroupMetadataValue, OffsetCommitValue

S, E = GroupState, ErrorCode

CLASSIC = "classic"

log = logging.getLogger(__name__)


class ClassicGroups(GroupsOfKind):
    """The classic groups; `groups` has a group while it has a record, or members or pending members."""

    def __init__(self, parts: ShardParts) -> None:
        self.groups = ByGroup[ClassicGroup](parts.account)
        self._store = parts.store
        # The values of the groups' records.
        self._written: ByGroup[GroupMetadataValue] = parts.store.of(CLASSIC)
        self._timers = parts.timers
        self._limits = parts.limits
        self._account = parts.account
        self._outputs = parts.outputs
        # The group last converted by a decision to a consumer group, and the time: writing its records may fail.
        self._upgrade: tuple[ClassicGroup, Instant] | None = None
        self._arrivals = Arrivals(partial(is_arriving, self.groups))

    def has(self, group_id: str) -> bool:
        """Returns whether the group is a classic group; a group that only has offsets may be of any kind, and does not
        count.
        """
        return group_id in self.groups

    def classic_members(self) -> ClassicGroups:
        return self

    def unwritten(self) -> Collection[str]:
        return self.groups

    def operation(self, group: ClassicGroup, at: Instant) -> GroupOperation:
        return GroupOperation(group, at, self._timers, self._limits, self._outputs.effects)

    # -- life

    def finish_load(self) -> None:
        """Creates the groups from the records in the store."""
        for group_id, value in self._written.items():
            if not self._store.other_has_members(CLASSIC, group_id):
                self.groups[group_id] = restore_group(group_id, value, self._account)

    def expecting(self, at: Instant) -> Walk:
        """Sets the timers of members that have none yet, one member per step."""
        for group in list(self.groups.values()):
            yield None
            operation = self.operation(group, at)
            for member in list(group.members.values()):
                yield None
                if group.members.get(member.id) is member:
                    operation.expect_heartbeat_if_absent(member)
            rebalance.loaded(operation, self._written.get(group.id))

    def close(self, at: Instant) -> None:
        """Ends the epoch; only members of groups in a rebalance wait for responses."""
        rebalancing = (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE)
        for group in [group for group in self.groups.values() if group.state in rebalancing]:
            rebalance.respond_to_all(self.operation(group, at), E.NOT_COORDINATOR)

    def unload(self) -> None:
        while self.groups:
            self.groups.popitem()

    def listed(self, group_id: str) -> ListedGroup:
        group = self.groups.get(group_id)
        return ListedGroup(
            group_id=group_id,
            protocol_type=(group.protocol_type if group else None) or "",
            group_state=(group.state if group else S.EMPTY).value,
            group_type=CLASSIC,
        )

    def described(self, group_id: str, version: int) -> describe.Description:
        if (group := self.groups.get(group_id)) is not None:
            return describe.describe_group(group)
        if not self._store.knows(group_id):
            return describe.not_found(group_id, version, "not found")
        return describe.described(group_id, S.EMPTY.value), iter(())

    # -- expiry and deletion

    def may_expire(self, group_id: str) -> bool:
        """Returns False while the group rebalances or a client is about to join it."""
        group = self.groups.get(group_id)
        if group is None:
            return True
        is_stable = group.state is S.STABLE and group.uses_consumer_protocol
        return not group.pending and (group.state is S.EMPTY or is_stable)

    def retained_from(self, group_id: str, value: OffsetCommitValue) -> int:
        """Returns the time when the last member left, if the group ever had members, else the time of the commit."""
        group = self.groups.get(group_id)
        if group is None or group.state is not S.EMPTY or group.protocol_type is None:
            return value.commit_timestamp
        is_known = group.state_timestamp_ms != -1
        return group.state_timestamp_ms if is_known else value.commit_timestamp

    def is_empty(self, group_id: str) -> bool:
        group = self.groups.get(group_id)
        return group is None or group.state is S.EMPTY

    def expired(self, group_id: str, at: Instant) -> Iterator[GroupRecord]:
        group = self.groups.get(group_id)
        if group is not None and (group.state is not S.EMPTY or group.pending):
            return
        if group is not None and group_id not in self._written:
            self.forget(group, at)
        else:
            yield group_record(group_id, None)

    def tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        """Yields the tombstone of the group, also for a group that only has offsets."""
        if group_id in self._written or not self._store.is_of_other(CLASSIC, group_id):
            yield group_record(group_id, None)

    # -- members

    def join(self, join: Join, at: Instant) -> None:
        request = join.request
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id or not self._store.has_room_for(request.group_id):
                code = E.UNKNOWN_MEMBER_ID if request.member_id else E.GROUP_MAX_SIZE_REACHED
                self._outputs.respond(join.token, join_error(code, request.member_id))
                return
            group = ClassicGroup(request.group_id, at.now_ms, account=self._account)
            self.groups[group.id] = group
        member_id = joining.join(self.operation(group, at), join)
        self._forget_if_unused(group)
        self._arrivals.note((group.id, member_id), join.connection)

    def connection_closed(self, connection: int, at: Instant) -> None:
        """Shortens the session of members that were about to join on the closed connection."""
        for group_id, member_id in self._arrivals.closed(connection):
            key = TimerKey(Timer.SESSION, group_id, member_id)
            if (member := self.groups[group_id].members.get(member_id)) is not None:
                member.is_abandoned = True
            self._timers.bring_forward(key, at.now + ABANDONED_SECONDS)

    def sync(
        self, request: SyncGroupRequest, token: PendingResponse[SyncGroupResponse], at: Instant
    ) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            self._outputs.respond(token, sync_error(E.UNKNOWN_MEMBER_ID))
        else:
            syncing.sync(self.operation(group, at), request, token)

    def heartbeat(self, request: HeartbeatRequest, at: Instant) -> ErrorCode:
        group = self.groups.get(request.group_id)
        if group is None:
            return E.UNKNOWN_MEMBER_ID
        return syncing.heartbeat(self.operation(group, at), request)

    def leave(
        self, group_id: str, identities: list[MemberIdentity], at: Instant
    ) -> list[MemberResponse]:
        if (group := self.groups.get(group_id)) is None:
            return [leave_response(identity, E.UNKNOWN_MEMBER_ID) for identity in identities]
        responses = syncing.leave(self.operation(group, at), identities)
        self._forget_if_unused(group)
        return responses

    # -- offsets

    def check_commit(
        self, request: OffsetCommitRequest, version: int, at: Instant
    ) -> CheckPartition:
        """Checks a commit; a commit of a member also restarts its session."""
        group = self.groups.get(request.group_id)
        exists = group is None and self._store.has_had_offsets(request.group_id)
        offsets.check_commit(group, request, version, exists)
        if group is not None and group.state in {S.STABLE, S.PREPARING_REBALANCE}:
            self.operation(group, at).expect_heartbeat(group.members[request.member_id])
        return all_may

    def check_transactional_commit(
        self, request: OffsetCommitRequest, version: int
    ) -> CheckPartition:
        group, exists = self.groups.get(request.group_id), self._store.knows(request.group_id)
        offsets.check_transactional_commit(group, request, version, exists)
        return all_may

    def check_fetch(self, _request: OffsetFetchRequestGroup) -> None:
        """Refuses no client: all may read the offsets of a classic group."""

    def check_offset_delete(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is None and not self._store.knows(group_id):
            raise KafkaError(E.GROUP_ID_NOT_FOUND)
        if group is not None and group.state is not S.EMPTY and not group.uses_consumer_protocol:
            raise KafkaError(E.NON_EMPTY_GROUP)

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        group = self.groups.get(group_id)
        return group is not None and group.is_subscribed_to(topic)

    # -- time

    def timer_due(self, key: TimerKey, at: Instant) -> Due:
        group = self.groups.get(key.group_id)
        if group is None:
            return Due.ALL
        operation = self.operation(group, at)
        if key.kind is Timer.SESSION:
            rebalance.session_expired(operation, key.member_id)
        elif key.kind is ClassicTimer.JOIN:
            rebalance.complete_join(operation)
        elif key.kind is ClassicTimer.SYNC:
            rebalance.sync_expired(operation)
        elif key.kind is ClassicTimer.DOWNGRADE:
            rebalance.rebalance_or_complete(operation, "it was a consumer group")
        self._forget_if_unused(group)
        return Due.ALL

    # -- records

    def replayed(self, record: GroupRecord, at_load: bool) -> None:
        """Applies a record to the groups in memory. As in Kafka, members and generations are ahead of the records:
        members join before anything is written. A coordinator that loads the group begins with the last written
        generation.
        """
        key, value = record
        if not isinstance(key, GroupMetadataKey):
            return
        group = self.groups.get(key.group)
        if value is None and group is not None:
            del self.groups[key.group]
            self._end(group)
        elif group is None and not at_load and isinstance(value, GroupMetadataValue):
            # A consumer group has become a classic one.
            self.groups[key.group] = restore_group(key.group, value, self._account)

    def _end(self, group: ClassicGroup) -> None:
        """Ends a classic group, which has become a consumer group or been deleted."""
        upgrade, self._upgrade = self._upgrade, None
        if upgrade is None or upgrade[0] is not group:
            self._close(group, Instant(0.0, group.state_timestamp_ms), E.UNKNOWN_MEMBER_ID)
            return
        at = upgrade[1]
        self._close(group, at, E.REBALANCE_IN_PROGRESS)
        for member in group.members.values():
            key = TimerKey(Timer.SESSION, group.id, member.id)
            self._timers.set(key, at.after_ms(member.session_timeout_ms))

    def written(self, write: Write[GroupRecord], code: ErrorCode, at: Instant) -> None:
        """Handles the outcome of a write: committed (for which the members wait), not written, or not committed in
        time.
        """
        if isinstance(write, GroupWrite):
            if (group := self.groups.get(write.group_id)) is None:
                return
            if code is E.NONE:
                rebalance.committed(self.operation(group, at), write)
            else:
                rebalance.write_failed(self.operation(group, at), write, code)
        elif code and isinstance(write, Succession):
            self._give_up_succession(write.group_id, code, at)

    def _give_up_succession(self, group_id: str, code: ErrorCode, at: Instant) -> None:
        """Removes the classic group, because the consumer group is still in the log: the classic one would hide it, and
        restart its epochs.
        """
        events.GROUP_METADATA_WRITE_FAILED.log(log, group=group_id, error=code.name)
        if self._store.is_of_other(CLASSIC, group_id) and (group := self.groups.take(group_id)):
            self._close(group, at, code)

    # -- conversion to consumer groups

    def upgrading(self, group: ClassicGroup, at: Instant) -> None:
        """Notes the group that a decision converts to a consumer group."""
        self._upgrade = group, at

    def upgrade_failed(self, group_id: str, at: Instant) -> None:
        """Keeps the classic group, if there was one, because the decision could not be written."""
        self._upgrade = None
        if (group := self.groups.get(group_id)) is not None:
            operation = self.operation(group, at)
            for member in group.members.values():
                operation.expect_heartbeat_if_absent(member)

    # -- removal

    def forget(self, group: ClassicGroup, at: Instant) -> None:
        """Removes a group without a record."""
        self._close(group, at, E.UNKNOWN_MEMBER_ID)
        del self.groups[group.id]

    def _close(self, group: ClassicGroup, at: Instant, code: ErrorCode) -> None:
        rebalance.close(self.operation(group, at), code)

    def _forget_if_unused(self, group: ClassicGroup) -> None:
        """Removes a group without a record that its only client has left again, or never joined."""
        never_led = group.state is S.EMPTY and not group.pending and group.generation == 0
        if never_led and group.id not in self._written:
            self.groups.take(group.id)
