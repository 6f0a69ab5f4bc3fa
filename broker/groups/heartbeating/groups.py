"""The common part of the groups of one kind in a shard: each input becomes an operation on a draft of a group.

The shard's store has the groups themselves, which only change by replay.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from trimaran.broker import events
from trimaran.broker.coordination.shard import Write
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.heartbeating.group import HeartbeatGroup
from trimaran.broker.groups.heartbeating.operation import HeartbeatGroupWrite, HeartbeatOperation
from trimaran.broker.groups.kinds import ShardParts
from trimaran.broker.groups.records import GroupRecord
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.list_groups import ListedGroup

log = logging.getLogger(__name__)

G = TypeVar("G", bound=HeartbeatGroup[Any, Any])
Op = TypeVar("Op", bound=HeartbeatOperation[Any, Any, Any, Any])


class StoredGroups(ABC, Generic[G, Op]):
    """The groups `G` of one kind, which operations `Op` decide on: the methods of `GroupsOfKind` that are alike for all
    kinds whose members heartbeat.
    """

    def __init__(self, parts: ShardParts, name: str, protocol_type: str) -> None:
        self._name = name
        self._protocol_type = protocol_type
        self._store = parts.store
        self._groups: Mapping[str, G] = parts.store.of(name)
        self._timers = parts.timers
        self._topics = parts.dependencies.topics
        self._account = parts.account
        self._outputs = parts.outputs
        # Returns whether a group with this id is of another kind.
        self._is_other: Callable[[str], bool] = lambda group_id: any(
            groups is not self and groups.has(group_id) for groups in parts.made.values()
        )

    @abstractmethod
    def operation(self, group: G, at: Instant) -> Op:
        """Returns an operation on a draft of the group."""

    @abstractmethod
    def _tombstones(self, group: G) -> Iterator[GroupRecord]:
        """Yields all tombstones of a group: first those of its members, last that of its epoch."""

    @abstractmethod
    def _not_written(self, write: HeartbeatGroupWrite, at: Instant) -> None:
        """Restores timers, and drops what was decided but not written."""

    # -- state and removal

    def has(self, group_id: str) -> bool:
        return group_id in self._groups

    def find(self, group_id: str) -> G:
        """Returns an immutable copy of the group.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, also for groups of other kinds.
        """
        if not self.has(group_id):
            raise self._not_found(group_id)
        return self._groups[group_id].draft()

    def _not_found(self, group_id: str) -> KafkaError:
        is_other = self._is_other(group_id) or self._store.knows(group_id)
        why = f"is not a {self._name} group" if is_other else "not found"
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        return self._groups[group_id].is_subscribed_to(topic)

    def listed(self, group_id: str) -> ListedGroup:
        return ListedGroup(
            group_id=group_id,
            protocol_type=self._protocol_type,
            group_state=self._groups[group_id].state.value,
            group_type=self._name,
        )

    def is_empty(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is None or group.is_empty

    def tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        if (group := self._groups.get(group_id)) is not None:
            for record in self._tombstones(group):
                if not self.is_empty(group_id):
                    return
                yield record

    # -- members

    def expecting(self, at: Instant) -> Iterator[None]:
        """Sets the missing timers of all loaded groups, one member per step."""
        for group in list(self._groups.values()):
            yield None
            if self._groups.get(group.id) is group:
                yield from self._expecting(group, at)

    def _expecting(self, group: G, at: Instant) -> Iterator[None]:
        operation = self.operation(group, at)
        for member_id in list(group.members):
            if (member := group.members.get(member_id)) is not None:
                operation.expect(member)
            yield None

    def _expect_members(self, group: G, at: Instant) -> None:
        """Sets the missing timers of a group after a failed write."""
        for _ in self._expecting(group, at):
            pass

    def _own(self, operation: Op, member_id: str, principal: str) -> None:
        """Charges the principal of the request for a new member that was admitted."""
        known = self._groups.get(operation.group.id)
        is_known = known is not None and member_id in known.members
        if member_id in operation.group.members and not is_known:
            self._account.owned_by((operation.group.id, member_id), principal)

    def _disown(self, group_id: str, member_id: str) -> bool:
        """Releases the account of an id and returns True, unless the group has a member with that id."""
        group = self._groups.get(group_id)
        if group is not None and member_id in group.members:
            return False
        self._account.gone((group_id, member_id), 0)
        return True

    # -- writes

    def _settle(self, operation: Op) -> None:
        """Writes the records of an operation that no heartbeat waits for."""
        if operation.records:
            self._outputs.effects.writes.append(
                HeartbeatGroupWrite(
                    kind=self._name, group_id=operation.group.id, records=operation.records
                )
            )

    def written(self, write: Write[GroupRecord], code: ErrorCode, at: Instant) -> None:
        """Restarts the group's timers after a failed write, with a delay: otherwise a write in pieces would fail in a
        loop.
        """
        if code is ErrorCode.NONE or not isinstance(write, HeartbeatGroupWrite):
            return
        if write.kind == self._name:
            events.GROUP_METADATA_WRITE_FAILED.log(log, group=write.group_id, error=code.name)
            self._not_written(write, at)
