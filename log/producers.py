"""Producer state of a partition: what idempotence needs to know a duplicate from a gap (KIP-98, KIP-360).

Source: Kafka's `ProducerStateManager`, `ProducerAppendInfo`, `ProducerStateEntry`; snapshot files in its format.

```
.snapshot = int16 version (1), uint32 CRC-32C of the rest, int32 count, then per producer
            int64 id, int16 epoch, int32 last sequence, int64 last offset, int32 last offset - first offset,
            int64 timestamp, int32 coordinator epoch, int64 first offset of its open transaction (-1 none)
```

The state is a function of the log's batch headers and end-transaction markers; nothing else changes it. Left out until
transactions are served: verification state (KIP-890) and the list of transactions completed but not replicated.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

import crc32c

from log.batch import NO_TIMESTAMP, SEQUENCE_SPACE, BatchView, decode_records
from wire.errors import ErrorCode, KafkaError, RemoteProtocolError

BATCHES_KEPT = (
    5  # a producer has at most five requests in flight (max.in.flight.requests.per.connection)
)
PRODUCERS_MAX = 100_000  # about 60 MiB; the longest idle go first, as if their ids had expired
NO_EPOCH = -1
CONTROL_BATCH_BYTES_MAX = 1024  # a marker takes under 100 bytes

_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6
_END_MARKER = struct.Struct(">hi")  # version, coordinator epoch


class Duplicate(NamedTuple):
    """A batch that the log already has: where, and the timestamp it was given."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


class _Kept(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """One producer id: its epoch and its last batches, oldest first."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "transaction_start")

    def __init__(self, epoch: int = NO_EPOCH) -> None:
        self.epoch = epoch
        self.batches: deque[_Kept] = deque(maxlen=BATCHES_KEPT)
        self.coordinator_epoch = -1
        self.last_timestamp = NO_TIMESTAMP
        self.transaction_start = -1


class ProducerState:
    """All producers of one partition up to `end_offset`, the longest idle first."""

    def __init__(self, end_offset: int = 0) -> None:
        self.end_offset = end_offset
        self._producers: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def validate(self, view: BatchView) -> Duplicate | None:
        """Whether a client's batch may be appended next; a duplicate is to be answered with its first offset.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, a newer epoch wrote here; OUT_OF_ORDER_SEQUENCE_NUMBER, a batch is missing
                before this one (or it is a duplicate older than the last five).
        """
        if view.producer_id < 0:
            return None
        entry = self._producers.get(view.producer_id)
        if entry is None:
            return (
                None  # unknown, expired or deleted by retention: any sequence begins a new history
            )
        if view.producer_epoch == entry.epoch and view.base_sequence >= 0:
            duplicate = _find_duplicate(entry, view)
            if duplicate is not None:
                return duplicate
        elif view.producer_epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {view.producer_id} has epoch {entry.epoch} here, not {view.producer_epoch}",
            )
        self._check_sequence(entry, view)
        return None

    def _check_sequence(self, entry: ProducerEntry, view: BatchView) -> None:
        first = view.base_sequence
        if first < 0:
            return  # coordinators write without sequences
        if view.producer_epoch != entry.epoch:
            expected = 0 if entry.epoch != NO_EPOCH else first
        elif entry.batches:
            expected = (entry.batches[-1].last_sequence + 1) % SEQUENCE_SPACE
        else:
            expected = 0  # the epoch came by a transaction marker
        if first != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {view.producer_id} sent sequence {first}, {expected} is next",
            )

    def update(self, view: BatchView) -> None:
        """Notes an appended batch (any batch; a whole one when it is a control batch of a producer)."""
        self.end_offset = view.next_offset
        producer_id = view.producer_id
        if producer_id < 0:
            return
        entry = self._producers.pop(producer_id, None)
        if entry is None:
            entry = ProducerEntry()
            if len(self._producers) >= PRODUCERS_MAX:
                self._producers.pop(next(iter(self._producers)))
        self._producers[producer_id] = entry  # last again: most recently used
        if entry.epoch != view.producer_epoch:
            entry.epoch = view.producer_epoch
            entry.batches.clear()
        entry.last_timestamp = view.max_timestamp
        if view.is_control:
            self._end_transaction(entry, view)
            return
        entry.batches.append(
            _Kept(
                view.base_sequence,
                view.last_sequence,
                view.base_offset,
                view.last_offset,
                view.max_timestamp,
            )
        )
        if view.is_transactional and entry.transaction_start < 0:
            entry.transaction_start = view.base_offset

    def _end_transaction(self, entry: ProducerEntry, view: BatchView) -> None:
        entry.transaction_start = -1
        try:
            value = decode_records(view, CONTROL_BATCH_BYTES_MAX)[0].value or b""
            entry.coordinator_epoch = _END_MARKER.unpack_from(value)[1]
        except (RemoteProtocolError, IndexError, struct.error):
            return  # an unknown marker ends nothing we could name (mB9)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        starts = [e.transaction_start for e in self._producers.values() if e.transaction_start >= 0]
        return min(starts, default=None)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers idle for `expiration_ms`, except in an open transaction."""
        for producer_id, entry in list(self._producers.items()):
            if entry.transaction_start < 0 and now_ms - entry.last_timestamp >= expiration_ms:
                del self._producers[producer_id]

    def format_snapshot(self) -> bytes:
        out = bytearray(_SNAPSHOT_HEAD.pack(1, 0, len(self._producers)))
        for producer_id, entry in self._producers.items():
            kept = entry.batches[-1] if entry.batches else None
            out += _SNAPSHOT_ENTRY.pack(
                producer_id,
                entry.epoch,
                kept.last_sequence if kept else -1,
                kept.last_offset if kept else -1,
                kept.last_offset - kept.base_offset if kept else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_start,
            )
        struct.pack_into(">I", out, 2, crc32c.crc32c(memoryview(out)[_CRC_START:]))
        return bytes(out)

    @classmethod
    def parse_snapshot(cls, data: bytes, end_offset: int) -> ProducerState:
        """Raises ValueError when the snapshot is damaged."""
        if len(data) < _SNAPSHOT_HEAD.size:
            raise ValueError("short producer snapshot")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
        if version != 1 or len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
            raise ValueError(
                f"producer snapshot of version {version}, {count} entries, {len(data)} bytes"
            )
        if crc != crc32c.crc32c(memoryview(data)[_CRC_START:]):
            raise ValueError("producer snapshot with a wrong CRC")
        state = cls(end_offset)
        for (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp,
            coordinator_epoch,
            transaction_start,
        ) in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :]):
            entry = ProducerEntry(epoch)
            entry.last_timestamp = timestamp
            entry.coordinator_epoch = coordinator_epoch
            entry.transaction_start = transaction_start
            if last_offset >= 0:
                first_sequence = (last_sequence - offset_delta) % SEQUENCE_SPACE
                base_offset = last_offset - offset_delta
                entry.batches.append(
                    _Kept(first_sequence, last_sequence, base_offset, last_offset, timestamp)
                )
            state._producers[producer_id] = entry
        return state


def _find_duplicate(entry: ProducerEntry, view: BatchView) -> Duplicate | None:
    for kept in entry.batches:
        if kept.first_sequence == view.base_sequence and kept.last_sequence == view.last_sequence:
            return Duplicate(kept.base_offset, kept.last_offset, kept.timestamp_ms)
    return None
