"""The interface of a kind of group: its declaration, and the methods that the shard calls for its groups.

A new kind is a folder next to `classic/` and `consumer/` whose `kind.py` has a `GroupKind`, and a line in
`registry.py`; kinds whose members heartbeat share the parts in `heartbeating/`. The shard determines the kind of a
group once, and calls its methods. Requests that only one kind supports go to that kind directly. Source: Kafka's
`Group`, and the branches by group type of its `GroupMetadataManager`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from trimaran.broker.coordination.ports import Metadata
from trimaran.broker.coordination.shard import Write
from trimaran.broker.coordination.shard_epoch import ShardEpoch
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups.classic.describe import Description, not_found
from trimaran.broker.groups.classic.joining import Join
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.memory import GroupAccount
from trimaran.broker.groups.outputs import Outputs, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.store import GroupStore, StoredKind
from trimaran.broker.groups.topics import Topics
from trimaran.broker.groups.walks import Walk
from trimaran.broker.metadata.topic_patterns import TopicPatterns
from trimaran.broker.share_state.states import ShareStates
from trimaran.node.config.server import ServerConfig
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Result
from trimaran.quorum.metadata.image import ConfigsImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import GroupEpoch, TopicIdPartition
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.leave_group import MemberIdentity, MemberResponse
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.records.groups import OffsetCommitValue

G = TypeVar("G", bound="GroupsOfKind")
G_co = TypeVar("G_co", bound="GroupsOfKind", covariant=True)
H = TypeVar("H")
R = TypeVar("R")

Settings = Callable[[str], Any]
"""Returns the settings of a group by its id, in the class of its kind."""

CheckPartition = Callable[[TopicIdPartition], ErrorCode]
"""Returns NONE, or the code with which a commit for this partition is refused."""


def all_may(_key: TopicIdPartition) -> ErrorCode:
    """Refuses no partition."""
    return ErrorCode.NONE


class EnabledBy(NamedTuple):
    """The condition under which requests about a kind of group are served: level 1 of a `feature` of the cluster, and
    the `protocol` in the broker's `group.coordinator.rebalance.protocols`, unless it is "". Other requests get
    UNSUPPORTED_VERSION with the text `refusal`.
    """

    feature: str
    protocol: str
    refusal: str


class EpochRecord(NamedTuple):
    """The type of the record that gives a group of a kind its epoch, and the fields of the group's id and the epoch."""

    key: type[Any]
    group_id: str = "group_id"
    epoch: str = "epoch"


@dataclass(frozen=True, eq=False)
class GroupKind(StoredKind, Generic[G_co]):
    """A line of the table of kinds (`registry.py`).

    `make` makes the groups of the kind in one shard. `settings` reads a broker's config, and the newest configs of
    groups. `follow_up` carries out the work that a shard has named (`Outputs.resolve`); it ends immediately if there is
    none for the group. A kind without `enabled_by` is always served. `states` are all states of such a group in Kafka's
    texts: each has a metric. New values of `epoch_record` are counted as rebalances.
    """

    make: Callable[[ShardParts], G_co]
    states: tuple[str, ...]
    epoch_record: EpochRecord | None = None
    settings: Callable[[ServerConfig, Callable[[], ConfigsImage]], Settings] | None = None
    follow_up: FollowUp | None = None
    enabled_by: EnabledBy | None = None

    def is_rebalance(self, store: GroupStore, record: GroupRecord) -> bool:
        """Whether a new value of `epoch_record`, which is not yet applied, gives a group another epoch or, if it is
        classic, another generation. Without members, a classic group has no rebalance. Source: the places where Kafka's
        `GroupMetadataManager` records the sensors of rebalances.
        """
        value, known = record.value, self.epoch_record
        assert known is not None, "the record is of its type"
        if value is None or not getattr(value, "members", True):
            return False
        before = store.of(self.name).get(getattr(record.key, known.group_id))
        epoch: GroupEpoch = getattr(value, known.epoch)
        return before is None or epoch != getattr(before, known.epoch)


@dataclass(frozen=True, slots=True)
class GroupDependencies:
    """The parts of a broker that the groups of all its shards use: the settings of each kind that has settings, by its
    name, and the newest topics; `rebalances` counts the rebalances of groups by kind.
    """

    settings: Mapping[str, Settings]
    topics: Callable[[], Topics]
    rebalances: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class ShardParts:
    """The parts of one shard, from which a kind makes its groups. `made` has the groups of the kinds in earlier lines
    of the table.
    """

    store: GroupStore
    timers: Timers[TimerKey]
    limits: GroupLimits
    account: GroupAccount
    outputs: Outputs
    dependencies: GroupDependencies
    made: Mapping[GroupKind[Any], Any]

    def of(self, kind: GroupKind[G]) -> G:
        """Returns the groups of a kind from an earlier line of the table."""
        groups: G = self.made[kind]
        return groups


@dataclass(frozen=True, slots=True)
class FollowUpParts:
    """The parts of a broker that follow-ups use. `share_states` is None if this broker stores no states of share
    partitions.
    """

    metadata: Metadata
    patterns: TopicPatterns
    share_states: ShareStates | None = None


FollowUp = Callable[[FollowUpParts, ShardEpoch[Any, GroupRecord], str], Awaitable[None]]
"""Works for the group of an id in an epoch of its shard. Raises nothing when the epoch ends."""


class Due(Enum):
    """The timers that may be handled in the same call after a timer that was due."""

    ALL = "all"
    OTHER_GROUPS = "other groups"  # the decisions about this group must be written first
    NONE = "none"  # the timer also took long


class ClassicMembers(Protocol):
    """Members of the classic protocol. The methods are called for groups that the kind `has`."""

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


class GroupsOfKind(Protocol):
    """All groups of one kind in a shard. Methods with a group id or a request are called for groups that it `has`.

    The methods that are not abstract are the defaults for simple kinds.
    """

    @abstractmethod
    def has(self, group_id: str) -> bool:
        """Returns whether the group exists, and is of this kind."""

    def classic_members(self) -> ClassicMembers | None:
        """Returns the handler of members of the classic protocol; None if they may not join groups of this kind."""
        return None

    # -- offsets

    @abstractmethod
    def check_commit(
        self, request: OffsetCommitRequest, version: int, at: Instant
    ) -> CheckPartition:
        """Returns the check for each partition. Raises KafkaError if the whole commit is refused (invariant G1)."""

    @abstractmethod
    def check_transactional_commit(
        self, request: OffsetCommitRequest, version: int
    ) -> CheckPartition:
        """Checks a commit in the transaction of a producer as `check_commit` does, by a TxnOffsetCommit of this
        version.
        """

    @abstractmethod
    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        """Raises KafkaError if the requesting member is not in the group."""

    @abstractmethod
    def check_offset_delete(self, group_id: str) -> None:
        """Raises KafkaError GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP if the group has members that are not consumers."""

    @abstractmethod
    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        """Returns whether a member subscribes to the topic; True if unknown."""

    # -- state and removal

    @abstractmethod
    def listed(self, group_id: str) -> ListedGroup:
        """Returns the entry of the group in ListGroups."""

    def described(self, group_id: str, version: int) -> Description:
        """Returns the group's description in DescribeGroups, which has an error code for groups of another kind."""
        return not_found(group_id, version, "is not a classic group")

    def may_expire(self, _group_id: str) -> bool:
        """Returns whether offsets of the group may expire now (invariant G6); offsets of a topic with a
        subscriber never do.
        """
        return True

    def retained_from(self, _group_id: str, value: OffsetCommitValue) -> int:
        """Returns the start of an offset's retention, in ms since 1970."""
        return value.commit_timestamp

    @abstractmethod
    def is_empty(self, group_id: str) -> bool:
        """Returns whether the group has no members; True if this kind has no such group."""

    def expired(self, group_id: str, _at: Instant) -> Iterator[GroupRecord]:
        """Yields the records that remove a group whose last offset has expired; none if a client is or wants to be a
        member.
        """
        return self.tombstones(group_id)

    @abstractmethod
    def tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        """Yields the tombstones of the group's own records, until it gets a member; none if this kind has no records of
        its own.
        """

    def of_gone_topics(self) -> Walk:
        """Yields records that remove the state of deleted topics from the groups, except for offsets."""
        return iter(())

    def unwritten(self) -> Collection[str]:
        """Returns the ids of groups that are in memory, although the log may have no record of them."""
        return ()

    # -- the shard

    def finish_load(self) -> None:
        """Creates the groups from the loaded records, in the loader's thread."""
        return

    def expecting(self, _at: Instant) -> Walk:
        """Sets the missing timers of loaded members, one member per step."""
        return iter(())

    def timer_due(self, _key: TimerKey, _at: Instant) -> Due:
        """Does the work that is due."""
        return Due.ALL

    def replayed(self, _record: GroupRecord, _at_load: bool) -> None:
        """Handles a record that was replayed into the store; `_at_load` is True before the shard serves. Records of
        other kinds are ignored.
        """
        return

    def written(self, _write: Write[GroupRecord], _code: ErrorCode, _at: Instant) -> None:
        """Handles an outcome as `CoordinatorShard.written` does; ignores writes of other kinds."""
        return

    def close(self, _at: Instant) -> None:
        """Ends the epoch: waiting requests get NOT_COORDINATOR; `Outputs` refuses those that wait for a write."""
        return

    def unload(self) -> None:
        """Releases the state that is not in the store, as `CoordinatorShard.unload` does."""
        return


class HeartbeatGroups(GroupsOfKind, Generic[H, R]):
    """A kind whose members join, stay and leave with one kind of request, which is decided immediately."""

    @abstractmethod
    def member_heartbeat(self, given: H, at: Instant) -> Result[GroupRecord, R]:
        """Returns records and the response. Raises KafkaError: the request is refused."""

    @abstractmethod
    def heartbeat_failed(self, given: H, at: Instant) -> None:
        """Handles a heartbeat whose records were not written."""
