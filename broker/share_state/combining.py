"""Combines the stored states of records with those of a write.

For each record, the state with the higher delivery count is the newer one; with equal counts it is the one with the
higher number, because numbers grow from "available" to the final states. Source: Kafka's `PersisterStateBatchCombiner`,
which sorts all batches again for every write; here a small write costs as much as the batches that it touches, and a
large one passes over both sequences once, in steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter

from trimaran.broker.share_state.states import StateBatch
from trimaran.node.runtime.steps import Steps, at_once
from trimaran.wire.identity import Offset

_FIRST, _LAST = attrgetter("first_offset"), attrgetter("last_offset")

# The batches of a larger write are united with the known ones in one pass.
_LAID_SINGLY_MAX = 16
# The number of batches that are processed in one step: about a millisecond.
BATCHES_PER_STEP = 500


def combined(
    known: Sequence[StateBatch], written: Iterable[StateBatch], start_offset: Offset
) -> tuple[StateBatch, ...]:
    """Returns the result of `combining` at once."""
    return at_once(combining(known, written, start_offset))


def combining(
    known: Sequence[StateBatch], written: Iterable[StateBatch], start_offset: Offset
) -> Steps[tuple[StateBatch, ...]]:
    """Returns the states of all records from `start_offset` on (-1: of all records), in order and in as few batches as
    possible. `known` is the result of an earlier call; `written` may be in any order and overlap. Batches whose last
    offset is below their first are ignored.
    """
    new = sorted([batch for batch in written if batch.first_offset <= batch.last_offset])
    if len(new) <= _LAID_SINGLY_MAX:
        batches = list(known)
        for batch in new:
            _lay(batches, batch)
    else:
        batches = yield from _united(sorted([*known, *new]))
    gone = bisect_left(batches, start_offset, key=_LAST)
    kept = batches[gone:]
    if kept and kept[0].first_offset < start_offset:
        kept[0] = kept[0]._replace(first_offset=start_offset)
    return tuple(kept)


def _lay(batches: list[StateBatch], new: StateBatch) -> None:
    """Adds a batch to batches that are in order and do not overlap."""
    if not batches or batches[-1].last_offset < new.first_offset:
        _add(batches, new, new.first_offset, new.last_offset)
        return
    # A batch that ends just before `new`, or begins just after it, is included: if the states are equal, the two become
    # one batch.
    low = bisect_left(batches, new.first_offset - 1, key=_LAST)
    high = bisect_right(batches, new.last_offset + 1, key=_FIRST)
    batches[low:high] = at_once(_united(sorted([*batches[low:high], new])))


def _united(batches: Sequence[StateBatch]) -> Steps[list[StateBatch]]:
    """Returns the states of batches that are in the order of their first offsets, and may overlap."""
    found: list[StateBatch] = []
    # The batches that have begun, the newest first.
    begun: list[tuple[int, int, StateBatch]] = []
    following, count, passed = 0, len(batches), 0
    offset = Offset(0)
    while begun or following < count:
        passed += 1
        if passed % BATCHES_PER_STEP == 0:
            yield BATCHES_PER_STEP
        if not begun:
            batch = batches[following]
            offset, last = batch.first_offset, batch.last_offset
            if following + 1 == count or batches[following + 1].first_offset > last:
                _add(found, batch, offset, last)
                following += 1
                continue
        while following < count and batches[following].first_offset <= offset:
            batch = batches[following]
            heappush(begun, (-batch.delivery_count, -batch.state, batch))
            following += 1
        newest = begun[0][2]
        if newest.last_offset < offset:
            heappop(begun)
            continue
        last = newest.last_offset
        if following < count and batches[following].first_offset <= last:
            last = Offset(batches[following].first_offset - 1)
        _add(found, newest, offset, last)
        offset = Offset(last + 1)
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
