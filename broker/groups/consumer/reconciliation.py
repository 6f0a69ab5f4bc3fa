"""The steps of a member towards its target assignment: it revokes partitions, waits for those of other members, and
takes them.

Source: Kafka's `CurrentAssignmentBuilder` (KIP-848, KIP-1251 for the epochs of partitions).

```
Stable at an older epoch    -> Unrevoked     it owns partitions that are not in its target
Unrevoked                   -> Unrevoked     while it reports any of them as owned
                            -> next step     at its next epoch, as from Stable
Stable, Unreleased          -> Unreleased    other members own some of its target; it takes the free partitions
                            -> Stable        it owns its target, at the target's epoch
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState, Owned
from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch

Reported = Mapping[bytes, frozenset[int]] | None
"""The partitions that a member reports as owned; None if the request omits them."""


def reconcile(
    member: ConsumerMember,
    target_epoch: GroupEpoch,
    target: Partitions,
    owners: Mapping[bytes, Mapping[int, str]],
    reported: Reported,
    *,
    gives_up: bool = False,
) -> ConsumerMember:
    """Returns the member after its next step, or the same member if there is none. `owners` has the owners of all
    partitions of the group.

    `gives_up` means that the target has shrunk within the same epoch, because the member has unsubscribed from a topic.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH if the member's state is unknown to this version; it must rejoin.
    """
    if member.is_reconciled_to(target_epoch) and not gives_up:
        return member
    step = _Step(member, target_epoch, target, owners, reported)
    match member.state:
        case MemberState.STABLE:
            return step.from_epoch(member.epoch)
        case MemberState.UNREVOKED_PARTITIONS:
            if step.still_owns(member.revoking):
                return member
            # The revoked partitions are free from now on; `owners` does not show this yet.
            return step.from_epoch(min(member.epoch + 1, target_epoch))
        case MemberState.UNRELEASED_PARTITIONS:
            return step.from_epoch(member.epoch)
        case MemberState.UNKNOWN:
            if reported is None or reported:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in an unknown state. It must abandon all its partitions and rejoin.",
                )
            return step.from_epoch(target_epoch)


class _Step:
    def __init__(
        self,
        member: ConsumerMember,
        target_epoch: GroupEpoch,
        target: Partitions,
        owners: Mapping[bytes, Mapping[int, str]],
        reported: Reported,
    ) -> None:
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._owners = owners
        self._reported = reported

    def still_owns(self, revoked: Owned) -> bool:
        """Returns whether the member still owns, or may own, any of the partitions."""
        if self._reported is None:
            return True
        return any(
            not partitions.keys().isdisjoint(self._reported.get(topic_id, frozenset()))
            for topic_id, partitions in revoked.items()
        )

    def from_epoch(self, epoch: GroupEpoch) -> ConsumerMember:
        member = self._member
        kept, revoking = self._divide()
        if revoking and self.still_owns(revoking):
            return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
        free, has_unreleased = self._available(kept)
        assigned = {
            topic_id: {
                **kept.get(topic_id, {}),
                **dict.fromkeys(sorted(free.get(topic_id, ())), self._target_epoch),
            }
            for topic_id in kept.keys() | free.keys()
        }
        state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
        return _moved(member, self._target_epoch, state, assigned, {})

    def _divide(self) -> tuple[Owned, Owned]:
        """Returns the partitions that the member may keep, and those that it must revoke."""
        kept: dict[bytes, Mapping[int, GroupEpoch]] = {}
        revoking: dict[bytes, Mapping[int, GroupEpoch]] = {}
        for topic_id, partitions in self._member.assigned.items():
            target = self._target.get(topic_id, frozenset())
            mine = {p: epoch for p, epoch in partitions.items() if p in target}
            others = {p: epoch for p, epoch in partitions.items() if p not in target}
            if mine:
                kept[topic_id] = mine
            if others:
                revoking[topic_id] = others
        return kept, revoking

    def _available(self, kept: Owned) -> tuple[Partitions, bool]:
        """Returns the free partitions of the rest of the target, and whether any are not free."""
        free: dict[bytes, frozenset[int]] = {}
        has_unreleased = False
        for topic_id, target in self._target.items():
            wanted = target - kept.get(topic_id, {}).keys()
            owners = self._owners.get(topic_id, {})
            # The member may take its own partitions back if they are in the target again.
            found = frozenset(p for p in wanted if owners.get(p) in (None, self._member.id))
            has_unreleased |= len(found) < len(wanted)
            if found:
                free[topic_id] = found
        return free, has_unreleased


def _moved(
    member: ConsumerMember, epoch: GroupEpoch, state: MemberState, assigned: Owned, revoking: Owned
) -> ConsumerMember:
    """Returns the moved member; its previous epoch only changes with its epoch."""
    previous = member.previous_epoch if epoch == member.epoch else member.epoch
    return replace(
        member,
        epoch=epoch,
        previous_epoch=previous,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )


def owned_partitions(topics: Iterable[tuple[bytes, Iterable[int]]] | None) -> Reported:
    """Converts a request's list to a mapping; None remains None."""
    if topics is None:
        return None
    found: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in topics:
        found[topic_id] = found.get(topic_id, frozenset()) | frozenset(partitions)
    return found
