"""Combines the stored states of records with those of a write.

For each record, the state with the higher delivery count is the newer one; with equal counts it is the one with the
higher number, because numbers grow from "available" to the final states. Source: Kafka's `PersisterStateBatchCombiner`,
which sorts all batches again for every write; here a write costs as much as the batches that it touches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from trimaran.broker.share_state.states import StateBatch
from trimaran.wire.identity import Offset

_FIRST, _LAST = attrgetter("first_offset"), attrgetter("last_offset")


def combined(
    known: Sequence[StateBatch], written: Iterable[StateBatch], start_offset: Offset
) -> tuple[StateBatch, ...]:
    """Returns the states of all records from `start_offset` on (-1: of all records), in order and in as few batches as
    possible. `known` is the result of an earlier call; `written` may be in any order and overlap. Batches whose last
    offset is below their first are ignored.
    """
    batches = list(known)
    for batch in written:
        if batch.first_offset <= batch.last_offset:
            _lay(batches, batch)
    gone = bisect_left(batches, start_offset, key=_LAST)
    kept = batches[gone:]
    if kept and kept[0].first_offset < start_offset:
        kept[0] = kept[0]._replace(first_offset=start_offset)
    return tuple(kept)


def _lay(batches: list[StateBatch], new: StateBatch) -> None:
    """Adds `new` to the ordered `batches`, which it may overlap."""
    if not batches or batches[-1].last_offset < new.first_offset:
        _join(batches, new)  # most writes continue behind the end
        return
    # A neighbour that only touches `new` is laid again, too, to be joined with it.
    low = bisect_left(batches, new.first_offset - 1, key=_LAST)
    high = bisect_right(batches, new.last_offset + 1, key=_FIRST)
    pieces: list[StateBatch] = []
    following = new.first_offset  # the first record of `new` that has no piece yet
    for old in batches[low:high]:
        if old.first_offset > following:
            last = min(Offset(old.first_offset - 1), new.last_offset)
            if following <= last:
                _join(pieces, new._replace(first_offset=following, last_offset=last))
        for piece in _split(old, new):
            _join(pieces, piece)
        following = max(following, old.last_offset + 1)
    if following <= new.last_offset:
        _join(pieces, new._replace(first_offset=following))
    batches[low:high] = pieces


def _split(old: StateBatch, new: StateBatch) -> Iterable[StateBatch]:
    """Yields the records of `old`, with the newer state where both have one."""
    if _rank(old) >= _rank(new):
        yield old
        return
    first, last = (
        max(old.first_offset, new.first_offset),
        min(old.last_offset, new.last_offset),
    )
    if first > last:
        yield old
        return
    if old.first_offset < first:
        yield old._replace(last_offset=first - 1)
    yield new._replace(first_offset=first, last_offset=last)
    if last < old.last_offset:
        yield old._replace(first_offset=last + 1)


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.state


def _join(batches: list[StateBatch], batch: StateBatch) -> None:
    """Appends a batch; one with the same state that ends just before it is extended instead."""
    if batches:
        tail = batches[-1]
        if tail.last_offset + 1 == batch.first_offset and _rank(tail) == _rank(batch):
            batches[-1] = tail._replace(last_offset=batch.last_offset)
            return
    batches.append(batch)
