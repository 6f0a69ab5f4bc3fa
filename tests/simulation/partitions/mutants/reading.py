"""Bugs of responses to followers, and to consumers of both isolation levels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation.mutants.mutant import both
from tests.simulation.partitions.mutants.leaders import SAFETY
from trimaran.broker.fetching.fetch import Fetch
from trimaran.broker.fetching.slots import Found, Slot
from trimaran.broker.handlers.list_offsets import Requester
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.registry import Partitions
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.producers.transactions import OpenTransactions
from trimaran.log.steps import Steps
from trimaran.wire.identity import Offset, TopicPartition

Patch = AbstractContextManager[Any]


def _divergence_is_not_reported() -> Patch:
    """KAFKA-7164: a follower that missed an epoch gets no truncation offset."""
    return mock.patch.object(Fetch, "_diverged", return_value=None)


def _divergence_inside_a_known_epoch() -> Patch:
    """The follower has more records of an epoch than the leader, which knows that epoch."""
    real = Fetch._diverged

    def diverged(self: Fetch, slot: Slot, leader: Any) -> Any:
        epoch, _ = leader.log.end_offset_for_epoch(slot.last_fetched_epoch)
        if slot.last_fetched_epoch >= 0 and epoch == slot.last_fetched_epoch:
            return None
        return real(self, slot, leader)

    return mock.patch.object(Fetch, "_diverged", diverged)


def _divergence_of_an_unknown_epoch() -> Patch:
    real = Fetch._diverged

    def diverged(self: Fetch, slot: Slot, leader: Any) -> Any:
        epoch, end = leader.log.end_offset_for_epoch(slot.last_fetched_epoch)
        if 0 <= epoch < slot.last_fetched_epoch and end >= slot.fetch_offset:
            return None
        return real(self, slot, leader)

    return mock.patch.object(Fetch, "_diverged", diverged)


def _deposed_leader_answers() -> Patch:
    """KAFKA-7395, KIP-320: epochs are not compared."""
    real = Partitions.hosted

    def hosted(self: Partitions, key: TopicPartition, _epoch: int = -1) -> Any:
        return real(self, key)

    def partition(self: Slot, partitions: Partitions) -> Any:
        held = self.attached_to
        if held is None or held.deleted:
            return partitions.hosted(self.named_in(partitions))
        return held

    return both(
        mock.patch.object(Partitions, "hosted", hosted),
        mock.patch.object(Slot, "partition", partition),
    )


def _for_consumers(patch: Callable[[], Patch]) -> Patch:
    """Returns a patch that is active while a consumer's records are read."""
    real = Fetch._read_log

    def read_log(self: Fetch, slot: Slot, leader: Any) -> Found:
        if self._terms.replica_id >= 0:
            return real(self, slot, leader)
        with patch():
            return real(self, slot, leader)

    return mock.patch.object(Fetch, "_read_log", read_log)


def _reads_above_the_watermark() -> Patch:
    """KAFKA-9835, KAFKA-9807."""
    log_end = property(lambda self: self.log.log_end_offset)
    return _for_consumers(lambda: mock.patch.object(PartitionLeader, "committed_end", log_end))


def _read_committed_above_the_watermark() -> Patch:
    real = PartitionLog.last_stable_offset

    def stable(self: PartitionLog, _high: Offset, **_options: bool) -> Offset:
        return real(self, self.log_end_offset)

    return _for_consumers(lambda: mock.patch.object(PartitionLog, "last_stable_offset", stable))


def _read_committed_reads_all() -> Patch:
    return _for_consumers(_open_transactions_are_stable)


def _open_transactions_are_stable() -> Patch:
    return mock.patch.object(PartitionLog, "last_stable_offset", lambda _self, high, **_: high)


def _markers_count_before_they_are_replicated() -> Patch:
    real = OpenTransactions.last_stable_offset
    return mock.patch.object(
        OpenTransactions, "last_stable_offset", lambda self, _high: real(self, 1 << 60)
    )


def _aborted_transactions_are_not_listed() -> Patch:
    """Compaction uses the list, too, and removes a marker too early (T9)."""

    def find(_self: PartitionLog, _start: int, _end: int, _removals: object = None) -> Steps[Any]:
        yield from ()
        return []

    return mock.patch.object(PartitionLog, "find_aborted", find)


def _lists_the_log_s_end() -> Patch:
    return mock.patch.object(Requester, "end_of", lambda _self, leader: leader.log.log_end_offset)


def _every_position_is_recorded_as_the_end() -> Patch:
    """A follower's fetch counts as if it already had the returned records."""
    from trimaran.broker.partitions.leader import PartitionLeader

    real = PartitionLeader.record_fetch

    def record(self: PartitionLeader, replica_id: int, _offset: int, *rest: Any) -> None:
        real(self, replica_id, self.log.log_end_offset, *rest)

    return mock.patch.object(PartitionLeader, "record_fetch", record)


READING = (
    ("divergence is not reported", _divergence_is_not_reported, (*SAFETY, "P10", "P3", "L1")),
    (
        "divergence inside a known epoch",
        _divergence_inside_a_known_epoch,
        (*SAFETY, "P3", "P10", "L1"),
    ),
    ("divergence of an unknown epoch", _divergence_of_an_unknown_epoch, (*SAFETY, "P10", "L1")),
    ("deposed leader answers", _deposed_leader_answers, (*SAFETY, "P11", "P10", "P3")),
    ("reads above the watermark", _reads_above_the_watermark, ("P8", "P7", "T3")),
    ("read_committed above the watermark", _read_committed_above_the_watermark, ("P8", "T3")),
    ("read_committed reads all", _read_committed_reads_all, ("T3",)),
    # Compaction ends at the last stable offset, so it never sees an open transaction (P18).
    ("open transactions are stable", _open_transactions_are_stable, ("T3", "P18")),
    ("markers count at once", _markers_count_before_they_are_replicated, ("T3",)),
    ("aborted transactions are not listed", _aborted_transactions_are_not_listed, ("T8", "T9")),
    ("lists the log's end", _lists_the_log_s_end, ("P7",)),
    ("positions are the end", _every_position_is_recorded_as_the_end, (*SAFETY, "P3")),
)
