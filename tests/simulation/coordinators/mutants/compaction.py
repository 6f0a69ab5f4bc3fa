"""Bugs of compaction that affect coordinators: records are missing when a shard loads a log or a replica copies it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation.coordinators.rules import BRIEF_MS, DAY_MS
from trimaran.log.compaction import planning
from trimaran.log.compaction.cleaning import Round
from trimaran.log.compaction.retention import Fate, Retention
from trimaran.log.compaction.transactions import CleanedTransactions

Patch = AbstractContextManager[Any]


def _tombstones_go_at_once() -> Patch:
    """Tombstones are removed before their horizon: a replica that was behind, or a shard that loads meanwhile, keeps
    the deleted values.
    """
    real = Retention.verdict

    def verdict(self: Any, batch: Any, transactions: Any) -> Any:
        found = real(self, batch, transactions)
        is_plain = found.fate is Fate.BY_KEY
        return found._replace(fate=Fate.BY_KEY_WITHOUT_TOMBSTONES) if is_plain else found

    return mock.patch.object(Retention, "verdict", verdict)


def _markers_go_at_once() -> Patch:
    """Markers are removed at once, as if nothing protected them (KAFKA-14055, Redpanda 4ce6552)."""
    real = Retention.verdict

    def verdict(self: Any, batch: Any, transactions: Any) -> Any:
        found = real(self, batch, transactions)
        return found._replace(fate=Fate.DROP_ALL) if batch.is_control else found

    return mock.patch.object(Retention, "verdict", verdict)


def _markers_go_with_their_records() -> Patch:
    """Markers are removed without a horizon: a later copy of the log has the records, but not their outcome."""
    real = Retention.verdict

    def verdict(self: Any, batch: Any, transactions: Any) -> Any:
        found = real(self, batch, transactions)
        is_unneeded = batch.is_control and found.needs_horizon
        return found._replace(fate=Fate.DROP_ALL, needs_horizon=False) if is_unneeded else found

    return mock.patch.object(Retention, "verdict", verdict)


def _open_transactions_are_compacted() -> Patch:
    """KAFKA-13194: compaction runs up to the end of the log, past uncommitted and undecided records."""
    real = planning.measure

    def measure(segments: Any, config: Any, *, stable_offset: int, **facts: Any) -> Any:
        return real(segments, config, stable_offset=facts["log_end_offset"], **facts)

    return mock.patch.object(planning, "measure", measure)


def _aborted_records_count() -> Patch:
    """Aborted records enter the offset map and replace the committed ones before them."""
    real = Round._note

    def note(self: Any, run: Any, _transactions: Any, source: Any) -> bool:
        return real(self, run, CleanedTransactions(()), source)

    return mock.patch.object(Round, "_note", note)


def _aborted_records_stay() -> Patch:
    """KAFKA-13727: aborts in an earlier part of the log are not known."""

    def plan(*arguments: Any, **options: Any) -> Any:
        planned = planning.plan_round(*arguments, **options)
        planned.aborted = ()
        planned._transactions = CleanedTransactions(())
        return planned

    return mock.patch("trimaran.broker.background.log_cleaner.plan_round", plan)


def _last_batch_of_a_producer_is_removed() -> Patch:
    """The last batch of a producer is removed with its sequence and epoch (KAFKA-4790 and similar bugs)."""
    return mock.patch.object(Retention, "_is_last_of_producer", return_value=False)


_OFTEN = {"compact_every": 0.1, "delete_retention_ms": DAY_MS}
_BRIEF = {"compact_every": 0.1, "delete_retention_ms": BRIEF_MS}
LOST = (
    "P18",
    "T9",
    "I3",
    "P8",
    "P10",
    "P15",
    "G1",
    "G2",
    "G3",
    "G4",
    "G5",
    "T1",
    "T3",
    "T5",
    "T7",
    "T10",
    "L1",
)
COMPACTION: tuple[tuple[str, Any, tuple[str, ...], dict[str, Any]], ...] = (
    ("tombstones go at once", _tombstones_go_at_once, LOST, _OFTEN),
    ("markers go at once", _markers_go_at_once, LOST, _OFTEN),
    ("markers go with their records", _markers_go_with_their_records, LOST, _OFTEN),
    ("open transactions are compacted", _open_transactions_are_compacted, LOST, _OFTEN),
    ("aborted records count", _aborted_records_count, LOST, _OFTEN),
    ("aborted records stay", _aborted_records_stay, LOST, _BRIEF),
    ("last batch of a producer is removed", _last_batch_of_a_producer_is_removed, LOST, _BRIEF),
)
