"""Committed records of one compacted partition that may be missing, computed without the product's code.

A record may be removed once a later one of its key counts, if its transaction was aborted, or if it is a tombstone past
its retention and no older record of its key is left. A marker may be removed once it is past its retention and no batch
of its transaction is left (KIP-534).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.simulation.coordinators.batches import Batch

Require = Callable[..., None]


class Left(NamedTuple):
    """The remains of a batch in a replica: None if nothing remains, or the batch with fewer records."""

    written: Batch
    found: Batch | None


class Compacted:
    """The removable records of a partition; `committed` is called for each batch at its commit. `retention_ms` is that
    of tombstones and markers.
    """

    def __init__(self, require: Require, retention_ms: int) -> None:
        self._require = require
        self._retention_ms = retention_ms
        self._newest: dict[bytes, int] = {}  # by key: the last offset that counts
        self._open: defaultdict[int, list[Batch]] = defaultdict(list)
        self._aborted: set[int] = set()  # offsets of batches
        self._ended: dict[
            int, list[int]
        ] = {}  # by offset of a marker: the batches of its transaction
        self._since_ms: dict[int, int] = {}

    def committed(self, batch: Batch, now_ms: int) -> None:
        self._since_ms[batch.base] = now_ms
        if batch.marker is not None:
            ended = self._open.pop(batch.producer_id, [])
            self._ended[batch.base] = [written.base for written in ended]
            for written in ended:
                if batch.marker.is_commit:
                    self._count(written)
                else:
                    self._aborted.add(written.base)
        elif batch.is_transactional:
            self._open[batch.producer_id].append(batch)
        else:
            self._count(batch)

    def _count(self, batch: Batch) -> None:
        for offset, key, _ in batch.records:
            self._newest[key] = max(offset, self._newest.get(key, -1))

    def check(self, who: object, everything: Iterable[Left], now_ms: int) -> None:
        """Checks the content of a replica: the whole, or what was added since the last check."""
        there: set[int] = set()
        oldest: dict[bytes, int] = {}
        for written, found in everything:
            if found is not None:
                there.add(found.base)
                self._is_thinned(who, written, found)
                for offset, key, _ in found.records:
                    oldest.setdefault(key, offset)
            is_over = self._since_ms.get(written.base, now_ms) + self._retention_ms <= now_ms
            kept = frozenset() if found is None else frozenset(found.records)
            for record in written.records:
                if record not in kept:
                    self._may_go(who, written, record, is_over and record[1] not in oldest)
            if written.marker is not None and (found is None or found.marker is None):
                left = there.intersection(self._ended.get(written.base, ()))
                self._require(
                    is_over and not left, "T9", who, "has lost", written, "of the batches at", left
                )

    def _is_thinned(self, who: object, written: Batch, found: Batch) -> None:
        same = found._replace(records=written.records, marker=written.marker) == written
        self._require(
            same
            and set(found.records) <= set(written.records)
            and found.marker in (None, written.marker),
            *("P18", who, "has", found, "of", written),
        )

    def _may_go(
        self, who: object, batch: Batch, record: tuple[int, bytes, bytes | None], is_over: bool
    ) -> None:
        offset, key, value = record
        self._require(
            self._newest.get(key, -1) > offset
            or batch.base in self._aborted
            or (value is None and is_over),
            *("P18", who, "has lost", record, "of", batch, "the newest is", self._newest.get(key)),
        )
