"""Combines the stored states of records with those of a write.

For each record, the state with the higher delivery count is the newer one; with equal counts it is the one with the
higher number, because numbers grow from "available" to the final states. Source: Kafka's `PersisterStateBatchCombiner`,
which sorts all batches again for every write; here a small write costs as much as the batches that it touches, and a
large one passes over both sequences once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from trimaran.broker.share_state.states import StateBatch
from trimaran.wire.identity import NO_OFFSET, Offset

_FIRST, _LAST = attrgetter("first_offset"), attrgetter("last_offset")

# A write of more batches is united with the known ones in one pass.
_LAID_SINGLY_MAX = 16


def combined(
    known: Sequence[StateBatch], written: Iterable[StateBatch], start_offset: Offset
) -> tuple[StateBatch, ...]:
    """Returns the states of all records from `start_offset` on (-1: of all records), in order and in as few batches as
    possible. `known` is the result of an earlier call; `written` may be in any order and overlap. Batches whose last
    offset is below their first are ignored.
    """
    new = sorted(batch for batch in written if batch.first_offset <= batch.last_offset)
    if not known or len(new) <= _LAID_SINGLY_MAX:
        batches = _laid(list(known), new)
    else:
        batches = _united(known, _laid([], new))
    gone = bisect_left(batches, start_offset, key=_LAST)
    kept = batches[gone:]
    if kept and kept[0].first_offset < start_offset:
        kept[0] = kept[0]._replace(first_offset=start_offset)
    return tuple(kept)


def _laid(batches: list[StateBatch], new: Iterable[StateBatch]) -> list[StateBatch]:
    """Adds each of the `new` batches to the ordered `batches`."""
    for batch in new:
        if not batches or batches[-1].last_offset < batch.first_offset:
            _add(batches, batch, batch.first_offset, batch.last_offset)
        else:
            _lay(batches, batch)
    return batches


class _Cursor:
    """The batches of a sequence one by one; `first` is the first record of `batch` that was not passed yet."""

    __slots__ = ("batch", "first", "left")

    def __init__(self, batches: Iterable[StateBatch]) -> None:
        self.left = iter(batches)
        self.pass_batch()

    def pass_batch(self) -> None:
        self.batch = next(self.left, None)
        self.first = NO_OFFSET if self.batch is None else self.batch.first_offset


def _united(some: Iterable[StateBatch], others: Iterable[StateBatch]) -> list[StateBatch]:
    """Returns the states of two ordered sequences, each without overlaps."""
    found: list[StateBatch] = []
    low, high = _Cursor(some), _Cursor(others)
    while (one := low.batch) is not None and (other := high.batch) is not None:
        if low.first > high.first:
            low, high = high, low
        elif one.last_offset < high.first:
            _add(found, one, low.first, one.last_offset)
            low.pass_batch()
        elif low.first < high.first:
            _add(found, one, low.first, Offset(high.first - 1))
            low.first = high.first
        else:
            is_newer = (one.delivery_count, one.state) >= (other.delivery_count, other.state)
            last = min(other.last_offset, one.last_offset)
            _add(found, one if is_newer else other, low.first, last)
            for cursor, batch in ((low, one), (high, other)):
                if batch.last_offset == last:
                    cursor.pass_batch()
                else:
                    cursor.first = Offset(last + 1)
    for cursor in (low, high):
        while (batch_left := cursor.batch) is not None:
            _add(found, batch_left, cursor.first, batch_left.last_offset)
            cursor.pass_batch()
    return found


def _add(batches: list[StateBatch], batch: StateBatch, first: Offset, last: Offset) -> None:
    """Appends the records of a batch from `first` to `last`; a batch with the same state that ends just before them is
    extended instead.
    """
    if batches:
        tail = batches[-1]
        is_like = tail.state is batch.state and tail.delivery_count == batch.delivery_count
        if is_like and tail.last_offset + 1 == first:
            batches[-1] = tail._replace(last_offset=last)
            return
    if first == batch.first_offset and last == batch.last_offset:
        batches.append(batch)
    else:
        batches.append(StateBatch(first, last, batch.state, batch.delivery_count))


def _lay(batches: list[StateBatch], new: StateBatch) -> None:
    """Adds `new` to the ordered `batches`, which do not end before it."""
    # A neighbour that only touches `new` is united with it, too, to be joined with it.
    low = bisect_left(batches, new.first_offset - 1, key=_LAST)
    high = bisect_right(batches, new.last_offset + 1, key=_FIRST)
    batches[low:high] = _united(batches[low:high], [new])
