"""Bugs of the controller's decisions about partitions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation.mutants.mutant import both
from tests.simulation.partitions.mutants.leaders import SAFETY
from trimaran.quorum.controller.nodes import brokers
from trimaran.quorum.controller.partitions import changes

Patch = AbstractContextManager[Any]


def _emptied_disk_leads() -> Patch:
    """KAFKA-15495, KIP-966: a returning broker is not checked for lost data."""
    return mock.patch.object(brokers, "_may_have_lost", return_value=False)


def _emptied_disks_stay_in_sync() -> Patch:
    """KAFKA-14139."""
    return mock.patch.object(brokers, "changes_of_new_incarnation", return_value=[])


def _emptied_disks_stay_eligible() -> Patch:
    """A broker that may have lost data is removed from the ISRs, but not from the ELRs."""
    real = brokers.changes_after_loss

    def after(state: Any, broker_id: int, keys: Any = None) -> Any:
        return real(state, broker_id, list(state.index.in_sync(broker_id)))

    return mock.patch.object(brokers, "changes_after_loss", after)


def _out_of_sync_replica_is_elected() -> Patch:
    def elect(_old: Any, new: Any, acceptable: Any, _kind: Any, **_: Any) -> tuple[int, bool]:
        for replica in new.replicas:
            if acceptable(replica):
                return replica, False
        return -1, False

    return mock.patch.object(changes, "elect", elect)


def _every_leaving_replica_is_eligible() -> Patch:
    """KIP-966: a replica that leaves a full ISR lacks the records that follow."""
    real = changes._eligible

    def eligible(ref: Any, new: Any, state: Any, lost: Any) -> tuple[int, ...]:
        found = real(ref, new, state, lost)
        gone = (
            replica for replica in ref.partition.isr if replica not in new.isr and replica != lost
        )
        return tuple(dict.fromkeys((*ref.partition.elr, *found, *gone)))

    return mock.patch.object(changes, "_eligible", eligible)


def _reassignments_end_at_once() -> Patch:
    """Added replicas count as in sync at once."""
    real = changes.complete_reassignment

    def complete(partition: Any) -> Any:
        if partition.adding:
            partition = partition._replace(
                isr=tuple(dict.fromkeys((*partition.isr, *partition.adding)))
            )
        return real(partition)

    return mock.patch.object(changes, "complete_reassignment", complete)


def _leader_change_begins_no_epoch() -> Patch:
    """A new leader without a new epoch."""
    from trimaran.quorum.metadata import topics_delta

    real = topics_delta.merge_change

    def merge(partition: Any, record: Any) -> Any:
        return real(partition, record)._replace(leader_epoch=partition.leader_epoch)

    return both(mock.patch.object(topics_delta, "merge_change", merge))


CONTROLLERS = (
    ("emptied disk leads", _emptied_disk_leads, (*SAFETY, "L1")),
    ("emptied disks stay in sync", _emptied_disks_stay_in_sync, (*SAFETY, "L1")),
    ("emptied disks stay eligible", _emptied_disks_stay_eligible, (*SAFETY, "L1")),
    # A leader out of sync proposes an ISR without itself.
    ("out-of-sync replica is elected", _out_of_sync_replica_is_elected, (*SAFETY, "P12", "L1")),
    ("every leaving replica is eligible", _every_leaving_replica_is_eligible, (*SAFETY, "L1")),
    ("reassignments end at once", _reassignments_end_at_once, (*SAFETY, "P3", "L1")),
    (
        "leader change begins no epoch",
        _leader_change_begins_no_epoch,
        (*SAFETY, "P10", "P11", "L1", "AssertionError"),
    ),
)
