"""Bugs of leaders: the watermark, in-sync replicas, acknowledgements. Numbers are those of Kafka's and Redpanda's
trackers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation.mutants.mutant import both
from trimaran.broker.partitions import alter_partitions, in_sync_replicas, leader_watermarks
from trimaran.broker.partitions.in_sync_replicas import InSyncReplicas
from trimaran.broker.partitions.isr import IsrState, ReplicaProgress
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.leader_watermarks import LeaderWatermarks
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.replica import Replica
from trimaran.broker.producing import await_replicas
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.quorum.controller.partitions import alter_partition as controller
from trimaran.wire.errors import ErrorCode

Patch = AbstractContextManager[Any]
# The checks that may detect a violation of safety first.
SAFETY = ("P1", "P5", "P8", "P9", "P7", "P26")


def _epoch_start_not_recorded() -> Patch:
    """KAFKA-7415."""
    return mock.patch.object(PartitionLog, "begin_epoch", return_value=None)


def _joins_below_the_epochs_start() -> Patch:
    """KAFKA-7128."""
    real = in_sync_replicas.may_join
    return mock.patch.object(
        *(in_sync_replicas, "may_join"),
        lambda progress, high, _epoch_start, log_start: real(progress, high, 0, log_start),
    )


def _joins_below_the_watermark() -> Patch:
    return mock.patch.object(in_sync_replicas, "may_join", return_value=True)


def _joins_with_another_history() -> Patch:
    """A log that ends at the start of the leader's log may have a different history."""
    real = in_sync_replicas.may_join
    return mock.patch.object(
        *(in_sync_replicas, "may_join"),
        lambda progress, high, epoch_start, _log_start: real(progress, high, epoch_start, -1),
    )


def _position_never_goes_back() -> Patch:
    """A replica that returns with an emptied disk counts with its previous position."""
    real = ReplicaProgress.record

    def record(self: ReplicaProgress, offset: int, **options: Any) -> None:
        real(self, max(offset, self.end_offset), **options)

    return mock.patch.object(ReplicaProgress, "record", record)


def _counts_the_committed_isr_only() -> Patch:
    """KIP-497: a proposed member may be in the ISR already."""
    return mock.patch.object(IsrState, "maximal", property(lambda self: frozenset(self.isr)))


def _counts_the_proposed_isr_only() -> Patch:
    return mock.patch.object(
        IsrState,
        "maximal",
        property(lambda self: frozenset(self.isr if self.proposed is None else self.proposed)),
    )


def _acks_wait_for_no_replica() -> Patch:
    return mock.patch.object(
        leader_watermarks, "next_high_watermark", lambda current, end, *_: max(current, end)
    )


def _counts_what_is_not_flushed() -> Patch:
    def advance(self: LeaderWatermarks) -> None:
        offset = self._next_high(self._log.log_end_offset)
        if offset > self.high.offset:
            self.high.advance(offset)
            self._replica.watchers.watermark_moved()

    return mock.patch.object(LeaderWatermarks, "advance_high", advance)


def _too_few_replicas_commit() -> Patch:
    return mock.patch.object(InSyncReplicas, "is_under_min", property(lambda _: False))


def _keeps_the_epoch_of_the_same_leader() -> Patch:
    """A leader that is elected again in a new epoch keeps its old state."""
    real = Partition.apply

    def apply(self: Partition, state: Any) -> bool:
        if state.leader == self.state.leader and self.leader_or_none is not None:
            self.state = state
            return False
        return real(self, state)

    return mock.patch.object(Partition, "apply", apply)


def _stale_incarnations_count() -> Patch:
    """KIP-903: a fetch of a broker's old incarnation counts."""
    real = PartitionLeader.record_fetch

    def record(self: PartitionLeader, replica_id: int, offset: int, *rest: Any) -> None:
        start, _epoch, clock = rest
        broker = self._services.metadata.image.cluster.brokers[replica_id]
        real(self, replica_id, offset, start, broker.epoch, clock)

    return both(
        mock.patch.object(PartitionLeader, "record_fetch", record),
        mock.patch("trimaran.broker.handlers.fetch._refusal", return_value=ErrorCode.NONE),
    )


def _names_the_registered_epochs() -> Patch:
    """KAFKA-15221: eligibility is checked against one state, and the request is built from another."""

    def epoch(self: InSyncReplicas, replica_id: int) -> int:
        broker = self._services.metadata.image.cluster.brokers.get(replica_id)
        return -1 if broker is None else broker.epoch

    return both(
        mock.patch.object(InSyncReplicas, "_broker_epoch", epoch),
        mock.patch.object(InSyncReplicas, "_eligible", return_value=True),
    )


def _fenced_brokers_join() -> Patch:
    """KAFKA-14139, on the leader and on the controller."""
    return both(
        mock.patch.object(InSyncReplicas, "_eligible", return_value=True),
        mock.patch.object(controller, "_is_eligible", return_value=True),
    )


def _any_isr_answer_is_accepted() -> Patch:
    """The answer to an older change settles a newer one."""
    return mock.patch.object(PartitionLeader, "_is_current", lambda self, _change: not self.ended)


def _old_proposals_are_accepted() -> Patch:
    """The controller does not compare partition epochs, so that a late request undoes later changes."""
    real = controller.check_proposal

    def check(broker_id: int, partition: Any, proposal: Any, image: Any) -> ErrorCode:
        if partition is not None and proposal.partition_epoch < partition.partition_epoch:
            proposal.partition_epoch = partition.partition_epoch
        return real(broker_id, partition, proposal, image)

    return both(
        mock.patch.object(controller, "check_proposal", check),
        mock.patch.object(InSyncReplicas, "committed", _commit),
    )


def _commit(self: InSyncReplicas, isr: tuple[int, ...], epoch: int) -> bool:
    self._set(IsrState(isr, epoch))
    return True


def _retry_proposes_an_empty_isr() -> Patch:
    """KAFKA-15353: the second request is built from data that the first one has consumed."""
    real, asked = alter_partitions.build_request, set()

    def build(changes: Any, *rest: Any) -> Any:
        request = real(changes, *rest)
        for topic in request.topics:
            for partition in topic.partitions:
                key = (
                    topic.topic_id,
                    partition.partition_index,
                    partition.leader_epoch,
                    partition.partition_epoch,
                )
                if key in asked:
                    partition.new_isr_with_epochs = []
                asked.add(key)
        return request

    return mock.patch.object(alter_partitions, "build_request", build)


def _refused_isr_is_committed() -> Patch:
    """A change that the controller did not apply becomes the ISR."""

    def refused(self: InSyncReplicas) -> None:
        self._set(IsrState(self.isr.proposed or self.isr.isr, self.isr.partition_epoch))

    return mock.patch.object(InSyncReplicas, "not_applied", refused)


def _acks_when_the_epoch_ends() -> Patch:
    """Redpanda 3003: a request gets the outcome of a later leader epoch."""

    def outcome(leader: PartitionLeader, required: int) -> ErrorCode:
        done = leader.high_watermark.closed or leader.high_watermark.offset >= required
        return ErrorCode.NONE if done else ErrorCode.REQUEST_TIMED_OUT

    return mock.patch.object(await_replicas, "_outcome", outcome)


def _late_batch_is_acknowledged() -> Patch:
    return mock.patch.object(await_replicas, "_outcome", return_value=ErrorCode.NONE)


def _unknown_watermark_is_reported() -> Patch:
    """Redpanda 10885: a new leader reports its old watermark."""
    return mock.patch.object(PartitionLeader, "knows_committed", property(lambda _: True))


def _watermark_begins_at_the_end() -> Patch:
    return mock.patch.object(Replica, "watermark_in_log", lambda self: self.log.log_end_offset)


LEADERS = (
    ("epoch start not recorded", _epoch_start_not_recorded, (*SAFETY, "P10", "P15", "L1", "P3")),
    ("joins below the epoch's start", _joins_below_the_epochs_start, (*SAFETY, "P3")),
    ("joins below the watermark", _joins_below_the_watermark, (*SAFETY, "P3")),
    ("joins with another history", _joins_with_another_history, (*SAFETY, "P3")),
    ("position never goes back", _position_never_goes_back, (*SAFETY, "P3", "L1")),
    ("counts the committed ISR only", _counts_the_committed_isr_only, SAFETY),
    ("counts the proposed ISR only", _counts_the_proposed_isr_only, SAFETY),
    ("acks wait for no replica", _acks_wait_for_no_replica, SAFETY),
    ("counts what is not flushed", _counts_what_is_not_flushed, SAFETY),
    ("too few replicas commit", _too_few_replicas_commit, SAFETY),
    ("keeps the epoch of the same leader", _keeps_the_epoch_of_the_same_leader, (*SAFETY, "L1")),
    ("stale incarnations count", _stale_incarnations_count, (*SAFETY, "P3")),
    ("names the registered epochs", _names_the_registered_epochs, (*SAFETY, "P3")),
    ("fenced brokers join", _fenced_brokers_join, (*SAFETY, "P3", "L1")),
    ("any ISR answer is accepted", _any_isr_answer_is_accepted, SAFETY),
    ("old proposals are accepted", _old_proposals_are_accepted, (*SAFETY, "P3", "L1")),
    ("retry proposes an empty ISR", _retry_proposes_an_empty_isr, ("P12",)),
    ("refused ISR is committed", _refused_isr_is_committed, (*SAFETY, "L1")),
    ("acks when the epoch ends", _acks_when_the_epoch_ends, SAFETY),
    ("late batch is acknowledged", _late_batch_is_acknowledged, SAFETY),
    ("unknown watermark is reported", _unknown_watermark_is_reported, ("P7",)),
    ("watermark begins at the end", _watermark_begins_at_the_end, SAFETY),
)
