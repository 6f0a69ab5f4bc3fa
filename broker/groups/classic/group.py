"""A classic group: its state, its members and their votes; without timers, responses or records.

Source: Kafka's `ClassicGroup` and `ClassicGroupState` (KIP-62, KIP-345). The rules for changes of state are in
`trimaran.broker.groups.classic.rebalance`. `trimaran.broker.groups.consumer.migration` converts classic groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from trimaran.broker.groups.classic.member import (
    CONSUMER_PROTOCOL,
    Member,
    Protocols,
    size_of,
    subscribed_topics,
)
from trimaran.broker.groups.memory import PENDING_BYTES, GroupAccount
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.groups import GroupMetadataValue

GENERATION_MAX = 0x7FFFFFFF


class GroupState(Enum):
    """The states of a group; the values are those of Kafka's protocol."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


S = GroupState

VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    S.EMPTY: frozenset({S.PREPARING_REBALANCE}),
    S.PREPARING_REBALANCE: frozenset({S.STABLE, S.COMPLETING_REBALANCE, S.EMPTY}),
    S.COMPLETING_REBALANCE: frozenset({S.PREPARING_REBALANCE}),
    S.STABLE: frozenset({S.COMPLETING_REBALANCE}),
    S.DEAD: frozenset(S),
}


class ClassicGroup:
    """The members of a group, and their generation.

    ```
    from                    to                     event
    Empty                   PreparingRebalance     a member joins
    PreparingRebalance      CompletingRebalance    all members have joined, or the time is up
    PreparingRebalance      Empty                  the same, without any member left
    CompletingRebalance     Stable                 the leader's assignment is committed
    CompletingRebalance     PreparingRebalance     a member joins again, leaves, or does not sync
    Stable                  PreparingRebalance     a member joins again, leaves, or expires; the leader rejoins
    any                     Dead                   the group is deleted, or the coordinator ends; final
    ```

    Invariants: `leader` is a member, and None only without members; `instances` maps to members; a pending member is
    not a member; `awaiting_sync` has the members that received the generation and have not requested their assignment.
    """

    def __init__(
        self,
        group_id: str,
        now_ms: int,
        state: GroupState = S.EMPTY,
        account: GroupAccount | None = None,
    ) -> None:
        self.id = group_id
        self.account = GroupAccount() if account is None else account
        self.state = state
        self.previous_state = S.DEAD
        # The wall-clock time of the last transition; -1 in groups loaded from records older than version 2.
        self.state_timestamp_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        self.pending: set[str] = set()
        self.awaiting_sync: set[str] = set()
        # In monotonic seconds: the latest end of an initial rebalance, even if more members arrive.
        self.initial_rebalance_end = 0.0
        # The generation whose assignment is being written; members get it only after the commit.
        self.storing_generation: int | None = None
        # The topics to which members subscribe; None if unknown: not a consumer group, or its subscriptions cannot be
        # parsed.
        self.subscribed_topics: frozenset[str] | None = None
        # The total size of all members' protocol metadata, in bytes.
        self.bytes = 0
        self._supported: Counter[str] = Counter()

    # -- states

    def transition(self, state: GroupState, now_ms: int) -> None:
        assert self.state in VALID_PREVIOUS[state], f"{self} cannot become {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def in_initial_rebalance(self) -> bool:
        return self.state is S.PREPARING_REBALANCE and self.previous_state is S.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether a member subscribes to the topic; True if this is unknown."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # -- members

    def add(self, member: Member) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type
        assert member.id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.instances
            self.instances[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        if member.id in self.pending:
            self.pending.remove(member.id)
            self._change(member.id, -pending_bytes(member.id))
        self._change(member.id, member.held_bytes)
        self._supported.update(name for name, _ in member.protocols)
        self.bytes += size_of(member.protocols)

    def remove(self, member_id: str) -> Member | None:
        """Removes a member or a pending member; if it was the leader, the next member becomes leader."""
        if member_id in self.pending:
            self.pending.remove(member_id)
            self.account.gone((self.id, member_id), pending_bytes(member_id))
        self.awaiting_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.account.gone((self.id, member_id), member.held_bytes)
        self._supported.subtract(name for name, _ in member.protocols)
        self.bytes -= size_of(member.protocols)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def add_pending(self, member_id: str) -> None:
        """Adds a client that has received a member id and must join with it."""
        self.pending.add(member_id)
        self._change(member_id, pending_bytes(member_id))

    def set_assignment(self, member: Member, assignment: bytes) -> None:
        self._change(member.id, len(assignment) - len(member.assignment))
        member.assignment = assignment

    def release(self) -> None:
        """Releases the memory account of a removed group."""
        for member in self.members.values():
            self.account.gone((self.id, member.id), member.held_bytes)
        for member_id in self.pending:
            self.account.gone((self.id, member_id), pending_bytes(member_id))

    def _change(self, member_id: str, more: int) -> None:
        self.account.change((self.id, member_id), more)

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._supported.subtract(name for name, _ in member.protocols)
        more = size_of(protocols) - size_of(member.protocols)
        self.bytes += more
        self._change(member.id, more)
        member.protocols = protocols
        self._supported.update(name for name, _ in protocols)

    def rename(self, member: Member, member_id: str) -> None:
        """Gives a static member the id of its next incarnation, and keeps its position."""
        self.account.gone((self.id, member.id), member.held_bytes)
        old_id, member.id = member.id, member_id
        self._change(member_id, member.held_bytes)
        self.members = {m.id: m for m in self.members.values()}
        if member.instance_id is not None:
            self.instances[member.instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id
        if old_id in self.awaiting_sync:
            self.awaiting_sync.remove(old_id)
            self.awaiting_sync.add(member_id)

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """Returns the member with `member_id`, and `instance_id` if it is static.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another incarnation has taken its place.
        """
        if instance_id is not None:
            existing = self.instances.get(instance_id)
            if existing is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def joining_count(self) -> int:
        return sum(member.join is not None for member in self.members.values())

    def all_joined(self) -> bool:
        return not self.pending and all(m.join is not None for m in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """Returns the maximum rebalance timeout of the members; 0 without members."""
        return max((0, *(m.rebalance_timeout_ms for m in self.members.values())))

    def elect_joined_leader(self) -> bool:
        """Makes a joined member the leader unless the leader has joined; returns False if no member has."""
        if self.leader is None:
            return False
        if self.members[self.leader].join is None:
            joined = next((m.id for m in self.members.values() if m.join is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    # -- protocols

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Returns whether a member with these protocols could join, so that all members still have one in common."""
        names = list(protocols)
        if self.state is S.EMPTY:
            return bool(protocol_type and names)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supported[n] == count for n in names
        )

    def select_protocol(self) -> str:
        """Returns the protocol that most members prefer among those that all support; in a tie, the one voted for
        first.
        """
        count = len(self.members)
        candidates = {name for name, number in self._supported.items() if number == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self, now_ms: int) -> None:
        """Ends the join phase: the next generation consists of the current members."""
        self.generation = (self.generation + 1) & GENERATION_MAX
        self.awaiting_sync.clear()
        self.storing_generation = None
        self.protocol_name = self.select_protocol() if self.members else None
        self.note_subscriptions()
        self.transition(S.COMPLETING_REBALANCE if self.members else S.EMPTY, now_ms)

    def note_subscriptions(self) -> None:
        """Sets `subscribed_topics` from the members' metadata."""
        self.subscribed_topics = subscribed_topics(
            self.protocol_type, self.protocol_name, self.members.values()
        )

    def __str__(self) -> str:
        members = ", ".join(m.describe(m.id == self.leader) for m in self.members.values())
        pending = f" pending {', '.join(sorted(self.pending))}" if self.pending else ""
        return f"{self.id} {self.state.value} generation {self.generation} [{members}]{pending}"


def pending_bytes(member_id: str) -> int:
    """Returns the approximate size of a pending member, in bytes."""
    return PENDING_BYTES + text_bytes(member_id)


def is_to_rebalance(value: GroupMetadataValue) -> bool:
    """Returns whether the group was a consumer group whose members have not rejoined since: the partitions of the last
    member of the consumer protocol may be unassigned.
    """
    return bool(value.members) and value.leader is None


def restore_group(
    group_id: str, value: GroupMetadataValue, account: GroupAccount | None = None
) -> ClassicGroup:
    """Returns the group with the last stored generation; its members only have the selected protocol."""
    state = GroupState.STABLE if value.members else GroupState.EMPTY
    group = ClassicGroup(group_id, value.current_state_timestamp, state, account)
    for stored in value.members:
        no_own_timeout = stored.rebalance_timeout == -1
        group.add(
            Member(
                id=stored.member_id,
                instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=stored.session_timeout
                if no_own_timeout
                else stored.rebalance_timeout,
                session_timeout_ms=stored.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", stored.subscription),),
                assignment=stored.assignment,
            )
        )
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    if value.leader in group.members:
        group.leader = value.leader
    group.note_subscriptions()
    return group
