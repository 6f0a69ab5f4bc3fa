"""The streams groups of one shard: each input becomes an operation on a draft of a group, and its records are written.

The shard's store has the groups themselves, which only change by replay. Source: the parts of Kafka's
`GroupMetadataManager` for streams groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.groups import ClassicGroups
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.classic.operation import Succession
from trimaran.broker.groups.classic.records import group_record
from trimaran.broker.groups.classic.refusing import NoClassicMembers
from trimaran.broker.groups.heartbeating.groups import StoredGroups
from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH
from trimaran.broker.groups.heartbeating.offsets import MEMBER_EPOCH_VERSION, check_fetch
from trimaran.broker.groups.heartbeating.operation import HeartbeatGroupWrite, HeartbeatTimer
from trimaran.broker.groups.kinds import CheckPartition, Due, HeartbeatGroups, ShardParts
from trimaran.broker.groups.memory import GROUPS_BYTES_MAX, PARTITION_BYTES
from trimaran.broker.groups.outputs import Outputs, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.streams import assigning, describe, fencing, heartbeat, offsets
from trimaran.broker.groups.streams.admission import known_member
from trimaran.broker.groups.streams.descriptions import (
    DescriptionStatus,
    description_bytes,
    normal_description,
)
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.heartbeat import StreamsHeartbeatAnswer
from trimaran.broker.groups.streams.operation import (
    StreamsGroupWork,
    StreamsOperation,
    StreamsTimer,
)
from trimaran.broker.groups.streams.records import group_tombstones
from trimaran.broker.groups.streams.requests import check_request, refused
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.streams_group_describe import DescribedGroup
from trimaran.wire.messages.streams_group_describe import Member as DescribedMember
from trimaran.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from trimaran.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from trimaran.wire.records.streams_groups import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTopologyKey,
)


@dataclass(frozen=True, slots=True)
class StreamsHeartbeat:
    """One StreamsGroupHeartbeat request; `principal` is charged for the memory of a new member."""

    request: StreamsGroupHeartbeatRequest
    version: int
    client_id: str
    client_host: str
    principal: str = ""


class StreamsGroups(
    StoredGroups[StreamsGroup, StreamsOperation],
    HeartbeatGroups[StreamsHeartbeat, StreamsHeartbeatAnswer],
):
    """The streams groups. An empty streams group may be replaced by a classic group (`classic`), and an empty classic
    group by a streams group.
    """

    def __init__(
        self,
        parts: ShardParts,
        settings: Callable[[str], StreamsGroupSettings],
        classic: ClassicGroups,
    ) -> None:
        super().__init__(parts, describe.STREAMS, describe.STREAMS)
        self._settings = settings
        self._classic = classic
        self._works: dict[str, StreamsGroupWork] = {}

    def has(self, group_id: str) -> bool:
        """Returns whether the group is a streams group, and no classic group has replaced it while it was empty."""
        return super().has(group_id) and not self._classic.has(group_id)

    def classic_members(self) -> JoinsEmptyGroups:
        return JoinsEmptyGroups(self._outputs, self._groups, self._classic)

    def operation(
        self, group: StreamsGroup, at: Instant, work: StreamsGroupWork | None = None
    ) -> StreamsOperation:
        work = work or self._works.get(group.id)
        if work is None:
            work = self._works[group.id] = StreamsGroupWork()
        return StreamsOperation(
            group=group.draft(),
            at=at,
            timers=self._timers,
            settings=self._settings(group.id),
            topics=self._topics(),
            work=work,
        )

    # -- members

    def member_heartbeat(
        self, given: StreamsHeartbeat, at: Instant
    ) -> Result[GroupRecord, StreamsHeartbeatAnswer]:
        """Handles a member that joins, stays or leaves. A joining member may create the group, or replace an empty
        classic one.

        Raises:
            KafkaError: the reason for a refusal.
        """
        request = given.request
        if request.group_id not in self._groups:
            self._store.check_room_for(request.group_id)
        check_request(request)
        classic = self._classic.groups.get(request.group_id)
        operation = self._open(request, classic, at)
        operation.fits = partial(self._account.member_fits, given.principal)
        before = _offset_count(operation.work, request.member_id)
        if request.member_epoch < JOINING_EPOCH:
            answer = heartbeat.leave(operation, request)
        else:
            client = (given.client_id, given.client_host)
            answer = heartbeat.heartbeat(operation, request, given.version, client)
            self._charge_offsets(operation, request.member_id, before)
            if operation.records:
                self._own(operation, request.member_id, given.principal)
        self._works[request.group_id] = operation.work
        return Result(operation.records, answer)

    def _open(
        self, request: StreamsGroupHeartbeatRequest, classic: ClassicGroup | None, at: Instant
    ) -> StreamsOperation:
        group_id, joins = request.group_id, request.member_epoch == JOINING_EPOCH
        group = self._groups.get(group_id)
        if group is not None and classic is None:
            return self.operation(group, at)
        is_other = classic is not None or self._store.is_of_other(describe.STREAMS, group_id)
        replaces = classic is not None and classic.state is GroupState.EMPTY
        if not joins or (is_other and not replaces):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group_id} is not a streams group."
                if is_other
                else f"Streams group {group_id} not found.",
            )
        operation = self.operation(StreamsGroup(group_id), at, StreamsGroupWork())
        if replaces:
            operation.records.append(group_record(group_id, None))
        return operation

    def _charge_offsets(self, operation: StreamsOperation, member_id: str, before: int) -> None:
        """Charges the offsets that a member has reported to the account; drops them if the account has no room."""
        more = (_offset_count(operation.work, member_id) - before) * PARTITION_BYTES
        if not self._account.fits(more, GROUPS_BYTES_MAX):
            del operation.work.offsets[member_id]
            more = -before * PARTITION_BYTES
        self._account.bytes += more

    def _forget_offsets(self, group_id: str, member_id: str) -> None:
        work = self._works.get(group_id)
        if work is not None and member_id in work.offsets:
            self._account.bytes -= _offset_count(work, member_id) * PARTITION_BYTES
            del work.offsets[member_id]

    # -- offsets

    def check_commit(
        self, request: OffsetCommitRequest, version: int, _at: Instant
    ) -> CheckPartition:
        group = self._groups[request.group_id]
        return offsets.check_commit(group, self._topics().name_of, request, version)

    def check_transactional_commit(
        self, request: OffsetCommitRequest, _version: int
    ) -> CheckPartition:
        return offsets.check_commit(
            self._groups[request.group_id],
            self._topics().name_of,
            request,
            MEMBER_EPOCH_VERSION,
            is_transactional=True,
        )

    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        check_fetch(self._groups[request.group_id], request)

    def check_offset_delete(self, _group_id: str) -> None:
        """Refuses no deletion: offsets of topics that are no sources may be deleted."""

    # -- descriptions and deletion

    def described_with_members(
        self, group_id: str, *, with_description: bool = False
    ) -> tuple[DescribedGroup, Iterator[DescribedMember]]:
        """Returns a group as StreamsGroupDescribe describes it, without its members, and an iterator of its members.

        Raises:
            KafkaError: as `find` does.
        """
        group, work = self.find(group_id), self._works.get(group_id) or StreamsGroupWork()
        head, members = describe.described(group, work, self._settings(group_id).assignor)
        if with_description:
            is_known = work.description is not None and work.described_epoch == group.topology_epoch
            head.topology_description = work.description if is_known else None
            head.topology_description_status = (
                DescriptionStatus.AVAILABLE if is_known else DescriptionStatus.NOT_STORED
            )
        return head, members

    def describe_topology(self, request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
        """Stores the description of the topology that a member has sent.

        Raises:
            KafkaError: as `find` does; UNKNOWN_MEMBER_ID; INVALID_REQUEST for another epoch or a wrong description;
                STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED if it is too large, or there is no memory for it.
        """
        group, work = self.find(request.group_id), self._works.get(request.group_id)
        known_member(group, request.member_id)
        if request.topology_epoch != group.topology_epoch:
            raise refused(
                f"Topology epoch {request.topology_epoch} does not match the group's current topology epoch "
                f"{group.topology_epoch}."
            )
        if work is None:
            work = self._works[group.id] = StreamsGroupWork()
        work.undescribed_epoch = group.topology_epoch
        description = normal_description(request.topology_description)
        more = description_bytes(description)
        if work.description is not None:
            more -= description_bytes(work.description)
        if not self._account.fits(more, GROUPS_BYTES_MAX):
            raise KafkaError(
                ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
                "The groups of this broker take as much memory as they may.",
            )
        self._account.bytes += more
        work.description, work.described_epoch = description, group.topology_epoch

    def _tombstones(self, group: StreamsGroup) -> Iterator[GroupRecord]:
        return group_tombstones(group)

    # -- timers

    def timer_due(self, key: TimerKey, at: Instant) -> Due:
        group = self._groups.get(key.group_id)
        if group is None:  # its first member was never written
            return Due.ALL
        operation = self.operation(group, at)
        if key.kind is HeartbeatTimer.TARGET:
            assigning.work_on_target(operation)
        elif key.kind is StreamsTimer.INITIAL:
            assigning.delay_over(operation)
        elif key.kind in fencing.TIMED_OUT:
            fencing.timed_out(operation, key.member_id, key.kind)
        self._settle(operation)
        return Due.NONE if key.kind is HeartbeatTimer.TARGET else Due.OTHER_GROUPS

    # -- writes

    def replayed(self, record: GroupRecord, at_load: bool) -> None:
        """Drops the state of a removed member or group that is not in records."""
        key = record.key
        if at_load or record.value is not None:
            return
        if isinstance(key, StreamsGroupMemberMetadataKey):
            self._forget_offsets(key.group_id, key.member_id)
        elif isinstance(key, (StreamsGroupMetadataKey, StreamsGroupTopologyKey)):
            self.forget(key.group_id)

    def _not_written(self, write: HeartbeatGroupWrite, at: Instant) -> None:
        self._restart(write.group_id, at)

    def heartbeat_failed(self, given: StreamsHeartbeat, at: Instant) -> None:
        """Restores timers after a heartbeat whose records were not written: a leaving member is still there, and is
        removed when its session ends.
        """
        request = given.request
        if self._disown(request.group_id, request.member_id):
            self._forget_offsets(request.group_id, request.member_id)
        self._restart(request.group_id, at)

    def _restart(self, group_id: str, at: Instant) -> None:
        """Drops what was decided but not written. The topics are checked again by the next heartbeat."""
        group, work = self._groups.get(group_id), self._works.get(group_id)
        if group is None:
            self.forget(group_id)
            return
        if work is not None:
            work.target = work.checked_topics = None
            self._timers.cancel(TimerKey(HeartbeatTimer.TARGET, group_id))
        self._expect_members(group, at)

    def forget(self, group_id: str) -> None:
        """Drops the part of a group's state that has no records."""
        work = self._works.get(group_id)
        for member_id in list(() if work is None else work.offsets):
            self._forget_offsets(group_id, member_id)
        self._works.pop(group_id, None)
        if work is not None and work.description is not None:
            self._account.bytes -= description_bytes(work.description)
        for kind in (HeartbeatTimer.TARGET, StreamsTimer.INITIAL):
            self._timers.cancel(TimerKey(kind, group_id))


class JoinsEmptyGroups(NoClassicMembers):
    """Members of the classic protocol. They may only join if the group has no members: a classic group replaces it."""

    def __init__(
        self, outputs: Outputs, groups: Mapping[str, StreamsGroup], classic: ClassicGroups
    ) -> None:
        super().__init__(outputs)
        self._groups = groups
        self._classic = classic

    def join(self, join: Join, at: Instant) -> None:
        group = self._groups[join.request.group_id]
        if not group.is_empty:
            super().join(join, at)
            return
        records = list(group_tombstones(group))
        self._outputs.effects.writes.append(Succession(group.id, records))
        self._classic.join(join, at)


def _offset_count(work: StreamsGroupWork, member_id: str) -> int:
    found = work.offsets.get(member_id)
    return 0 if found is None else found.count
