"""The interface of a kind of group: the methods that the shard calls for the groups of one protocol.

The shard determines the kind of a group once, and calls it. A new kind, such as share groups, is a folder next to
`classic/` and `consumer/` with a class that implements this interface, and an entry in the shard's list of kinds.
Requests that only one kind supports go to it directly. Source: Kafka's `Group`, and the branches by group type of its
`GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from trimaran.broker.coordination.shard import Write
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic.describe import Description
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.outputs import TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.walks import Walk
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.leave_group import MemberIdentity, MemberResponse
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.records.groups import OffsetCommitValue

CheckPartition = Callable[[TopicIdPartition], ErrorCode]
"""Returns NONE, or the code with which a commit for this partition is refused."""


def all_may(_key: TopicIdPartition) -> ErrorCode:
    """Refuses no partition."""
    return ErrorCode.NONE


class GroupKind(Protocol):
    """All groups of one kind in a shard. Methods with a group id or a request are only called for groups that
    it `has`.
    """

    def has(self, group_id: str) -> bool:
        """Returns whether the group exists and is of this kind."""

    # -- members of the classic protocol

    def join(self, join: Join, at: Instant) -> None:
        """Answers the `Join`, now or later."""

    def sync(
        self, request: SyncGroupRequest, token: PendingResponse[SyncGroupResponse], at: Instant
    ) -> None:
        """Answers `token`, now or later."""

    def heartbeat(self, request: HeartbeatRequest, at: Instant) -> ErrorCode:
        """Returns the code of the response. May also raise a KafkaError with that code."""

    def leave(
        self, group_id: str, identities: list[MemberIdentity], at: Instant
    ) -> list[MemberResponse]:
        """Returns one response per identity, in order."""

    # -- offsets

    def check_commit(
        self, request: OffsetCommitRequest, version: int, at: Instant
    ) -> CheckPartition:
        """Returns the check for each partition. Raises KafkaError if the whole commit is refused (invariant G1)."""

    def check_transactional_commit(self, request: OffsetCommitRequest) -> CheckPartition:
        """Does the same as `check_commit` for a commit in a producer's transaction (TxnOffsetCommit)."""

    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        """Raises KafkaError if the requesting member is not in the group."""

    def check_offset_delete(self, group_id: str) -> None:
        """Raises KafkaError GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP if the group has members that are not consumers."""

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        """Returns whether a member subscribes to the topic; True if unknown."""

    # -- state and removal

    def listed(self, group_id: str) -> ListedGroup:
        """Returns the entry of the group in ListGroups."""

    def described(self, group_id: str, version: int) -> Description:
        """Returns the group's description in DescribeGroups, which has an error code for groups of another kind."""

    def may_expire(self, group_id: str) -> bool:
        """Returns whether offsets of the group may expire now (invariant G6)."""

    def retained_from(self, group_id: str, value: OffsetCommitValue) -> int:
        """Returns the start of an offset's retention, in ms since 1970."""

    def is_empty(self, group_id: str) -> bool:
        """Returns whether the group has no members; True if this kind has no such group."""

    def expired(self, group_id: str, at: Instant) -> Iterator[GroupRecord]:
        """Yields the records that remove a group whose last offset has expired; none if a client is or wants to be a
        member.
        """

    def tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        """Yields the tombstones of the group's own records, until it gets a member; none if this kind has no records of
        it.
        """

    def expecting(self, at: Instant) -> Walk:
        """Sets the missing timers of loaded members, one member per step."""

    def timer_due(self, key: TimerKey, at: Instant) -> bool:
        """Does the work that is due. Returns True if it must be written before another timer of the group."""

    def replayed(self, record: GroupRecord, at_load: bool) -> None:
        """Handles a record that was replayed into the store; `at_load` is True before the shard serves."""

    def written(self, write: Write[GroupRecord], code: ErrorCode, at: Instant) -> None:
        """Does the same as `CoordinatorShard.written`; ignores writes of other kinds."""

    def close(self, at: Instant) -> None:
        """Ends the epoch: waiting requests get NOT_COORDINATOR."""
