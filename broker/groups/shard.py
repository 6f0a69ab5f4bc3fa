"""One partition of `__consumer_offsets` as a state machine: groups, their offsets, their timers. No I/O.

A `CoordinatorShard`. Source: Kafka's `GroupCoordinatorShard`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from trimaran.broker import events
from trimaran.broker.coordination.shard import Effects, Write
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups import offsets
from trimaran.broker.groups.arrivals import ABANDONED_SECONDS, Arrivals, is_arriving
from trimaran.broker.groups.classic import joining, rebalance, syncing
from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.classic.loaded import restore_group
from trimaran.broker.groups.classic.operation import (
    Answer,
    GroupOperation,
    GroupWrite,
    Succession,
    join_error,
    leave_response,
    sync_error,
)
from trimaran.broker.groups.consumer import offsets as consumer_offsets
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.groups import ConsumerGroups, ConsumerHeartbeat, Surroundings
from trimaran.broker.groups.consumer.operation import ConsumerGroupWrite
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.memory import Account, ByGroup, GroupMemory
from trimaran.broker.groups.ports import KnowsTopic
from trimaran.broker.groups.records import GroupRecord, Tombstones, offset_tombstone
from trimaran.broker.groups.removals import Removals
from trimaran.broker.groups.store import GroupStore, OffsetsRoom
from trimaran.broker.groups.timer_keys import Timer, TimerKey
from trimaran.broker.groups.walks import Walk, Walks
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from trimaran.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest
from trimaran.wire.records.consumer_groups import ConsumerGroupMetadataKey
from trimaran.wire.records.groups import GroupMetadataKey, GroupMetadataValue
from trimaran.wire.schema import Message

S, E = GroupState, ErrorCode

_EXPIRY = TimerKey(Timer.EXPIRY)
_WALK = TimerKey(Timer.WALK)

log = logging.getLogger(__name__)


class GroupCoordinatorShard:
    """The groups of one partition, from `loaded` on.

    `groups` has a group while it has members or pending members, or a record; others are known by their offsets alone.
    """

    def __init__(
        self,
        limits: GroupLimits,
        knows_topic: KnowsTopic,
        around: Surroundings,
        memory: GroupMemory | None = None,
    ) -> None:
        self.account = Account(memory)
        self.store = GroupStore(self.account)
        self.limits = limits
        self._knows_topic = knows_topic
        self.groups = ByGroup[ClassicGroup](self.account)
        self._timers: Timers[TimerKey] = Timers()
        self._effects: Effects[GroupRecord] = Effects()
        # Writes whose commit somebody awaits.
        self._awaited: set[ConsumerGroupWrite | Answer] = set()
        self.consumers = ConsumerGroups(
            self.store.consumer_groups,
            self._timers,
            around,
            self.account,
            self._write,
            resolve=lambda group_id: self._effects.follow_ups.append(group_id),  # noqa: PLW0108 - `take` makes others
        )
        # The classic group that was last decided to become a consumer group, and when: its records may not be written.
        self._upgrade: tuple[ClassicGroup, Instant] | None = None
        self._is_loaded = False
        self._arrivals = Arrivals(partial(is_arriving, self.groups))
        # Members whose sessions begin, and what is written off.
        self._sessions = Walks()
        self._removals = Removals(self.store, self.groups, limits, knows_topic, self._forget)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The group, if it is one of the consumer protocol, and has not become a classic one while it was empty."""
        return None if group_id in self.groups else self.store.consumer_groups.get(group_id)

    # -- life

    def finish_load(self) -> None:
        """Makes the classic groups, and looks for what is to be written off."""
        for group_id, value in self.store.groups.items():
            if not self.store.has_members(group_id):
                self.groups[group_id] = restore_group(group_id, value, self.account)
        self._removals.find_gone_topics()

    def loaded(self, at: Instant) -> None:
        """Begins to serve: every member gets a whole session to show up, and offsets of topics that are gone go."""
        self._is_loaded = True
        self._timers.set(_EXPIRY, at.after_ms(self.limits.expiry_interval_ms))
        self._sessions.add(self.consumers.expecting(at))
        self._sessions.add(self._expecting(at))
        self._removals.loaded()
        self._walk_on(at)

    def _expecting(self, at: Instant) -> Walk:
        """Sets the timers of the members of classic groups that have none yet."""
        for group in list(self.groups.values()):
            yield None
            operation = self._operation(group, at)
            for member in list(group.members.values()):
                yield None
                if group.members.get(member.id) is member:
                    operation.expect_heartbeat_if_absent(member)
            rebalance.loaded(operation, self.store.groups.get(group.id))

    def _walk_on(self, at: Instant) -> None:
        """The next piece of what takes long; the rest follows on a timer."""
        self._sessions.piece()
        if tombstones := self._removals.piece():
            self._effects.writes.append(Tombstones(tombstones))
        if self._sessions or self._removals:
            self._timers.set(_WALK, at.now)

    def close(self, at: Instant) -> None:
        """Ends the epoch: members that wait get NOT_COORDINATOR. They wait only in groups that rebalance."""
        rebalancing = (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE)
        for group in [one for one in self.groups.values() if one.state in rebalancing]:
            rebalance.answer_all(self._operation(group, at), ErrorCode.NOT_COORDINATOR)
        for write in self._awaited:
            self._answer(write, ErrorCode.NOT_COORDINATOR)
        self._awaited.clear()
        self.account.close()

    def unload(self) -> None:
        """Lets go of the state, a value at a time: a million that are freed at once would hold everybody up."""
        for known in (self.groups, self.store.groups, self.store.consumer_groups):
            while known:
                known.popitem()
        while self.store.offsets:
            for partitions in self.store.offsets.popitem()[1].values():
                while partitions:
                    partitions.popitem()

    def take(self) -> Effects[GroupRecord]:
        """What has come of the inputs since the last call."""
        effects, self._effects = self._effects, Effects()
        for write in effects.writes:
            if isinstance(write, Answer | ConsumerGroupWrite) and write.token is not None:
                self._awaited.add(write)
        return effects

    # -- members

    def join(self, join: Join, at: Instant) -> None:
        """Gives `join.token` its response, now or later."""
        request = join.request
        if (consumer := self.consumer_group(request.group_id)) is not None:
            if not consumer.is_empty:
                self._join_consumer_group(consumer, join, at)
                return
            records = self.consumers.tombstones(consumer)
            self._effects.writes.append(Succession(consumer.id, records))
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id or not self.store.has_room_for(request.group_id):
                code = E.UNKNOWN_MEMBER_ID if request.member_id else E.GROUP_MAX_SIZE_REACHED
                self._respond(join.token, join_error(code, request.member_id))
                return
            group = ClassicGroup(request.group_id, at.now_ms, account=self.account)
            self.groups[group.id] = group
        member_id = joining.join(self._operation(group, at), join)
        self._forget_if_unused(group)
        self._arrivals.note((group.id, member_id), join.connection)

    def connection_closed(self, connection: int, at: Instant) -> None:
        """Whoever was about to join from it must come again soon."""
        for group_id, member_id in self._arrivals.closed(connection):
            key = TimerKey(Timer.SESSION, group_id, member_id)
            if (member := self.groups[group_id].members.get(member_id)) is not None:
                member.is_abandoned = True
            self._timers.hasten(key, at.now + ABANDONED_SECONDS)

    def _join_consumer_group(self, group: ConsumerGroup, join: Join, at: Instant) -> None:
        try:
            self.consumers.join(group, join, at)
        except KafkaError as error:
            self._respond(join.token, join_error(error.code, join.request.member_id))

    def sync(self, request: SyncGroupRequest, token: PendingResponse[Any], at: Instant) -> None:
        """Gives `token` its response, now or later."""
        if (consumer := self.consumer_group(request.group_id)) is not None:
            self._sync_consumer_group(consumer, request, token, at)
            return
        group = self.groups.get(request.group_id)
        if group is None:
            self._respond(token, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            syncing.sync(self._operation(group, at), request, token)

    def _sync_consumer_group(
        self,
        group: ConsumerGroup,
        request: SyncGroupRequest,
        token: PendingResponse[Any],
        at: Instant,
    ) -> None:
        try:
            response = self.consumers.sync(group, request, at)
        except KafkaError as error:
            self._respond(token, sync_error(error.code))
        else:
            self._effects.writes.append(Answer(token, response, sync_error))

    def heartbeat(self, request: HeartbeatRequest, at: Instant) -> ErrorCode:
        consumer = self.consumer_group(request.group_id)
        group = self.groups.get(request.group_id)
        try:
            if consumer is not None:
                return self.consumers.keep_alive(consumer, request, at)
            if group is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return syncing.heartbeat(self._operation(group, at), request)
        except KafkaError as error:
            return error.code

    def leave(self, request: LeaveGroupRequest, version: int, at: Instant) -> list[MemberResponse]:
        """One response per identity, in their order; versions below 3 have one identity."""
        members = request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]
        if (consumer := self.consumer_group(request.group_id)) is not None:
            return self.consumers.leave(consumer, members, at)
        if (group := self.groups.get(request.group_id)) is None:
            return [leave_response(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in members]
        responses = syncing.leave(self._operation(group, at), members)
        self._forget_if_unused(group)
        return responses

    def consumer_heartbeat(
        self, given: ConsumerHeartbeat, at: Instant
    ) -> Result[GroupRecord, ConsumerGroupHeartbeatResponse]:
        """A member of the consumer protocol; its first makes a consumer group of a classic one. Raises KafkaError."""
        self.store.check_room_for(given.request.group_id)
        classic = self.groups.get(given.request.group_id)
        result = self.consumers.heartbeat(given, classic, at)
        self._upgrade = None if classic is None else (classic, at)
        return result

    def consumer_heartbeat_failed(self, given: ConsumerHeartbeat, at: Instant) -> None:
        """What `consumer_heartbeat` decided could not be written: the group is of the protocol that it was."""
        self._upgrade = None
        self.consumers.heartbeat_failed(given, at)
        if (classic := self.groups.get(given.request.group_id)) is not None:
            operation = self._operation(classic, at)
            for member in classic.members.values():
                operation.expect_heartbeat_if_absent(member)

    # -- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int, at: Instant
    ) -> Result[GroupRecord, OffsetCommitResponse]:
        """Raises KafkaError: the whole request is refused (`offsets.check_commit`)."""
        if (consumer := self.consumer_group(request.group_id)) is not None:
            check = consumer_offsets.check_commit_request(consumer, request, version)
            return self._decide_commit(request, at, check)
        group = self.groups.get(request.group_id)
        exists = group is None and self.store.has_had_offsets(request.group_id)
        offsets.check_commit(group, request, version, exists)
        if group is not None and group.state in {S.STABLE, S.PREPARING_REBALANCE}:
            self._operation(group, at).expect_heartbeat(group.members[request.member_id])
        return self._decide_commit(request, at)

    def commit_offsets_in_transaction(
        self, request: OffsetCommitRequest, at: Instant, producer: Producer
    ) -> Result[GroupRecord, OffsetCommitResponse]:
        """Written in the producer's transaction. Raises KafkaError as `offsets.check_transactional_commit`."""
        if (consumer := self.consumer_group(request.group_id)) is not None:
            check = consumer_offsets.check_transactional_commit(consumer, request)
            return self._decide_commit(request, at, check, producer)
        group = self.groups.get(request.group_id)
        offsets.check_transactional_commit(group, request, self.store.knows(request.group_id))
        return self._decide_commit(request, at, producer=producer)

    def _decide_commit(
        self,
        request: OffsetCommitRequest,
        at: Instant,
        check: consumer_offsets.CheckPartition = offsets.all_may,
        producer: Producer | None = None,
    ) -> Result[GroupRecord, OffsetCommitResponse]:
        room = OffsetsRoom(self.store, request.group_id, producer and producer.id)
        result = offsets.decide_commit(request, self.limits, at.now_ms, check, room.refusal)
        return result._replace(producer=producer)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> Result[GroupRecord, OffsetFetchResponseGroup]:
        """Without records, so that the answer waits until what it says is committed (invariant G3).

        Raises:
            KafkaError: the member is not who it says it is (`consumer_offsets.check_fetch`).
        """
        if (consumer := self.consumer_group(request.group_id)) is not None:
            consumer_offsets.check_fetch(consumer, request)
        found = offsets.fetch(self.store, request, self._knows_topic, require_stable=require_stable)
        return Result((), found)

    def check_offset_delete(self, group_id: str) -> None:
        """Raises KafkaError: GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP: it has members that are no consumers."""
        group = self.groups.get(group_id)
        if group is None and not self.store.knows(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group is not None and group.state is not S.EMPTY and not group.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Result[GroupRecord, dict[TopicPartition, ErrorCode]]:
        """Raises KafkaError as `check_offset_delete`; topics that members read are refused one by one."""
        self.check_offset_delete(group_id)
        group = self.groups.get(group_id) or self.consumer_group(group_id)
        codes = dict.fromkeys(partitions, ErrorCode.NONE)
        records = []
        for key in partitions:
            if group is not None and group.is_subscribed_to(key.topic):
                codes[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                continue
            is_pending = self.store.is_pending(group_id, *key)
            if is_pending or self.store.offset(group_id, *key) is not None:
                records.append(offset_tombstone(group_id, *key))
        return Result(records, codes, atomic=False)

    def topics_deleted(self, topic_ids: Mapping[str, bytes], at: Instant) -> None:
        """Writes off the offsets of topics that are gone, by name and the id that was deleted."""
        self._removals.topics_deleted(topic_ids)
        self._walk_on(at)

    # -- groups

    def delete_groups(self, group_ids: Iterable[str]) -> Result[GroupRecord, dict[str, ErrorCode]]:
        return self._removals.delete_groups(group_ids)

    # -- what has become of records

    def replay(self, offset: int, record: GroupRecord, producer: Producer | None = None) -> None:
        """Takes over a record that is in the log: the only way in which anything changes that a record tells of.

        Only the members of a classic group and their generation are ahead of it, as in Kafka: they join before there is
        anything to write. Whoever loads the group begins with the generation that was written last.
        """
        self.store.replay(offset, record, producer)
        if producer is not None:
            return
        key, value = record
        if isinstance(key, GroupMetadataKey):
            self._replayed_classic(key.group, value)
        elif isinstance(key, ConsumerGroupMetadataKey) and value is None:
            self.consumers.forget(key.group_id)

    def _replayed_classic(self, group_id: str, value: object) -> None:
        group = self.groups.get(group_id)
        if value is None and group is not None:
            del self.groups[group_id]
            self._end(group)
        elif group is None and self._is_loaded and isinstance(value, GroupMetadataValue):
            # A consumer group has become one.
            self.groups[group_id] = restore_group(group_id, value, self.account)

    def _end(self, group: ClassicGroup) -> None:
        """It is a consumer group from now on, or deleted."""
        upgrade, self._upgrade = self._upgrade, None
        if upgrade is not None and upgrade[0] is group:
            rebalance.close(self._operation(group, upgrade[1]), ErrorCode.REBALANCE_IN_PROGRESS)
            self.consumers.expect_upgraded(group, upgrade[1])
        else:
            at = Instant(0.0, group.state_timestamp_ms)
            rebalance.close(self._operation(group, at), ErrorCode.UNKNOWN_MEMBER_ID)

    def complete_transaction(self, producer: Producer, is_commit: bool) -> None:
        """Offsets of the producer's transaction count from now on, or never."""
        self.store.complete_transaction(producer, is_commit)

    def written(self, write: Write[GroupRecord], code: ErrorCode, at: Instant) -> None:
        """A group is committed, which its members wait for, or is not in the log, or was not committed in time."""
        if isinstance(write, Answer | ConsumerGroupWrite):
            self._awaited.discard(write)
            self._answer(write, code)
            if code and isinstance(write, ConsumerGroupWrite):
                events.GROUP_METADATA_WRITE_FAILED.log(log, group=write.group_id, error=code.name)
                self.consumers.write_failed(write, at)
        elif isinstance(write, GroupWrite):
            if (group := self.groups.get(write.group_id)) is None:
                return
            if code is ErrorCode.NONE:
                rebalance.committed(self._operation(group, at), write)
            else:
                rebalance.write_failed(self._operation(group, at), write, code)
        elif code and isinstance(write, Succession):
            self._give_up_succession(write.group_id, code, at)
        elif code:
            self._removals.give_up()
            events.GROUP_EXPIRY_POSTPONED.log(log, error=code.name)

    def _give_up_succession(self, group_id: str, code: ErrorCode, at: Instant) -> None:
        """The consumer group is still in the log: a classic one would hide it, and begin its epochs anew."""
        events.GROUP_METADATA_WRITE_FAILED.log(log, group=group_id, error=code.name)
        if group_id in self.store.consumer_groups and (group := self.groups.take(group_id)):
            rebalance.close(self._operation(group, at), code)

    # -- time

    def deadline(self) -> float | None:
        """When `handle_timeout` wants to be called at the latest."""
        return self._timers.earliest()

    def handle_timeout(self, at: Instant) -> None:
        """Does what is due at `at`; calling it early does nothing.

        What a consumer group's timer leads to is written before the next rule looks at the group, and of a target there
        is one piece a call: what is due after that follows with the next call, to which `deadline` then points.
        """
        decided: set[str] = set()
        while (key := self._timers.pop_due(at.now)) is not None:
            if key in (_EXPIRY, _WALK):
                if key == _EXPIRY:
                    self._timers.set(_EXPIRY, at.after_ms(self.limits.expiry_interval_ms))
                    self._removals.expire(at)
                self._walk_on(at)
                return  # what it writes off is gone before a consumer group is looked at
            if self.consumer_group(key.group_id) is not None:
                if key.group_id in decided:
                    self._timers.set(key, at.now)
                    return
                decided.add(key.group_id)
                self.consumers.timer_due(key, at)
                if key.kind is Timer.TARGET:
                    return
            elif (group := self.groups.get(key.group_id)) is not None:
                self._timer_due(self._operation(group, at), key)
                self._forget_if_unused(group)

    def _timer_due(self, operation: GroupOperation, key: TimerKey) -> None:
        if key.kind is Timer.SESSION:
            rebalance.session_expired(operation, key.member_id)
        elif key.kind is Timer.JOIN:
            rebalance.complete_join(operation)
        elif key.kind is Timer.SYNC:
            rebalance.sync_expired(operation)
        elif key.kind is Timer.DOWNGRADE:
            rebalance.rebalance_or_complete(operation, "it was a consumer group")

    def _forget(self, group: ClassicGroup, at: Instant) -> None:
        """A group that nothing was written of."""
        rebalance.close(self._operation(group, at), ErrorCode.UNKNOWN_MEMBER_ID)
        del self.groups[group.id]

    def _write(self, write: ConsumerGroupWrite) -> None:
        """Without records there is only what the log has already to wait for."""
        if write.records or write.token is not None:
            self._effects.writes.append(write)

    def _answer(self, write: ConsumerGroupWrite | Answer, code: ErrorCode) -> None:
        if write.token is None or write.response is None:
            return
        refused = write.refused
        response = write.response if code is ErrorCode.NONE or refused is None else refused(code)
        self._respond(write.token, response)

    # -- helpers

    def _operation(self, group: ClassicGroup, at: Instant) -> GroupOperation:
        return GroupOperation(group, at, self._timers, self.limits, self._effects)

    def _respond(self, token: PendingResponse[Any], response: Message) -> None:
        self._effects.responses.append((token, response))

    def _forget_if_unused(self, group: ClassicGroup) -> None:
        """A group that somebody asked for and left again, before anything was written of it."""
        never_led = group.state is S.EMPTY and not group.pending and group.generation == 0
        if never_led and group.id not in self.store.groups:
            self.groups.take(group.id)
