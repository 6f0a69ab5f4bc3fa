"""The contract of a kind of group: what the shard asks of the groups of a protocol.

The shard finds the kind of a group once, and asks it. A new kind, e.g. share groups, is a folder beside `classic/` and
`consumer/` with a class that does this, and a row where the shard lists its kinds. Requests that only one kind knows go
to it directly. Source: Kafka's `Group`, and the branches by group type of its `GroupMetadataManager`.
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
    """All groups of one kind in a shard. Methods with a group id or a request are called for groups that it `has`."""

    def has(self, group_id: str) -> bool:
        """Whether the group exists, and is of this kind."""

    # -- members that speak the classic protocol

    def join(self, join: Join, at: Instant) -> None:
        """Gives the `Join` its response, now or later."""

    def sync(
        self, request: SyncGroupRequest, token: PendingResponse[SyncGroupResponse], at: Instant
    ) -> None:
        """Gives `token` its response, now or later."""

    def heartbeat(self, request: HeartbeatRequest, at: Instant) -> ErrorCode:
        """Returns the code of the response. Raises KafkaError with a code that is one, too."""

    def leave(
        self, group_id: str, identities: list[MemberIdentity], at: Instant
    ) -> list[MemberResponse]:
        """Returns one response per identity, in their order."""

    # -- offsets

    def check_commit(
        self, request: OffsetCommitRequest, version: int, at: Instant
    ) -> CheckPartition:
        """Returns the check of each partition. Raises KafkaError: the whole commit is refused (invariant G1)."""

    def check_transactional_commit(self, request: OffsetCommitRequest) -> CheckPartition:
        """As `check_commit`, of a commit in the transaction of a producer (TxnOffsetCommit)."""

    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        """Raises KafkaError: the member that asks is not one of the group."""

    def check_offset_delete(self, group_id: str) -> None:
        """Raises KafkaError: GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP: the group has members that are no consumers."""

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        """Whether a member reads the topic; True if unknown."""

    # -- life

    def listed(self, group_id: str) -> ListedGroup:
        """Returns the group as ListGroups lists it."""

    def described(self, group_id: str, version: int) -> Description:
        """Returns the group as DescribeGroups describes it, which has a code for groups of another kind."""

    def may_expire(self, group_id: str) -> bool:
        """Returns whether offsets of the group may expire now (invariant G6)."""

    def retained_from(self, group_id: str, value: OffsetCommitValue) -> int:
        """Returns when the retention of an offset begins, in ms since 1970."""

    def is_empty(self, group_id: str) -> bool:
        """Returns whether the group has no members; True if this kind has no such group."""

    def expired(self, group_id: str, at: Instant) -> Iterator[GroupRecord]:
        """Yields what removes a group whose last offset has expired; nothing if a client is or wants to be a member."""

    def tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        """Yields the tombstones of the group's own records, until it gets a member; none if this kind has none."""

    def expecting(self, at: Instant) -> Walk:
        """Sets the timers of loaded members that have none, a member at a time."""

    def timer_due(self, key: TimerKey, at: Instant) -> bool:
        """Does what is due. Returns True if it must be written before another timer of the group."""

    def replayed(self, record: GroupRecord, at_load: bool) -> None:
        """A record was replayed into the store; `at_load` says that the shard does not serve yet."""

    def written(self, write: Write[GroupRecord], code: ErrorCode, at: Instant) -> None:
        """As `CoordinatorShard.written`; writes of other kinds are ignored."""

    def close(self, at: Instant) -> None:
        """Ends the epoch: requests that wait get NOT_COORDINATOR."""
