"""Loads the state of a shard from the bytes of a partition.

Only records that a compacted log would have kept are decoded and replayed: the last record of each key, in log order. A
log that is not compacted yet holds every record ever written; the resulting state does not depend on when the log is
compacted. Committed transactions (KIP-98) are replayed as plain records; open ones come last, with their producers.
Records of unknown types are skipped; malformed ones fail the load. Source: Kafka's `CoordinatorLoaderImpl`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast

import trio

from trimaran.broker import events
from trimaran.broker.coordination.shard import (
    CoordinatorShard,
    CoordinatorSpec,
    LoadedRow,
    RecordSerde,
    TakeRows,
)
from trimaran.broker.coordination.transactions import PendingTransactions
from trimaran.log.batches.batch import ATTRIBUTES_COMPRESSION, BatchView, iter_batches
from trimaran.log.batches.columns import Columns, decode_columns
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.producers.marker import read_end_marker
from trimaran.log.segments.slices import LogSlice
from trimaran.node.replicated.state_machine import Producer
from trimaran.node.runtime.long_lived import LongLived
from trimaran.node.runtime.threads import run_blocking
from trimaran.wire.identity import Offset

log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard[Any])
R = TypeVar("R")

# The number of rows replayed before the garbage collector is informed that they are permanent: scanning a million of
# them would take longer than the rest of the load.
ROWS_AT_ONCE = 1000


class CoordinatorLoader(Generic[R]):
    """Reads a log piece by piece; must be called from one thread at a time.

    `compacted` is False for a topic that is never compacted: then every record is replayed (Kafka's
    `__share_group_state`).
    """

    def __init__(self, serde: RecordSerde[R], *, compacted: bool = True) -> None:
        self._serde = serde
        self._compacted = compacted
        # Offset, encoded key and value; by encoded key, or by offset if every record counts.
        self._last: dict[bytes | int, LoadedRow] = {}
        self._pending = PendingTransactions[bytes | int, tuple[bytes, bytes | None]]()
        self._long_lived = LongLived()
        self.record_count = 0

    def feed(self, data: bytes) -> Offset | None:
        """Processes whole batches, in log order; returns the offset after the last one, or None if there are none.

        Raises:
            RemoteProtocolError: a batch is malformed.
        """
        next_offset = None
        run: list[BatchView] = []  # decoded together: most batches have a record or two
        for batch in iter_batches(data):
            if batch.is_control:
                self._take(run)
                run = []
                self._end_transaction(batch)
            else:
                run.append(batch)
            next_offset = batch.next_offset
        self._take(run)
        return next_offset

    def _take(self, batches: Sequence[BatchView]) -> None:
        for run in _runs(batches):
            columns = decode_columns(run)
            if not self._compacted or self._pending.keys or any(b.is_transactional for b in run):
                self._take_each(run, columns)
            else:
                self._take_all(columns)
            self.record_count += len(columns)
            self._long_lived.add(len(columns))

    def _take_all(self, columns: Columns) -> None:
        """Processes records as `_take_each` does, at a third of the cost: plain records whose keys have no open
        transaction.
        """
        keys = columns.keys()
        entries = zip(columns.offset, keys, columns.values(), strict=True)
        last = cast("dict[Any, Any]", self._last)
        last.update(zip(keys, entries, strict=True))
        last.pop(None, None)  # records without a key

    def _take_each(self, run: Sequence[BatchView], columns: Columns) -> None:
        rows = zip(columns.offset, columns.batch, columns.keys(), columns.values(), strict=True)
        for offset, index, key, value in rows:
            if key is None:
                continue
            place = key if self._compacted else offset
            batch = run[index]
            if batch.is_transactional:
                producer = Producer(batch.producer_id, batch.producer_epoch)
                self._pending.add(Offset(offset), producer, place, (key, value))
            else:
                self._pending.supersede(place, Offset(offset))
                self._last[place] = (Offset(offset), key, value)

    def _end_transaction(self, batch: BatchView) -> None:
        marker = read_end_marker(batch)
        if marker is not None:
            for ended in self._pending.end(batch.producer_id, marker.is_commit):
                self._last[ended.key] = (ended.offset, *ended.value)

    def replay_into(self, shard: CoordinatorShard[R], take_rows: TakeRows | None = None) -> None:
        """Replays the loaded log into the empty `shard`; `take_rows`, if given, takes the rows without an open
        transaction instead of decoding and replaying each.

        Raises:
            RemoteProtocolError: a record is malformed, or of a version that this coordinator does not know.
        """
        take = take_rows or self._replaying(shard)
        rows = sorted(self._last.values(), key=itemgetter(0))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            take([row for row in some if row[2] is not None] if self._compacted else some)
            self._long_lived.add(ROWS_AT_ONCE)
        for pending in self._pending:
            record = self._serde.decode(*pending.value)
            if record is not None:
                shard.replay(pending.offset, record, pending.producer)

    def _replaying(self, shard: CoordinatorShard[R]) -> TakeRows:
        decode, replay = self._serde.decode, shard.replay

        def take(rows: Iterable[LoadedRow]) -> None:
            for offset, key, value in rows:
                record = decode(key, value)
                if record is not None:
                    replay(offset, record)

        return take


def _runs(batches: Sequence[BatchView]) -> Iterator[Sequence[BatchView]]:
    """Yields the batches to decode together: consecutive uncompressed ones together, each compressed one alone, because
    it may expand considerably.
    """
    for is_compressed, run in groupby(
        batches, lambda batch: batch.attributes & ATTRIBUTES_COMPRESSION
    ):
        if is_compressed:
            yield from ([batch] for batch in run)
        else:
            yield list(run)


async def load_shard(
    spec: CoordinatorSpec[S, R], name: str, source: PartitionLog, is_wanted: Callable[[], bool]
) -> tuple[S, Offset]:
    """Returns the shard after a replay of the log, and the end of the log.

    Only this coordinator appends to the log, so its end does not change. The position of a piece is looked up in the
    event loop, because compaction replaces the log's files there. Stops reading early if the load is no longer needed.

    Raises:
        RemoteProtocolError: a record is malformed.
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    loader, shard = CoordinatorLoader(spec.serde, compacted=spec.compacted), spec.make_shard()
    offset, end_offset = source.log_start_offset, source.log_end_offset
    began = trio.current_time()

    def take(piece: LogSlice) -> Offset | None:
        with source.storage(f"loading {name}"):
            data = piece.read()
        return loader.feed(data)

    def finish() -> None:
        loader.replay_into(shard, spec.taking_rows and spec.taking_rows(shard))
        shard.finish_load()

    while offset < end_offset and is_wanted():
        piece = source.read(
            offset,
            spec.load_buffer_bytes,
            upto_offset=end_offset,
            min_one=True,
        )
        next_offset = None if piece is None else await run_blocking(take, piece)
        if next_offset is None:
            break
        offset = next_offset
    await run_blocking(finish)
    if loader.record_count:
        seconds = round(trio.current_time() - began, 3)
        events.COORDINATOR_LOADED.log(log, shard=name, records=loader.record_count, seconds=seconds)
    return shard, end_offset
