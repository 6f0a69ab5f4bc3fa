"""The content of `__consumer_offsets`, replayed without the product's code: offsets, and members of groups.

An offset in a transaction takes effect with the marker, unless a later record of the same partition already has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.coordinators.batches import Batch
from tests.simulation.coordinators.outcomes import Outcomes
from trimaran.wire.records.consumer_groups import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from trimaran.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    decode_group_value,
)
from trimaran.wire.schema import Message

_KEYS: dict[int, type[Message]] = {
    OffsetCommitKey.KEY: OffsetCommitKey,
    GroupMetadataKey.KEY: GroupMetadataKey,
    **{number: key for number, (key, _) in CONSUMER_GROUP_RECORDS.items()},
}

Partition = tuple[str, str, int]
"""Group, topic and index."""
Require = Callable[..., None]


class Committed(NamedTuple):
    """A committed offset; `note` is the metadata of the commit, which identifies it, and `at` is the record's offset in
    the log.
    """

    offset: int
    note: str
    at: int


NOTHING = Committed(-1, "", -1)


class Offsets:
    """The replayed content; `versions` has every offset that was ever in effect for each partition, in order."""

    def __init__(
        self, require: Require, outcomes: Outcomes, happened: Counter[str] | None = None
    ) -> None:
        self._happened = Counter() if happened is None else happened
        self._require = require
        self._outcomes = outcomes
        self.versions: defaultdict[Partition, list[Committed]] = defaultdict(lambda: [NOTHING])
        self._pending: defaultdict[int, dict[Partition, Committed]] = defaultdict(dict)
        self.notes: set[str] = set()
        # The assigned partitions of consumer group members, their epochs, and the members that were ever removed.
        self.owned: defaultdict[str, dict[str, frozenset[tuple[bytes, int]]]] = defaultdict(dict)
        self.members: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.ever_removed: set[tuple[str, str]] = set()
        # The member with each static id of classic groups.
        self.instances: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.told_instances: dict[tuple[str, str], str] = {}
        self._gone: set[tuple[str, str]] = set()
        # The partitions that group members read.
        self._reading: defaultdict[str, dict[str, set[int]]] = defaultdict(dict)
        self.generations: dict[str, int] = {}
        self._has_classic_members: dict[str, bool] = {}
        # How often a group has ceased to be a classic group; its generations then restart, or continue as epochs.
        self.lives: Counter[str] = Counter()
        self.epochs: dict[str, int] = {}
        # Within a batch: the generation or epoch at which a group with members changed its kind.
        self._over: dict[str, int] = {}
        # The empty generation of a classic group that its coordinator could not write.
        self._emptied: dict[str, int] = {}
        # The generation or member epoch of the committer, by note of the commit.
        self.told_generations: dict[str, int] = {}

    def value(self, partition: Partition) -> Committed:
        return self.versions[partition][-1]

    def is_over(self, group: str, member: str, instance: str | None) -> bool:
        """Whether the member is no longer valid: it was removed, or another member has its static name."""
        if instance is not None:
            # A write that was not committed in time is undone in memory, as in Kafka, so the member named in the
            # response counts, too.
            owner = self.instances[group].get(instance, member)
            return owner != member and owner == self.told_instances.get((group, instance))
        return (group, member) in self._gone and member not in self.members[group]

    def reads(self, group: str, member: str, partitions: set[int]) -> None:
        """Checks G2: no two current members read the same partition."""
        self._reading[group][member] = partitions
        if member not in self.members[group]:
            return  # a member of a classic group, or one that does not yet know that it was removed
        for other, theirs in self._reading[group].items():
            if other != member and other in self.members[group]:
                self._require(
                    theirs.isdisjoint(partitions), "G2", group, member, "and", other, partitions
                )

    def stops_reading(self, group: str, member: str) -> None:
        self._reading[group].pop(member, None)

    def could_not_write_empty(self, group: str, generation: int) -> None:
        """Notes an empty generation that was not written: the coordinator knows that the classic group is empty, but
        the log does not. As in Kafka, the coordinator may nevertheless create a new group, because no remaining member
        knows the old generations.
        """
        self._happened["empty generation not written"] += 1
        self._emptied[group] = generation

    def written_generation(self, group: str, member: str) -> int:
        """Returns the stored generation of a classic group, or a member's epoch in a group of both kinds."""
        return self.generations.get(group, self.members[group].get(member, -1))

    def is_pending(self, partition: Partition) -> set[tuple[int, int]]:
        """Returns the open transactions with a commit for the partition, as producer ids and log offsets."""
        return {
            (producer_id, found[partition].at)
            for producer_id, found in self._pending.items()
            if partition in found
        }

    # --- appended batches

    def appended(self, batch: Batch) -> None:
        for _, key, value in batch.records:
            decoded = decode_group_key(key, _KEYS)
            if isinstance(decoded, ConsumerGroupMemberMetadataKey) and value is None:
                self.ever_removed.add((decoded.group_id, decoded.member_id))

    # --- committed batches

    def committed(self, batch: Batch) -> None:
        if batch.marker is not None:
            self._ended(batch)
            return
        self._over.clear()
        for at, key, value in batch.records:
            known = decode_group_key(key, _KEYS)
            if isinstance(known, OffsetCommitKey):
                decoded = None if value is None else decode_group_value(value, OffsetCommitValue)
                self._offset(batch, at, known, decoded)
            elif isinstance(known, GroupMetadataKey):
                self._classic(known.group, value)
            else:
                self._consumer(key, value)
        self._check_owners()

    def _offset(
        self, batch: Batch, at: int, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        partition = (key.group, key.topic, key.partition)
        found = NOTHING._replace(at=at)
        if value is not None:
            found = Committed(value.offset, value.metadata, at)
            self.notes.add(found.note)
            self._check_generation(key.group, found)
        if batch.is_transactional:
            self._pending[batch.producer_id][partition] = found
        else:
            self.versions[partition].append(found)

    def _check_generation(self, group: str, found: Committed) -> None:
        """Checks G1: once a generation was written, no commit of an older one is written."""
        generation = self.told_generations.get(found.note)
        if generation is not None and group in self.generations:
            self._require(
                generation >= self.generations[group],
                *("G1", group, found, "is of generation", generation),
                *("after", self.generations[group]),
            )

    def _ended(self, batch: Batch) -> None:
        assert batch.marker is not None
        pending = self._pending.pop(batch.producer_id, {})
        for found in pending.values():
            self._outcomes.became(found.note, batch.marker.is_commit)
        if not batch.marker.is_commit:
            return
        for partition, found in pending.items():
            if found.at > self.value(partition).at:
                self.versions[partition].append(found)

    def _classic(self, group: str, value: bytes | None) -> None:
        if value is None:
            self.lives[group] += 1
            generation = self.generations.pop(group, -1)
            is_emptied = self._emptied.get(group, -1) > generation
            if self._has_classic_members.pop(group, False) and not is_emptied:
                self._over[group] = generation
            if is_emptied:
                del self._emptied[group]
            return
        decoded = decode_group_value(value, GroupMetadataValue)
        known = self.generations.get(group, self._over.get(group, -1))
        self._require(
            decoded.generation >= known,
            *("G1", group, "goes from generation", known, "to", decoded.generation),
        )
        self._happened["downgraded"] += group in self._over
        if self._emptied.get(group, -1) <= decoded.generation:
            self._emptied.pop(group, None)
        self._has_classic_members[group] = bool(decoded.members)
        # removed by preceding records if it was a group of both kinds
        for member in decoded.members:
            self._gone.discard((group, member.member_id))
        self.generations[group] = decoded.generation
        self.instances[group] = {
            member.group_instance_id: member.member_id
            for member in decoded.members
            if member.group_instance_id is not None
        }

    def _consumer(self, data: bytes, value: bytes | None) -> None:
        key: Any = decode_group_key(data, _KEYS)
        if isinstance(key, ConsumerGroupMetadataKey):
            self._consumer_epoch(
                key.group_id,
                None if value is None else decode_group_value(value, ConsumerGroupMetadataValue),
            )
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            if value is None:
                self.members[key.group_id].pop(key.member_id, None)
                self._gone.add((key.group_id, key.member_id))
            else:
                self.members[key.group_id].setdefault(key.member_id, -1)
        if not isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            return
        if value is None:
            self.owned[key.group_id].pop(key.member_id, None)
            return
        decoded: Any = decode_group_value(value, ConsumerGroupCurrentMemberAssignmentValue)
        self.owned[key.group_id][key.member_id] = frozenset(
            (topic.topic_id, index)
            for topics in (decoded.assigned_partitions, decoded.partitions_pending_revocation)
            for topic in topics
            for index in topic.partitions
        )
        known = self.members[key.group_id].get(key.member_id, -1)
        epoch = decoded.member_epoch
        self._require(
            epoch >= known or epoch < 0,
            *("G2", key.member_id, "goes from epoch", known, "to", epoch),
        )
        self.members[key.group_id][key.member_id] = epoch

    def _consumer_epoch(self, group: str, value: Any) -> None:
        """Checks G1: epochs continue after the last generation, and generations after the last epoch."""
        if value is None:
            self._over[group] = self.epochs.pop(group, -1)
            return
        known = self.epochs.get(group, self._over.get(group, -1))
        self._happened["upgraded"] += group in self._over
        self._require(
            value.epoch >= known, "G1", group, "goes from epoch", known, "to", value.epoch
        )
        self.epochs[group] = value.epoch

    def _check_owners(self) -> None:
        """Checks G2: no two members share a partition, and a group has only one kind."""
        for group, has_members in self._has_classic_members.items():
            both = has_members and self.members[group]
            self._require(not both, "G2", group, "is a classic group, and has", both)
        for group, members in self.owned.items():
            every = [partition for owned in members.values() for partition in owned]
            self._require(len(every) == len(set(every)), "G2", group, "has", members)
