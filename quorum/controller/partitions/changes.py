"""The change of one partition: from a wanted ISR and wanted replicas to the leader, the eligible leader replicas, and
the record.

    wanted → completion of a reassignment → eligible leader replicas → election → the record of the differences

The functions are pure. Source: Kafka's `PartitionChangeBuilder`, `PartitionReassignmentReplicas`, KIP-455, KIP-704
(recovery state), KIP-966 (eligible leader replicas, and the last known leader of a leaderless partition).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from trimaran.quorum.controller.partitions.state import ControllerState, MayLead, PartitionRef
from trimaran.quorum.metadata.image import NO_LEADER, PartitionImage
from trimaran.wire.identity import BrokerId
from trimaran.wire.records.topics import PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1
# metadata.version 3.6-IV0: with earlier versions, followers did not notice a smaller ISR without a new epoch
# (KAFKA-15021).
SHRINKS_WITHOUT_EPOCH_LEVEL = 12
# metadata.version 3.7-IV2: records name the directories of replicas.
DIRECTORIES_LEVEL = 17


class Election(Enum):
    """The kind of an election. ONLINE keeps a leader that is still up; UNCLEAN allows any replica that is up when no
    other can lead.
    """

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def change_partition(
    ref: PartitionRef,
    state: ControllerState,
    acceptable: MayLead,
    *,
    wanted: PartitionImage | None = None,
    election: Election = Election.ONLINE,
    lost: BrokerId | None = None,
) -> PartitionChangeRecord | None:
    """Returns the record that changes the partition to `wanted` and elects the resulting leader; None if nothing
    changes.

    Only the ISR, replicas, adding, removing, directories and recovery state of `wanted` are used. `lost` is a broker
    that may have lost its data and is therefore not eligible. Without eligible leader replicas an ISR is never written
    empty.
    """
    old = ref.partition
    keeps_eligible = state.has_eligible_leaders
    new = complete_reassignment(old if wanted is None else wanted)
    if keeps_eligible and (elr := _eligible(ref, new, state, lost)) != new.elr:
        new = new._replace(elr=elr)
    leader, unclean = elect(old, new, acceptable, election, last_known=keeps_eligible)
    if leader == old.leader:
        unclean = False
    elif leader in new.elr:
        elr = tuple(replica for replica in new.elr if replica != leader)
        new = new._replace(isr=(leader,), elr=elr)
    elif unclean:
        new = new._replace(isr=(leader,), leader_recovery_state=RECOVERING)
    if unclean or not keeps_eligible:
        new = new._replace(elr=())
    if not new.isr and not keeps_eligible:
        new = new._replace(isr=old.isr)
    if leader != new.leader:
        new = new._replace(leader=leader)
    names_leader = _begins_epoch(old, new, state.image.features.metadata_version)
    if keeps_eligible:
        new = new._replace(last_known_elr=_last_known_leader(old, leader))
    if state.image.features.metadata_version < DIRECTORIES_LEVEL:
        new = new._replace(directories=old.directories)
    return _difference(ref, new, names_leader=names_leader)


def elect(
    old: PartitionImage,
    new: PartitionImage,
    acceptable: MayLead,
    election: Election,
    *,
    last_known: bool = False,
) -> tuple[BrokerId, bool]:
    """Returns the leader that the partition should have, -1 if no replica can lead, and whether it may lack committed
    records.

    The leader is a member of the ISR, or of the ELR if the ISR is empty. With `last_known`, the last known leader is
    allowed if both are empty.
    """
    allowed = new.isr or new.elr
    first: tuple[BrokerId, ...] = (old.leader,)
    if election is Election.PREFERRED:
        first = (new.preferred_leader, old.leader)
    for replica in (*first, *new.replicas):
        if replica in allowed and acceptable(replica):
            return replica, False
    if last_known and not allowed and len(old.last_known_elr) == 1:
        (replica,) = old.last_known_elr
        if acceptable(replica):
            return replica, True
    if election is Election.UNCLEAN:
        for replica in new.replicas:
            if acceptable(replica):
                return replica, True
    return NO_LEADER, False


def complete_reassignment(partition: PartitionImage) -> PartitionImage:
    """Completes a reassignment when all added replicas are in sync and at least one replica remains in the ISR.

    A reassignment that lowers the replication factor waits for all remaining replicas, because otherwise the ISR would
    shrink needlessly.
    """
    if not partition.adding and not partition.removing:
        return partition
    isr = tuple(replica for replica in partition.isr if replica not in partition.removing)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.removing)
    if not isr or not set(partition.adding) <= set(isr):
        return partition
    if len(partition.adding) < len(partition.removing) and not set(replicas) <= set(isr):
        return partition
    directories = tuple(partition.directory_of(replica) for replica in replicas)
    return partition._replace(
        replicas=replicas, directories=directories, isr=isr, adding=(), removing=()
    )


def _eligible(
    ref: PartitionRef, new: PartitionImage, state: ControllerState, lost: int | None
) -> tuple[BrokerId, ...]:
    """Returns the eligible leader replicas. While the ISR is smaller than min.insync.replicas no records are committed,
    so each replica that leaves it has all committed records.
    """
    old = ref.partition
    if new.isr == old.isr and not old.elr:
        return ()
    if len(new.isr) >= state.min_isr(ref.topic):
        return ()
    return tuple(
        replica
        for replica in dict.fromkeys((*old.elr, *old.isr))
        if replica not in new.isr and replica in new.replicas and replica != lost
    )


def _begins_epoch(old: PartitionImage, new: PartitionImage, metadata_version: int) -> bool:
    """Returns whether the change begins a leader epoch: with a new leader, or when a replica is removed, so that it
    stops following.
    """
    return (
        new.leader != old.leader
        or not set(old.replicas) <= set(new.replicas)
        or (metadata_version < SHRINKS_WITHOUT_EPOCH_LEVEL and not set(old.isr) <= set(new.isr))
    )


def _last_known_leader(old: PartitionImage, leader: BrokerId) -> tuple[BrokerId, ...]:
    if leader != NO_LEADER:
        return ()
    return old.last_known_elr if old.leader == NO_LEADER else (old.leader,)


# The lists of a partition, in the order of `PartitionImage`, with the names of their fields in a record.
_LISTS = (
    "replicas",
    "directories",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
)


def _difference(
    ref: PartitionRef, new: PartitionImage, *, names_leader: bool
) -> PartitionChangeRecord | None:
    old = ref.partition
    changes: dict[str, Any] = {
        field: list(cast("tuple[object, ...]", now))
        for field, before, now in zip(_LISTS, old, new, strict=False)
        if now != before
    }
    if names_leader:
        changes["leader"] = new.leader
    if new.leader_recovery_state != old.leader_recovery_state:
        changes["leader_recovery_state"] = new.leader_recovery_state
    if not changes:
        return None
    return PartitionChangeRecord(topic_id=ref.topic.id, partition_id=ref.partition_id, **changes)
