"""One partition of `__consumer_offsets` as a state machine: groups, their offsets, their timers. No I/O.

It is a `CoordinatorShard` that calls the kind of each group (`kinds`); the kinds are in a table (`registry`).
Source: Kafka's `GroupCoordinatorShard`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakSet

from trimaran.broker import events
from trimaran.broker.coordination.shard import Effects, Write
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups import offsets
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.classic.refusing import NoClassicMembers
from trimaran.broker.groups.kinds import (
    ClassicMembers,
    Due,
    G,
    GroupDependencies,
    GroupKind,
    GroupsOfKind,
    ShardParts,
)
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.memory import GroupAccount
from trimaran.broker.groups.outputs import AwaitedWrite, Outputs, Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord, KnowsTopic, Tombstones
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.groups.removals import Removals
from trimaran.broker.groups.store import GroupStore, OffsetsRoom
from trimaran.broker.groups.walks import Walks
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.records.groups import OffsetCommitKey

_EXPIRY = TimerKey(Timer.EXPIRY)
_WALK = TimerKey(Timer.WALK)

log = logging.getLogger(__name__)


class GroupCoordinatorShard:
    """The groups of one partition; it serves after `loaded`."""

    def __init__(
        self,
        limits: GroupLimits,
        knows_topic: KnowsTopic,
        dependencies: GroupDependencies,
        accounts: WeakSet[GroupAccount] | None = None,
        kinds: Sequence[GroupKind[Any]] = KINDS,
    ) -> None:
        self.account = account = GroupAccount(accounts)
        self.store = store = GroupStore(kinds, account)
        self.limits = limits
        self.outputs = outputs = Outputs()
        self._knows_topic = knows_topic
        self._timers = timers = Timers[TimerKey]()
        self.of_kind: dict[GroupKind[Any], Any] = {}
        parts = ShardParts(store, timers, limits, account, outputs, dependencies, self.of_kind)
        for kind in kinds:
            self.of_kind[kind] = kind.make(parts)
        self._kinds: tuple[GroupsOfKind, ...] = tuple(self.of_kind.values())
        self._classic_members: dict[GroupsOfKind, ClassicMembers] = {
            groups: groups.classic_members() or NoClassicMembers(outputs) for groups in self._kinds
        }
        self._is_loaded = False
        self._kind_of_epochs = {
            kind.epoch_record.key.KEY: kind for kind in kinds if kind.epoch_record is not None
        }
        self._rebalances = dependencies.rebalances
        # Walks that start the sessions of members, or apply the offsets of transactions; and removals.
        self._walks = Walks()
        self._removals = Removals(
            store, self._kinds, self.kind_of, self.group_ids, limits, knows_topic
        )

    def kind_of(self, group_id: str) -> GroupsOfKind:
        """Returns the kind of a group; an unknown group, or one that only has offsets, is of the first kind."""
        for kind in self._kinds:
            if kind.has(group_id):
                return kind
        return self._kinds[0]

    def of(self, kind: GroupKind[G]) -> G:
        """Returns the groups of a kind, for requests that only this kind knows."""
        groups: G = self.of_kind[kind]
        return groups

    # -- life

    def finish_load(self) -> None:
        """Creates the groups of each kind, and searches for offsets of deleted topics."""
        for kind in self._kinds:
            kind.finish_load()
        self._removals.find_gone_topics()

    def loaded(self, at: Instant) -> None:
        """Begins to serve: every member gets a full session, and removals of offsets of deleted topics begin."""
        self._is_loaded = True
        self._timers.set(_EXPIRY, at.after_ms(self.limits.expiry_interval_ms))
        for kind in reversed(self._kinds):
            self._walks.add(kind.expecting(at))
        self._removals.loaded()
        self._walk_on(at)

    def _walk_on(self, at: Instant) -> None:
        """Does the next piece of long tasks; a timer continues the rest."""
        self._walks.piece()
        if tombstones := self._removals.piece():
            self.outputs.effects.writes.append(Tombstones(tombstones))
        if self._walks or self._removals:
            self._timers.set(_WALK, at.now)

    def close(self, at: Instant) -> None:
        """Ends the epoch: waiting requests get NOT_COORDINATOR."""
        for kind in self._kinds:
            kind.close(at)
        self.outputs.close()
        self.account.close()

    def unload(self) -> None:
        """Releases the state value by value: freeing a million values in one call would block the interpreter."""
        for kind in self._kinds:
            kind.unload()
        self.store.unload()

    def take(self) -> Effects[GroupRecord]:
        """Returns the effects of the inputs since the last call."""
        return self.outputs.take()

    # -- members

    def join(self, join: Join, at: Instant) -> None:
        """Answers `join.token`, now or later."""
        self._classic_members[self.kind_of(join.request.group_id)].join(join, at)

    def sync(
        self, request: SyncGroupRequest, token: PendingResponse[SyncGroupResponse], at: Instant
    ) -> None:
        """Answers `token`, now or later."""
        self._classic_members[self.kind_of(request.group_id)].sync(request, token, at)

    def heartbeat(self, request: HeartbeatRequest, at: Instant) -> ErrorCode:
        """Returns the code of the response to a member of the classic protocol."""
        try:
            return self._classic_members[self.kind_of(request.group_id)].heartbeat(request, at)
        except KafkaError as error:
            return error.code

    def leave(self, request: LeaveGroupRequest, version: int, at: Instant) -> list[MemberResponse]:
        """Returns one response per member, in order; versions below 3 have one member."""
        members = request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]
        kind = self.kind_of(request.group_id)
        return self._classic_members[kind].leave(request.group_id, members, at)

    # -- offsets

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        version: int,
        at: Instant,
        producer: Producer | None = None,
    ) -> Result[GroupRecord, OffsetCommitResponse]:
        """Returns the records and the response of a commit; with a `producer`, of one in its transaction. Raises
        KafkaError if the whole request is refused.
        """
        kind = self.kind_of(request.group_id)
        if producer is None:
            check = kind.check_commit(request, version, at)
        else:
            check = kind.check_transactional_commit(request, version)
        room = OffsetsRoom(self.store, request.group_id, producer and producer.id)
        result = offsets.decide_commit(request, self.limits, at.now_ms, check, room.refusal)
        return result._replace(producer=producer)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> Result[GroupRecord, OffsetFetchResponseGroup]:
        """Returns the offsets without records: the response waits until they are committed (invariant G3). Raises
        KafkaError if the requesting member is not in the group; COORDINATOR_LOAD_IN_PROGRESS while offsets of a
        committed transaction are applied.
        """
        if self.store.is_completing(request.group_id):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.kind_of(request.group_id).check_fetch(request)
        found = offsets.fetch(self.store, request, self._knows_topic, require_stable=require_stable)
        return Result((), found)

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Result[GroupRecord, dict[TopicPartition, ErrorCode]]:
        """Returns tombstones and a code for each partition; topics with subscribers are refused. Raises KafkaError as
        `GroupsOfKind.check_offset_delete` does.
        """
        kind = self.kind_of(group_id)
        kind.check_offset_delete(group_id)
        return offsets.decide_delete(self.store, group_id, partitions, kind.is_subscribed_to)

    def topics_deleted(self, topic_ids: Mapping[str, bytes], at: Instant) -> None:
        """Begins to remove the offsets of deleted topics, given by name and deleted id."""
        self._removals.topics_deleted(topic_ids)
        self._walk_on(at)

    # -- groups

    def delete_groups(self, group_ids: Iterable[str]) -> Result[GroupRecord, dict[str, ErrorCode]]:
        """Deletes groups as `Removals.delete_groups` does."""
        return self._removals.delete_groups(group_ids)

    def list_groups(
        self, group_ids: Iterable[str], states: Collection[str], types: Collection[str]
    ) -> list[ListedGroup]:
        """Returns the groups that pass the filters; filters ignore case, and an empty filter passes every group."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        listed = (self.kind_of(group_id).listed(group_id) for group_id in group_ids)
        return [
            group
            for group in listed
            if not wanted_types or group.group_type in wanted_types
            if not wanted_states or group.group_state.lower() in wanted_states
        ]

    def group_ids(self) -> Iterator[str]:
        """Yields the ids of all groups, with members, a record or only offsets (see `GroupStore.group_ids`)."""
        return self.store.group_ids(*(kind.unwritten() for kind in self._kinds))

    # -- outcomes of records

    def replay(self, offset: Offset, record: GroupRecord, producer: Producer | None = None) -> None:
        """Applies a record of the log."""
        kind_of_epoch = self._kind_of_epochs.get(record.key.KEY) if self._is_loaded else None
        if kind_of_epoch is not None:
            self._rebalances[kind_of_epoch.name] += kind_of_epoch.is_rebalance(self.store, record)
        self.store.replay(offset, record, producer)
        if producer is None and not isinstance(record.key, OffsetCommitKey):
            for kind in self._kinds:
                kind.replayed(record, not self._is_loaded)

    def complete_transaction(self, producer: Producer, is_commit: bool) -> None:
        """Applies or drops the offsets of the producer's transaction; a timer continues with many offsets."""
        rest = self.store.complete_transaction(producer, is_commit)
        if rest is not None:
            self._walks.add(rest)
            self._timers.set(_WALK, 0.0)

    def written(self, write: Write[GroupRecord], code: ErrorCode, at: Instant) -> None:
        """Handles the outcome of a write: committed, not written, or not committed in time."""
        if isinstance(write, AwaitedWrite):
            self.outputs.written(write, code)
        elif code and isinstance(write, Tombstones):
            self._removals.give_up()
            events.GROUP_EXPIRY_POSTPONED.log(log, error=code.name)
        for kind in self._kinds:
            kind.written(write, code, at)

    # -- time

    def deadline(self) -> float | None:
        """Returns the latest time for the next call of `handle_timeout`, or None."""
        return self._timers.earliest()

    def handle_timeout(self, at: Instant) -> None:
        """Does the work that is due at `at`; an early call does nothing.

        A timer's records may have to be written before the next rule sees the group, or its work may have been long
        (`Due`). Remaining due work follows in the next call, as `deadline` then requests.
        """
        decided: set[str] = set()
        while (key := self._timers.pop_due(at.now)) is not None:
            if key in (_EXPIRY, _WALK):
                if key == _EXPIRY:
                    self._timers.set(_EXPIRY, at.after_ms(self.limits.expiry_interval_ms))
                    self._removals.expire(at)
                self._walk_on(at)
                return  # removals precede the timers of groups
            if key.group_id in decided:
                self._timers.set(key, at.now)
                return
            due = self.kind_of(key.group_id).timer_due(key, at)
            if due is Due.NONE:
                return
            if due is Due.OTHER_GROUPS:
                decided.add(key.group_id)
