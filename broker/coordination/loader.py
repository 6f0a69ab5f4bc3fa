"""From the bytes of a partition to the state of a shard.

Only what a compacted log would have kept is decoded and replayed: the last record of each key, in the order of the log.
What was not compacted yet holds every record ever made, and a shard whose log may be compacted at any time arrives at
the same state. Of transactions (KIP-98) those that were committed are replayed as plain records; those that are open
come last, with their producers. Records of types not known here are skipped; malformed ones fail the load.
Source: Kafka's `CoordinatorLoaderImpl`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from broker.coordination.shard import CoordinatorShard, Producer, RecordSerde
from broker.coordination.transactions import PendingTransactions
from log.batches.batch import BatchView, iter_batches
from log.batches.records import decode_records
from log.producers.marker import read_end_marker

R = TypeVar("R")


class CoordinatorLoader(Generic[R]):
    """Takes a log piece by piece; call it from one thread at a time.

    `compacted`: of a topic that is never compacted every record is replayed (Kafka's `__share_group_state`).
    """

    def __init__(self, serde: RecordSerde[R], *, compacted: bool = True) -> None:
        self._serde = serde
        self._compacted = compacted
        # By encoded key, or by offset where every record counts: offset, encoded key and value.
        self._last: dict[bytes | int, tuple[int, bytes, bytes | None]] = {}
        self._pending = PendingTransactions[bytes | int, tuple[bytes, bytes | None]]()
        self.record_count = 0

    def feed(self, data: bytes) -> int | None:
        """Takes whole batches, in log order; returns the offset after the last one, None without any.

        Raises:
            RemoteProtocolError: a batch is malformed.
        """
        next_offset = None
        for batch in iter_batches(data):
            self._take(batch)
            next_offset = batch.next_offset
        return next_offset

    def _take(self, batch: BatchView) -> None:
        if batch.is_control:
            marker = read_end_marker(batch)
            if marker is not None:
                self._end_transaction(batch.producer_id, marker.is_commit)
            return
        producer = Producer(batch.producer_id, batch.producer_epoch)
        for record in decode_records(batch):
            if record.key is None:
                continue
            place = record.key if self._compacted else record.offset
            if batch.is_transactional:
                self._pending.add(record.offset, producer, place, (record.key, record.value))
            else:
                self._pending.supersede(place, record.offset)
                self._last[place] = (record.offset, record.key, record.value)
        self.record_count += batch.count

    def _end_transaction(self, producer_id: int, is_commit: bool) -> None:
        for offset, _, place, (key, value) in self._pending.end(producer_id, is_commit):
            self._last[place] = (offset, key, value)

    def replay_into(self, shard: CoordinatorShard[R]) -> None:
        """Gives `shard`, which is empty, the state that the log has led to.

        Raises:
            RemoteProtocolError: a record is malformed, or of a version this coordinator does not know.
        """
        for offset, key, value in sorted(self._last.values(), key=_offset):
            if value is not None or not self._compacted:
                self._replay(shard, offset, key, value, None)
        for offset, producer, _, (key, value) in self._pending:
            self._replay(shard, offset, key, value, producer)

    def _replay(
        self,
        shard: CoordinatorShard[R],
        offset: int,
        key: bytes,
        value: bytes | None,
        producer: Producer | None,
    ) -> None:
        record = self._serde.decode(key, value)
        if record is not None:
            shard.replay(offset, record, producer)


def _offset(entry: tuple[int, Any, Any]) -> int:
    return entry[0]
