"""Finds the aborted transactions that a read_committed consumer must filter out of its records (KIP-98).

Usually there are none, and the search takes little time. While one transaction is open for a long time, a hundred
thousand others may be aborted; these are listed in steps when the fetch is answered. The list is bounded by the
records, since each transaction has a batch and a marker, and by the producers of the partition
(`trimaran.log.producers.state.PRODUCERS_MAX`).
"""

from __future__ import annotations

from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.segments.slices import LogSlice
from trimaran.log.steps import Steps, TakesLong, at_once
from trimaran.node.runtime.steps import pieces
from trimaran.wire.messages.fetch import AbortedTransaction

# The maximum work of a poll on the aborted transactions of a partition (see `trimaran.log.steps`). The response does
# the remaining work in steps.
UNITS_AT_ONCE = 60
# Adding an aborted transaction to the response takes a microsecond.
LISTED_PER_STEP, LISTED_PER_UNIT = 1_000, 5


def aborted_at_once(log: PartitionLog, records: object) -> list[AbortedTransaction] | None:
    """Returns the result of `aborted`, or None if that takes long."""
    if not isinstance(records, LogSlice) or log.has_no_aborts(records.first_offset):
        return []
    try:
        return at_once(aborted(log, records), UNITS_AT_ONCE)
    except TakesLong:
        return None


def aborted(
    log: PartitionLog, records: object, removals: int | None = None
) -> Steps[list[AbortedTransaction]]:
    """Lists the aborted transactions that a read_committed consumer must filter out of `records`. `removals` and the
    errors are those of `PartitionLog.find_aborted`.
    """
    if not isinstance(records, LogSlice):
        return []
    found = yield from log.find_aborted(records.first_offset, records.end_offset, removals)
    listed = []
    for some in pieces(found, LISTED_PER_STEP):
        listed += [
            AbortedTransaction(producer_id=e.producer_id, first_offset=e.first_offset) for e in some
        ]
        yield len(some) // LISTED_PER_UNIT
    return listed
