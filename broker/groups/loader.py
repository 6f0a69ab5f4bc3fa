"""From the bytes of a partition of `__consumer_offsets` to its `GroupStore`.

Only the last value of each key is decoded: what was not compacted yet holds every commit ever made. Source: Kafka's `CoordinatorLoaderImpl`. Offsets of transactions (KIP-98) count from
their commit marker on, and only against older plain commits; those of open transactions are left out.
Records of types not known here (KIP-848 and share groups) are skipped; malformed ones fail the load, as in Kafka.
"""

from __future__ import annotations

from broker.groups.records import GroupRecord, decode_value
from broker.groups.store import GroupStore
from log.batches.batch import BatchView, iter_batches
from log.batches.records import decode_records
from wire.messages.control import ControlType, decode_control_key
from wire.records.groups import decode_group_key

_Last = dict[bytes, tuple[int, bytes | None]]
"""Encoded key → (offset, encoded value) of its last record."""


class StoreLoader:
    """Takes a log piece by piece; call it from one thread at a time."""

    def __init__(self) -> None:
        self._last: _Last = {}
        self._open: dict[int, _Last] = {}
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
            for record in decode_records(batch):
                self._end_transaction(batch.producer_id, record.key or b"")
            return
        last = self._last
        if batch.is_transactional:
            last = self._open.setdefault(batch.producer_id, {})
        for record in decode_records(batch):
            if record.key is not None:
                last[record.key] = (record.offset, record.value)
        self.record_count += batch.count

    def _end_transaction(self, producer_id: int, control_key: bytes) -> None:
        kind = decode_control_key(control_key)
        if kind not in {ControlType.COMMIT, ControlType.ABORT}:
            return
        ended = self._open.pop(producer_id, {})
        if kind is ControlType.ABORT:
            return
        for key, (offset, value) in ended.items():
            if key not in self._last or self._last[key][0] < offset:
                self._last[key] = (offset, value)

    def finish(self) -> GroupStore:
        """The state that the log has led to.

        Raises:
            RemoteProtocolError: a record is malformed, or of a version this coordinator does not know.
        """
        store = GroupStore()
        for encoded_key, (_, value) in self._last.items():
            key = decode_group_key(encoded_key)
            if key is not None and value is not None:
                store.replay(GroupRecord(key, decode_value(key, value)))
        return store
